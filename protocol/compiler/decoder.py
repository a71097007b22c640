"""Write the decoder of one message version.

Fixed-size values are not read where they are declared: they collect in `_pending` until something
of variable size needs its length, which joins them as the last value of one `struct` call.

`length` below is always the number on the wire: compact ones are one more than the count, 0 for
null; classic ones are the count itself, negative for null.  `bias` is that difference.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from minikafka.protocol.compiler import runtime
from minikafka.protocol.compiler.source import Source
from minikafka.protocol.schema import Field, Kind, Struct, Wire
from minikafka.protocol.varint import read_uvarint

_NAMES: dict[str, Any] = {
    "new": object.__new__,
    "view": memoryview,
    "read_uvarint": read_uvarint,
    "count_tags": runtime.count_tags,
    "skip_tags": runtime.skip_tags,
    "long_length": runtime.long_length,
    "long_string_length": runtime.long_string_length,
    "unexpected_null": runtime.unexpected_null,
    "bad_count": runtime.bad_count,
    "bad_tag_size": runtime.bad_tag_size,
    "too_short": runtime.too_short,
}


def compile_decoder(cls: type[Struct], version: int, flexible: bool, max_elements: int) -> Any:
    """A function `(buf, pos) -> message`."""
    writer = _Decoder(f"decode {cls.__name__} v{version}", version, flexible)
    with writer.source.block("def made(buf, pos):"):
        writer.source("end = len(buf)")
        writer.source(f"left = end if end < {max_elements} else {max_elements}")
        if _has_records(cls):
            writer.source("records = view(buf)")
        writer.struct(cls, "it")
        writer.source("if pos > end: too_short(end, pos)")
        writer.source("return it")
    return writer.source.build()


def _has_records(cls: type[Struct]) -> bool:
    return any(
        f.wire.kind is Kind.RECORDS if not isinstance(f.wire, type) else _has_records(f.wire) for f in cls.fields
    )


class _Decoder:
    def __init__(self, title: str, version: int, flexible: bool) -> None:
        self.source = Source(title, _NAMES)
        self.version = version
        self.flexible = flexible
        self.bias = 1 if flexible else 0
        self._pending: list[tuple[str, str]] = []

    # ------------------------------------------------------------------------- fixed-size reads

    def fixed(self, target: str, format: str) -> None:
        self._pending.append((target, format))

    def flush(self) -> None:
        """Emit the one `struct` call for all that is pending."""
        pending, self._pending = self._pending, []
        formats = "".join(format for _, format in pending)
        if formats == "B":
            self.source(f"{pending[0][0]} = buf[pos]; pos += 1")
        elif pending:
            shape = struct.Struct(">" + formats)
            targets = "".join(f"{target}, " for target, _ in pending)
            self.source(f"{targets}= {self.source.constant(shape.unpack_from, 'unpack')}(buf, pos)")
            self.source(f"pos += {shape.size}")

    def length(self, format: str) -> str:
        """Read a length, in `format` where lengths are not compact; of a compact one the first byte."""
        length = self.source.fresh("n")
        self.fixed(length, "B" if self.flexible else format)
        self.flush()
        return length

    def check_length(self, length: str, name: str, read_long: str = "long_length") -> None:
        """Read a compact length to its end; refuse null."""
        if self.flexible:
            self.source(f"if not 0 < {length} < 128: {length}, pos = {read_long}(buf, pos, {length}, {name!r})")
        else:
            self.source(f"if {length} < 0: unexpected_null({name!r})")

    @contextmanager
    def unless_null(self, length: str, name: str, target: str, read_long: str = "long_length") -> Iterator[None]:
        """A branch for null, and one in which the length is read to its end."""
        with self.source.block(f"if {length} {'== 0' if self.flexible else '< 0'}:"):
            self.source(f"{target} = None")
        with self.source.block("else:"):
            if self.flexible:
                self.source(f"if {length} > 127: {length}, pos = {read_long}(buf, pos, {length}, {name!r})")
            yield

    # ---------------------------------------------------------------------------------- structs

    def struct(self, cls: type[Struct], target: str) -> None:
        self.source(f"{target} = new({self.source.constant(cls, 'C')})")
        present = [f for f in cls.fields if f.exists(self.version)]
        plain = [f for f in present if not f.is_tagged]
        for f in cls.fields:
            if f not in plain:
                self.source(f"{target}.{f.name} = {self._absent(f)}")
        for f in plain:
            self.value(f, f"{target}.{f.name}")
        if self.flexible:
            self._tags(target, [f for f in present if f.is_tagged])
        self.flush()

    def _absent(self, f: Field) -> str:
        value = f.absent
        return "[]" if value == [] else self.source.constant(value)

    def _tags(self, target: str, known: list[Field]) -> None:
        count = self.source.fresh("tags")
        self.fixed(count, "B")
        self.flush()
        if not known:
            self.source(f"if {count}: pos, left = skip_tags(buf, pos - 1, left)")
            return
        tag, size, stop = (self.source.fresh(p) for p in ("tag", "size", "stop"))
        with self.source.block(f"if {count}:"):
            self.source(f"{count}, pos = count_tags(buf, pos - 1, left); left -= {count}")
            with self.source.block(f"for _ in range({count}):"):
                self.source(f"{tag}, pos = read_uvarint(buf, pos)")
                self.source(f"{size}, pos = read_uvarint(buf, pos)")
                self.source(f"{stop} = pos + {size}")
                for f in known:
                    with self.source.block(f"if {tag} == {f.spec.tag}:"):
                        self.tagged(f, f"{target}.{f.name}")
                        self.source(f"if pos != {stop}: bad_tag_size({tag}, pos, {stop})")
                self.source(f"pos = {stop}")

    def tagged(self, f: Field, target: str) -> None:
        # A tagged struct is there or not; it never carries the null marker of its own.
        if isinstance(f.wire, type) and not f.is_list:
            inner = self.source.fresh("s")
            self.struct(f.wire, inner)
            self.source(f"{target} = {inner}")
        else:
            self.value(f, target)
        self.flush()

    # ----------------------------------------------------------------------------------- values

    def value(self, f: Field, target: str) -> None:
        nullable = f.may_be_null(self.version)
        if f.is_list:
            self._list(f, target, nullable)
        elif isinstance(f.wire, type):
            self._nested(f.wire, target, nullable)
        elif f.is_fixed:
            self.fixed(target, f.wire.format)
        else:
            self._bytes(f.wire, f.name, target, nullable)

    def _bytes(self, wire: Wire, name: str, target: str, nullable: bool) -> None:
        length = self.length("h" if wire.kind is Kind.STRING else "i")
        stop = self.source.fresh("stop")
        taken = {
            Kind.STRING: f"buf[pos:{stop}].decode()",
            Kind.BYTES: f"bytes(buf[pos:{stop}])",
            Kind.RECORDS: f"records[pos:{stop}]",
        }[wire.kind]
        step = f"{stop} = pos + {length}{' - 1' if self.flexible else ''}"
        read = f"{step}; {target} = {taken}; pos = {stop}"
        read_long = "long_string_length" if wire.kind is Kind.STRING else "long_length"
        if nullable:
            with self.unless_null(length, name, target, read_long):
                self.source(read)
        else:
            self.check_length(length, name, read_long)
            self.source(read)

    def _nested(self, cls: type[Struct], target: str, nullable: bool) -> None:
        inner = self.source.fresh("s")
        self.flush()
        if not nullable:
            self.struct(cls, inner)
            self.source(f"{target} = {inner}")
            return
        marker = self.source.fresh("marker")
        self.fixed(marker, "b")
        self.flush()
        with self.source.block(f"if {marker} < 0:"):
            self.source(f"{target} = None")
        with self.source.block("else:"):
            self.struct(cls, inner)
            self.source(f"{target} = {inner}")

    # ----------------------------------------------------------------------------------- arrays

    def _list(self, f: Field, target: str, nullable: bool) -> None:
        length = self.length("i")
        # Empty arrays are the most frequent ones and need none of what follows.
        with self.source.block(f"if {length} == {self.bias}:"):
            self.source(f"{target} = []")
        with self.source.block("else:"):
            if nullable:
                with self.unless_null(length, f.name, target):
                    self._elements(f, target, length)
            else:
                self.check_length(length, f.name)
                self._elements(f, target, length)

    def _elements(self, f: Field, target: str, length: str) -> None:
        # A compact length costs the budget one more than its count; the budget is that generous.
        self.source(f"if {length} > left: bad_count({length}, left, {f.name!r})")
        self.source(f"left -= {length}")
        if not isinstance(f.wire, type) and f.wire.format:
            rows = runtime.Rows("", f.wire.format, "", bias=self.bias, method="unpack_from")
            width = struct.calcsize(">" + f.wire.format)
            self.source(f"{target} = [*{self.source.constant(rows, 'rows')}[{length}](buf, pos)]")
            self.source(f"pos += {width} * {length}" + (f" - {width}" if self.flexible else ""))
            return
        items, item = self.source.fresh("items"), self.source.fresh("s")
        self.source(f"{items} = {target} = []")
        with self.source.block(f"for _ in range({'1, ' if self.flexible else ''}{length}):"):
            if isinstance(f.wire, type):
                self.struct(f.wire, item)
            else:
                self._bytes(f.wire, f.name, item, nullable=False)
            self.source(f"{items}.append({item})")
