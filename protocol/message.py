"""What travels whole: requests, responses, and the records of Kafka's internal topics.

The one boundary where whatever a peer's bytes set off inside a compiled codec becomes a
`DecodeError`.
"""

import struct
from collections.abc import Callable
from typing import Any, ClassVar, Final, Self, cast

from minikafka.protocol.compiler.decoder import compile_decoder
from minikafka.protocol.compiler.encoder import compile_encoder
from minikafka.protocol.errors import DecodeError
from minikafka.protocol.schema import FOREVER, Struct
from minikafka.protocol.varint import Buffer

Decoder = Callable[[bytes | bytearray, int], Struct]
Encoder = Callable[[Struct, bytearray], list[Buffer]]

_decoders: Final[dict[tuple[type[Struct], int], Decoder]] = {}
_encoders: Final[dict[tuple[type[Struct], int], Encoder]] = {}


class Message(Struct):
    """A struct with versions of its own that can be read from and turned into bytes."""

    versions: ClassVar[tuple[int, int]]
    flexible: ClassVar[int] = FOREVER
    max_elements: ClassVar[int] = 1 << 24
    """Array elements and tagged fields one message may hold in all.  An element can take a dozen bytes
    on the wire and hundreds in memory, so the size of a frame alone does not bound what its message
    occupies, nor how long it takes to read."""

    @classmethod
    def decode(cls, buf: bytes | bytearray, version: int, pos: int = 0) -> Self:
        """Read the message at `pos`; what follows it in `buf` is ignored, as Kafka does."""
        decoder = _decoders.get((cls, version)) or _compiled_decoder(cls, version)
        try:
            return cast(Self, decoder(buf, pos))
        except (DecodeError, IndexError, struct.error, UnicodeDecodeError) as error:
            raise DecodeError(f"{cls.__name__} v{version}: {error}") from error

    def encode(self, version: int, out: bytearray | None = None) -> list[Buffer]:
        """The message as parts to be written one after the other, large records uncopied.

        Fields that the version lacks are left out, whatever their value: who must not lose one, such as
        a group instance id, looks at the version first.  A number that does not fit its field and a string
        of more than 32,767 bytes are a struct.error.

        `out`, when given, holds what goes before the message (a frame's size and header) and
        becomes the beginning of the first part.
        """
        cls = type(self)
        encoder = _encoders.get((cls, version)) or _compiled_encoder(cls, version)
        return encoder(self, bytearray() if out is None else out)

    @classmethod
    def supports(cls, version: int) -> bool:
        return cls.versions[0] <= version <= cls.versions[1]

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return version >= cls.flexible


class Request(Message):
    """What a client or another broker asks."""

    api_key: ClassVar[int]
    # Anyone may send one.  The largest elements (a topic to create, a partition to fetch) occupy some 350 bytes
    # and what their strings hold: 262,144 of them come to about 90 MB.
    max_elements: ClassVar[int] = 1 << 18


class Response(Message):
    """What a broker answers."""

    api_key: ClassVar[int]


class VersionPrefixed(Message):
    """A message that stands alone, in a record or in a member's metadata, after its own version."""

    reads_newer: ClassVar[bool] = False
    """Whether a version above ours is read as our highest, or is a DecodeError."""

    @classmethod
    def parse(cls, buf: bytes | bytearray) -> Self:
        """Read the version, then the message."""
        if len(buf) < 2:
            raise DecodeError(f"{cls.__name__} has {len(buf)} bytes, its version takes two")
        version = int.from_bytes(buf[:2], "big", signed=True)
        if cls.reads_newer:
            version = min(version, cls.versions[1])
        if not cls.supports(version):
            raise DecodeError(f"{cls.__name__} has no version {version}")
        return cls.decode(buf, version, 2)

    def dump(self, version: int) -> bytes:
        return b"".join(self.encode(version, bytearray(version.to_bytes(2, "big"))))


def _compiled_decoder(cls: type[Message], version: int) -> Decoder:
    _require_version(cls, version)
    made: Decoder = compile_decoder(cls, version, cls.is_flexible(version), cls.max_elements)
    return _decoders.setdefault((cls, version), made)


def _compiled_encoder(cls: type[Message], version: int) -> Encoder:
    _require_version(cls, version)
    made: Encoder = compile_encoder(cls, version, cls.is_flexible(version))
    return _encoders.setdefault((cls, version), made)


def _require_version(cls: type[Message], version: int) -> None:
    if not cls.supports(version):
        low, high = cls.versions
        raise ValueError(f"{cls.__name__} has versions {low} to {high}, not {version}")


def codec_source(cls: type[Message], version: int) -> tuple[str, str]:
    """The generated Python of a version's decoder and encoder, for reading."""
    decoder: Any = _compiled_decoder(cls, version)
    encoder: Any = _compiled_encoder(cls, version)
    return decoder.source, encoder.source
