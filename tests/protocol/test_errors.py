"""The error codes are Kafka's, each has an exception, and both know whether trying again can help."""

import pickle
from typing import Any, cast

import kafka.errors
import pytest

from minikafka.protocol import errors
from minikafka.protocol.errors import (
    CorruptRecord,
    DecodeError,
    ErrorCode,
    InvalidMetadataError,
    InvalidTopicError,
    KafkaError,
    NotLeaderOrFollowerError,
    RetriableError,
    UnknownServerError,
    UnsupportedMagic,
    error_for,
)
from minikafka.protocol.messages.topics import CreatableTopicResult, CreateTopicsResponse

# The codes whose exception in Kafka 3.9 is a RetriableException, and of these the InvalidMetadataExceptions.
REFRESH_METADATA = {3, 5, 6, 9, 13, 56, 72, 74, 80, 83, 84, 100, 103}
RETRIABLE = REFRESH_METADATA | {2, 7, 14, 15, 16, 19, 20, 41, 51, 70, 71, 75, 78, 88, 89, 106, 122, 123}

# Where kafka-python keeps an older name of Kafka's, or one of its own.
OTHER_NAMES = {
    -1: "UNKNOWN",
    0: "NO_ERROR",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MESSAGE_SIZE_TOO_LARGE",
    17: "INVALID_TOPIC",
    39: "INVALID_REPLICATION_ASSIGNMENT",
}

# kafka-python does not retry on CORRUPT_MESSAGE. Kafka does, since a bad checksum is mostly the network's fault.
OTHERWISE_RETRIABLE = {2}

ERRORS = [code for code in ErrorCode if code is not ErrorCode.NONE]


def theirs() -> dict[int, Any]:
    """kafka-python's exceptions by code."""
    base = kafka.errors.BrokerResponseError
    classes = [cls for cls in vars(kafka.errors).values() if isinstance(cls, type) and issubclass(cls, base)]
    return {cls.errno: cls for cls in cast("list[Any]", classes) if cls.errno is not None}


def test_every_number_has_a_name() -> None:
    assert [*ErrorCode] == [*range(-1, 128)]


def test_names_are_those_of_kafka_python() -> None:
    names = {code: cls.message for code, cls in theirs().items() if code <= max(ErrorCode)}
    assert len(names) > 120
    assert names == {code: OTHER_NAMES.get(code, ErrorCode(code).name) for code in names}


def test_retriable_are_those_of_kafka() -> None:
    assert {code for code in ERRORS if error_for(code).retriable} == RETRIABLE
    assert {code for code in ERRORS if error_for(code).refresh_metadata} == REFRESH_METADATA


def test_retriable_are_those_of_kafka_python() -> None:
    differing = {
        code for code, cls in theirs().items() if code in ERRORS and error_for(code).retriable != cls.retriable
    }
    assert differing == OTHERWISE_RETRIABLE


@pytest.mark.parametrize("code", ERRORS)
def test_every_code_has_a_class(code: ErrorCode) -> None:
    error = error_for(code)
    assert error.code is code
    assert error.wire_code == code
    assert isinstance(error, RetriableError) == error.retriable
    assert isinstance(error, InvalidMetadataError) == error.refresh_metadata
    assert getattr(errors, type(error).__name__) is type(error)
    assert error.message and error.message in str(error) and code.name in str(error)


def test_classes_differ() -> None:
    assert len({type(error_for(code)) for code in ERRORS}) == len(ERRORS)


def test_message_of_the_answer() -> None:
    error = error_for(6, "moved to broker 3")
    assert isinstance(error, NotLeaderOrFollowerError)
    assert str(error) == "NOT_LEADER_OR_FOLLOWER (6): moved to broker 3"


def test_number_without_a_name() -> None:
    error = error_for(999)
    assert isinstance(error, UnknownServerError)
    assert error.wire_code == 999
    assert "999" in str(error)
    assert not error.retriable


def test_success_is_not_an_error() -> None:
    with pytest.raises(ValueError, match="success"):
        error_for(0)


@pytest.mark.parametrize("error", [error_for(6), error_for(6, "why"), error_for(999)], ids=str)
def test_copies_are_alike(error: KafkaError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)


def test_bad_messages_and_bad_records_are_told_apart() -> None:
    assert not issubclass(CorruptRecord, DecodeError) and not issubclass(DecodeError, CorruptRecord)
    assert issubclass(UnsupportedMagic, CorruptRecord)
    assert "version 1" in str(UnsupportedMagic(1))


@pytest.mark.parametrize("letter", ["x", "\N{EURO SIGN}", "\N{GRINNING FACE}"])
def test_error_message_always_fits_into_a_string_of_the_wire(letter: str) -> None:
    error = InvalidTopicError(letter * 40_000)
    result = CreatableTopicResult(name="t", configs=[], error_code=error.code, error_message=error.message)
    for version in (2, 5):
        assert CreateTopicsResponse(topics=[result]).encode(version, bytearray())
