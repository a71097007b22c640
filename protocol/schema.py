"""Declare a Kafka message once, for all its versions.

A message is a class whose annotations are its wire types; `field` adds the versions in which a
field exists and what it is when it does not::

    class ProducePartition(Struct):
        index: Int32
        records: Records | None
        log_start_offset: Int64 = field(default=-1, since=5)

One object serves every version; the version is an argument of `decode` and `encode` only.
Nothing interprets the declaration at run time: the first use of a version compiles a codec for
exactly that version (`message`), so declaring is cheap and an unused version costs nothing.

A field without a default must be given to the constructor; checkers and the constructor agree.
"""

import sys
import types
import typing
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, ClassVar, Final, NamedTuple, dataclass_transform

from minikafka.protocol.compiler.source import Source
from minikafka.protocol.varint import Buffer

FOREVER: Final = 1 << 15
"""Above every int16 version, so `until=FOREVER` means "to this day"."""


class Kind(Enum):
    """How a value is laid out; flexible versions change only how lengths are written."""

    FIXED = "fixed"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"


class Wire(NamedTuple):
    """The wire type behind an annotation; `format` is the struct letter of fixed-size kinds."""

    kind: Kind
    format: str = ""


Bool = Annotated[bool, Wire(Kind.FIXED, "?")]
Int8 = Annotated[int, Wire(Kind.FIXED, "b")]
Int16 = Annotated[int, Wire(Kind.FIXED, "h")]
Int32 = Annotated[int, Wire(Kind.FIXED, "i")]
Int64 = Annotated[int, Wire(Kind.FIXED, "q")]
Float64 = Annotated[float, Wire(Kind.FIXED, "d")]
Uuid = Annotated[bytes, Wire(Kind.FIXED, "16s")]
String = Annotated[str, Wire(Kind.STRING)]
Bytes = Annotated[bytes, Wire(Kind.BYTES)]
Records = Annotated[Buffer, Wire(Kind.RECORDS)]
"""Record batches, never copied: a view of the frame when decoded, a part of its own when encoded."""

ZERO_UUID: Final = bytes(16)


class _Missing(Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING


class Spec(NamedTuple):
    """What `field` says about a field beyond its type."""

    default: Any = MISSING
    factory: Callable[[], list[Any]] | None = None
    since: int = 0
    until: int = FOREVER
    tag: int | None = None
    null_since: int = 0
    null_until: int = FOREVER
    secret: bool = False


def field(
    *,
    default: Any = MISSING,
    factory: Callable[[], list[Any]] | None = None,
    since: int = 0,
    until: int = FOREVER,
    tag: int | None = None,
    null_since: int = 0,
    null_until: int = FOREVER,
    secret: bool = False,
) -> Any:
    """Say in which versions a field exists, may be null, or travels under a tag.

    `default` and `factory` are the keywords type checkers look for (PEP 681) to decide whether
    the constructor argument is optional.  A `secret` never shows in `repr`, and so in no log.
    """
    return Spec(default, factory, since, until, tag, null_since, null_until, secret)


class Field(NamedTuple):
    """One parsed declaration; `wire` is the element's type when `is_list`."""

    name: str
    wire: "Wire | type[Struct]"
    is_list: bool
    nullable: bool
    spec: Spec

    def exists(self, version: int) -> bool:
        return self.spec.since <= version <= self.spec.until

    def may_be_null(self, version: int) -> bool:
        return self.nullable and self.spec.null_since <= version <= self.spec.null_until

    @property
    def is_fixed(self) -> bool:
        return not self.is_list and isinstance(self.wire, Wire) and self.wire.kind is Kind.FIXED

    @property
    def is_tagged(self) -> bool:
        return self.spec.tag is not None

    @property
    def absent(self) -> Any:
        """The value of a field that a version does not carry; a factory stands for a fresh list."""
        if self.spec.default is not MISSING:
            return self.spec.default
        if self.spec.factory is not None:
            return self.spec.factory()
        if self.is_list and not self.nullable:
            return []
        if self.nullable or not isinstance(self.wire, Wire):
            return None
        return _ZERO[self.wire.kind, self.wire.format]


_ZERO: Final[dict[tuple[Kind, str], Any]] = {
    (Kind.FIXED, "?"): False,
    (Kind.FIXED, "b"): 0,
    (Kind.FIXED, "h"): 0,
    (Kind.FIXED, "i"): 0,
    (Kind.FIXED, "q"): 0,
    (Kind.FIXED, "d"): 0.0,
    (Kind.FIXED, "16s"): ZERO_UUID,
    (Kind.STRING, ""): "",
    (Kind.BYTES, ""): b"",
    (Kind.RECORDS, ""): b"",
}


def _parse(name: str, hint: Any, spec: Spec) -> Field:
    if isinstance(hint, str):
        raise TypeError(f"{name}: {hint!r} is text, not a type; leave out the quotes and the __future__ import")
    nullable = is_list = False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint,) = (arm for arm in typing.get_args(hint) if arm is not type(None))
        nullable = True
    if typing.get_origin(hint) is list:
        (hint,) = typing.get_args(hint)
        is_list = True
    wire = hint.__metadata__[0] if typing.get_origin(hint) is Annotated else hint
    if is_list and isinstance(wire, Wire) and len(wire.format) > 1:
        # The codecs put the count before the letter, and `2` and `16s` make `216s`.  Kafka 3.9 has no such array.
        raise TypeError(f"{name}: arrays of {wire.format} are not supported")
    return Field(name, wire, is_list, nullable, spec)


def _annotations(space: dict[str, Any]) -> dict[str, Any]:
    """The annotations of a class body that has just run; Python 3.14 keeps them as a function."""
    if sys.version_info >= (3, 14) and "__annotations__" not in space:
        import annotationlib

        annotate = annotationlib.get_annotate_from_class_namespace(space)
        if annotate is None:
            return {}
        return annotationlib.call_annotate_function(annotate, annotationlib.Format.VALUE)
    return typing.cast(dict[str, Any], space.get("__annotations__", {}))


class StructMeta(type):
    """Turns the annotations of a class body into slots and parsed fields."""

    fields: tuple[Field, ...]

    def __new__(meta, name: str, bases: tuple[type, ...], space: dict[str, Any], **options: Any) -> "StructMeta":
        if any(getattr(base, "fields", ()) for base in bases):
            raise TypeError(f"{name}: fields are not inherited, declare them again")
        hints = {n: h for n, h in _annotations(space).items() if typing.get_origin(h) is not ClassVar}
        given = {n: space.pop(n, MISSING) for n in hints}
        specs = {n: g if isinstance(g, Spec) else Spec(default=g) for n, g in given.items()}
        space["__slots__"] = tuple(hints)
        made = super().__new__(meta, name, bases, space)
        made.fields = tuple(_parse(n, hints[n], specs[n]) for n in hints)
        for option, value in options.items():
            setattr(made, option, value)
        return made

    def __init__(cls, *_args: Any, **_options: Any) -> None:
        """Options such as `api_key=0` were consumed by `__new__`."""


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class Struct(metaclass=StructMeta):
    """Fields that belong together; the elements of a message's arrays are structs."""

    def __init__(self, **values: Any) -> None:
        # The first construction of a class compiles its real constructor and puts it in this
        # one's place: some 350 classes are declared, a process constructs few of them.
        cls = type(self)
        constructor = _compile_constructor(cls)
        setattr(cls, "__init__", constructor)  # noqa: B010 - mypy forbids assigning to a method
        constructor(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in type(self).fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={_shown(f, getattr(self, f.name))}" for f in type(self).fields)
        return f"{type(self).__name__}({shown})"


def _compile_constructor(cls: type[Struct]) -> Callable[..., None]:
    source = Source(f"{cls.__name__}.__init__")
    missing = source.constant(MISSING)
    arguments, body = [], []
    for f in cls.fields:
        required = f.spec.default is MISSING and f.spec.factory is None
        fresh = f.spec.factory is not None
        default = "" if required else f"={missing if fresh else source.constant(f.spec.default)}"
        arguments.append(f"{f.name}{default}")
        body.append(f"self.{f.name} = " + (f"[] if {f.name} is {missing} else {f.name}" if fresh else f.name))
    with source.block(f"def made(self{', *, ' if arguments else ''}{', '.join(arguments)}):"):
        for line in body or ["pass"]:
            source(line)
    made: Callable[..., None] = source.build()
    return made


def _shown(f: Field, value: Any) -> str:
    if f.spec.secret and value:
        return "<secret>"
    if isinstance(value, memoryview) or (isinstance(value, bytes | bytearray) and len(value) > 64):
        return f"<{len(value)} bytes>"
    return repr(value)
