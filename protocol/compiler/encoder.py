"""Write the encoder of one message version.

The mirror of `decoder`: fixed-size values collect in a run until something of variable size is
due.  Compact lengths join the run as single bytes and one array of fixed-size elements may stand in
it, so a run is one `pack` as long as its counts are below 127; a second branch writes it piece by
piece when one is not.  The encoder appends to `out`; records above a small size become a part of
their own, untouched.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from minikafka.protocol.compiler import runtime
from minikafka.protocol.compiler.source import Source
from minikafka.protocol.schema import Field, Kind, Struct, Wire
from minikafka.protocol.varint import write_uvarint

_NAMES: dict[str, Any] = {
    "write_uvarint": write_uvarint,
    "write_long_string_length": runtime.write_long_string_length,
}


def compile_encoder(cls: type[Struct], version: int, flexible: bool) -> Any:
    """A function `(message, out) -> parts`, the first part beginning with `out`."""
    writer = _Encoder(f"encode {cls.__name__} v{version}", version, flexible)
    with writer.source.block("def made(it, out):"):
        writer.source("parts = []")
        writer.struct(cls, "it")
        writer.source("parts.append(out)")
        writer.source("return parts")
    return writer.source.build()


class _Piece(NamedTuple):
    """One pending value: `length_of` names the count of compact lengths and arrays.

    `write_long` is what writes a compact length that takes more than a byte.
    """

    value: str
    format: str
    length_of: str = ""
    is_array: bool = False
    write_long: str = ""


class _Run:
    """Pieces that may go out together."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.pieces: list[_Piece] = []

    @property
    def has_array(self) -> bool:
        return any(piece.is_array for piece in self.pieces)

    def flush(self) -> None:
        pieces, self.pieces = self.pieces, []
        compact = [piece.length_of for piece in pieces if piece.length_of and not piece.is_array]
        if not compact:
            self._write_together(pieces)
            return
        with self.source.block(f"if {' and '.join(f'{count} < 127' for count in compact)}:"):
            self._write_together(pieces)
        with self.source.block("else:"):
            self._write_apart(pieces)

    def _write_together(self, pieces: list[_Piece]) -> None:
        if len(pieces) == 1 and pieces[0].format == "B":
            self.source(f"out.append({pieces[0].value})")
        elif pieces:
            self.source(f"out += {self._packed(pieces)}")

    def _write_apart(self, pieces: list[_Piece]) -> None:
        """Around each compact length, which is a varint here."""
        start = 0
        for at, piece in enumerate(pieces):
            if piece.length_of and not piece.is_array:
                self._write_together(pieces[start:at])
                self.source(f"{piece.write_long}(out, {piece.value})")
                start = at + 1
        self._write_together(pieces[start:])

    def _packed(self, pieces: list[_Piece]) -> str:
        if all(piece.format == "B" and piece.value.isdigit() for piece in pieces):
            return repr(bytes(int(piece.value) for piece in pieces))
        values = ", ".join(piece.value for piece in pieces)
        for at, piece in enumerate(pieces):
            if piece.is_array:
                head, tail = ("".join(p.format for p in part) for part in (pieces[:at], pieces[at + 1 :]))
                rows = runtime.Rows(head, piece.format, tail, bias=0, method="pack")
                return f"{self.source.constant(rows, 'rows')}[{piece.length_of}]({values})"
        shape = struct.Struct(">" + "".join(piece.format for piece in pieces))
        return f"{self.source.constant(shape.pack, 'pack')}({values})"


class _Encoder:
    def __init__(self, title: str, version: int, flexible: bool) -> None:
        self.source = Source(title, _NAMES)
        self.version = version
        self.flexible = flexible
        self._run = _Run(self.source)

    def fixed(self, value: str, format: str) -> None:
        self._run.pieces.append(_Piece(value, format))

    def flush(self) -> None:
        self._run.flush()

    def length(self, count: str, format: str) -> None:
        """A count, compact or in `format`, which is "h" for strings only."""
        if self.flexible:
            write_long = "write_long_string_length" if format == "h" else "write_uvarint"
            self._run.pieces.append(_Piece(f"{count} + 1", "B", count, write_long=write_long))
        else:
            self.fixed(count, format)

    @contextmanager
    def either(self, condition: str) -> Iterator[None]:
        """Open a branch; what is pending is written in it, and stays pending for the other one."""
        pending = [*self._run.pieces]
        with self.source.block(f"if {condition}:"):
            yield
            self.flush()
        self._run.pieces = pending

    def null(self, format: str) -> None:
        self.fixed("0" if self.flexible else "-1", "B" if self.flexible else format)

    # ---------------------------------------------------------------------------------- structs

    def struct(self, cls: type[Struct], value: str) -> None:
        present = [f for f in cls.fields if f.exists(self.version)]
        for f in present:
            if not f.is_tagged:
                self.value(f, f"{value}.{f.name}")
        if self.flexible:
            self._tags(value, sorted((f for f in present if f.is_tagged), key=_tag_of))
        self.flush()

    def _tags(self, value: str, known: list[Field]) -> None:
        if not known:
            self.fixed("0", "B")
            return
        absent = [self._is_absent(f, f"{value}.{f.name}") for f in known]
        with self.either(" and ".join(absent)):
            self.fixed("0", "B")
        with self.source.block("else:"):
            # Tags are ours and few: their number always fits the one byte of a short varint.
            self.fixed(" + ".join(f"(not {test})" for test in absent), "B")
            self.flush()
            for f, test in zip(known, absent, strict=True):
                with self.source.block(f"if not {test}:"):
                    self._tagged(f, f"{value}.{f.name}")

    def _is_absent(self, f: Field, value: str) -> str:
        if f.absent is None:
            return f"({value} is None)"
        return f"({value} == {'[]' if f.absent == [] else self.source.constant(f.absent)})"

    def _tagged(self, f: Field, value: str) -> None:
        """The size goes before the value, so the value is written aside first."""
        outer = self.source.fresh("outer")
        self.source(f"{outer} = out; out = bytearray()")
        if isinstance(f.wire, type) and not f.is_list:
            self.struct(f.wire, value)
        else:
            self.value(f, value)
        self.flush()
        self.source(f"write_uvarint({outer}, {f.spec.tag}); write_uvarint({outer}, len(out))")
        self.source(f"{outer} += out; out = {outer}")

    # ----------------------------------------------------------------------------------- values

    def value(self, f: Field, value: str) -> None:
        nullable = f.may_be_null(self.version)
        if f.is_fixed and not isinstance(f.wire, type):
            self.fixed(value, f.wire.format)
        elif isinstance(f.wire, type) and not f.is_list:
            self._nested(f.wire, value, nullable)
        else:
            self._counted(f, value, nullable)

    def _counted(self, f: Field, value: str, nullable: bool) -> None:
        """A value that opens with a length."""
        held = self.source.fresh("v")
        self.source(f"{held} = {value}")
        format = "h" if not f.is_list and not isinstance(f.wire, type) and f.wire.kind is Kind.STRING else "i"
        if not nullable:
            self._contents(f, held, format)
            return
        with self.either(f"{held} is None"):
            self.null(format)
        with self.source.block("else:"):
            self._contents(f, held, format)
            self.flush()

    def _contents(self, f: Field, held: str, format: str) -> None:
        if f.is_list:
            self._list(f, held)
        elif not isinstance(f.wire, type):
            self._bytes(f.wire, held, format)

    def _bytes(self, wire: Wire, held: str, format: str) -> None:
        count = self.source.fresh("n")
        if wire.kind is Kind.STRING:
            self.source(f"{held} = {held}.encode()")
        self.source(f"{count} = len({held})")
        self.length(count, format)
        self.flush()
        if wire.kind is not Kind.RECORDS:
            self.source(f"out += {held}")
            return
        with self.source.block(f"if {count} < {runtime.COPY_BELOW_BYTES}:"):
            self.source(f"out += {held}")
        with self.source.block("else:"):
            self.source(f"parts.append(out); parts.append({held}); out = bytearray()")

    def _nested(self, cls: type[Struct], value: str, nullable: bool) -> None:
        held = self.source.fresh("s")
        self.source(f"{held} = {value}")
        if not nullable:
            self.struct(cls, held)
            return
        with self.either(f"{held} is None"):
            self.fixed("-1", "b")
        with self.source.block("else:"):
            self.fixed("1", "b")
            self.struct(cls, held)

    def _list(self, f: Field, held: str) -> None:
        count, item = self.source.fresh("n"), self.source.fresh("s")
        self.source(f"{count} = len({held})")
        if not isinstance(f.wire, type) and f.wire.format:
            if self._run.has_array:
                self.flush()
            self.length(count, "i")
            self._run.pieces.append(_Piece(f"*{held}", f.wire.format, count, is_array=True))
            return
        self.length(count, "i")
        self.flush()
        with self.source.block(f"for {item} in {held}:"):
            if isinstance(f.wire, type):
                self.struct(f.wire, item)
            else:
                self._bytes(f.wire, item, "h" if f.wire.kind is Kind.STRING else "i")


def _tag_of(f: Field) -> int:
    assert f.spec.tag is not None
    return f.spec.tag
