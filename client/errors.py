"""What can go wrong on this side of the wire: one class for each, all of them `KafkaError`s.

An error that a broker answers with is raised as the class of its code (`minikafka.protocol.errors`). The classes here
are for what no broker has said. Where a code means the same, its class is a base too, so that `except NetworkError` or
`except RetriableError` finds both. `retriable` says whether trying again can help.
"""

from __future__ import annotations

from typing import ClassVar

from minikafka.protocol.errors import (
    IllegalSaslStateError,
    KafkaError,
    MessageTooLargeError,
    NetworkError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnknownMemberIdError,
)


class ClientError(KafkaError):
    """Something is wrong on the client's side."""

    fatal: ClassVar[bool] = False
    """Whether the client that raised it is of no more use."""

    def __str__(self) -> str:
        return self.message


class ConfigError(ClientError, ValueError):
    """An option does not exist, or its value cannot be used."""


class ClientClosed(ClientError):
    """The client is closed, or was never started."""


class ConnectionFailed(ClientError, NetworkError):
    """There is no connection to the broker, or it broke; what was asked may have been done."""


class NoBrokersAvailable(ConnectionFailed):
    """No broker could be reached."""


class WrongListener(ConnectionFailed):
    """What listens there does not speak what this client was told to speak: Kafka, or Kafka through TLS or SASL."""


class RequestTimeout(ClientError, RequestTimedOutError):
    """No answer came in time; what was asked may have been done."""

    # A broker that does not answer may not be what it was any more, for the others.
    refresh_metadata = True


class AuthenticationFailed(ClientError, SaslAuthenticationFailedError):
    """The broker did not accept the credentials, or did not prove that it is the one it should be."""


class BadServerSignature(AuthenticationFailed, IllegalSaslStateError):
    """The server could not prove that it knows the password: it may be an impostor."""


class SerializationFailed(ClientError, ValueError):
    """A key, a value, a header or a timestamp could not be turned into bytes, or back."""


class RecordTooLarge(ClientError, MessageTooLargeError):
    """A record alone is larger than a request may be; it was not sent."""


class DeliveryTimeout(ClientError, RequestTimedOutError):
    """The record was not acknowledged within `delivery_timeout_ms`; it may have been written."""


class IllegalState(ClientError, RuntimeError):
    """The call does not fit what the client is doing, such as a commit without a transaction."""


class CommitFailed(ClientError, UnknownMemberIdError):
    """The offsets were not committed, since the group has given the partitions to others or is doing so."""


class TransactionFailed(ClientError):
    """The transaction cannot be committed; abort it, then begin another."""


class ProducerFailed(ClientError):
    """The producer cannot go on and must be closed: another one has its transactional id, or it lost its place."""

    fatal = True
