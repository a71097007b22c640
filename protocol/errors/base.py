"""What can be wrong: the peer's bytes, a record batch, or what the peer asked for.

- `DecodeError`: the bytes are not a message. There is nothing to answer, so the connection is closed.
- `CorruptRecord`: the message is fine, a record batch inside it is not. The answer is CORRUPT_MESSAGE or
  INVALID_RECORD for that partition, and the connection lives; therefore the two share no base of ours.
- `KafkaError`: a code of the protocol as an exception. A broker raises it to answer with the code, a client raises it
  for the code that it was answered with. Whether trying again can help is a property of the class.
"""

from __future__ import annotations

from typing import ClassVar, Final

from minikafka.protocol.errors.codes import ErrorCode

_MESSAGE_CHARS_MAX: Final = 32_767 // 4
"""A string on the wire has 32,767 bytes at most, and a character up to four: a name or a list that a peer has sent must
not make an answer that cannot be encoded."""

CLASS_BY_CODE: dict[int, type[KafkaError]] = {}


class DecodeError(ValueError):
    """The peer's bytes are not a valid message."""


class CorruptRecord(Exception):
    """The bytes of a record batch are bad; the text says what and where."""


class InflatesTooFar(CorruptRecord):
    """Compressed data inflate to more than was asked for; they may be good for somebody with more room."""


class RecordTooLarge(CorruptRecord):
    """A record takes more bytes than its reader wants to have in memory; the others of its batch can be read."""

    def __init__(self, offset: int, size: int, limit: int) -> None:
        # Exactly the arguments given, so that copies and pickles are made from them.
        super().__init__(offset, size, limit)
        self.offset = offset
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return f"the record at offset {self.offset} takes {self.size} bytes, and the limit is {self.limit}"


class UnsupportedMagic(CorruptRecord):
    """The batch has a format before version 2, which is recognised but not read."""

    def __init__(self, magic: int) -> None:
        super().__init__(magic)
        self.magic = magic

    def __str__(self) -> str:
        return f"record format version {self.magic} is not supported"


class KafkaError(Exception):
    """An error that has a code; one class per code, all in `minikafka.protocol.errors`."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    retriable: ClassVar[bool] = False
    # Whether a client should fetch metadata anew before it tries again.
    refresh_metadata: ClassVar[bool] = False

    def __init_subclass__(cls, code: ErrorCode | None = None) -> None:
        if code is not None:
            cls.code = code
            CLASS_BY_CODE[code] = cls

    def __init__(self, message: str | None = None) -> None:
        # Exactly the arguments given, so that copies and pickles are made from them.
        super().__init__(*(() if message is None else (message,)))
        # The docstring is gone under `python -OO`.
        self.message = (message or type(self).__doc__ or self.code.name)[:_MESSAGE_CHARS_MAX]
        # Differs from `code` only for numbers that this version has no name for.
        self.wire_code = int(self.code)

    def __str__(self) -> str:
        return f"{self.code.name} ({self.wire_code}): {self.message}"


class RetriableError(KafkaError):
    """Passing trouble: the same request may succeed later."""

    retriable = True


class InvalidMetadataError(RetriableError):
    """What the sender believes of the cluster is out of date: refresh metadata, then try again."""

    refresh_metadata = True
