"""The public methods of a client's class, each with arguments that it accepts."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, NamedTuple

from minikafka.client import Delivery, NewTopic, TopicPartition
from minikafka.client.admin import ConfigResource, FeatureUpdate, QuotaEntity, Replica, ScramDeletion, ScramMechanism
from minikafka.client.producer import BatchDelivery

PRODUCER_ID = 1 << 40
"""That no broker has given out."""

# Made when there is a client, not called on one.
CONSTRUCTORS = {"from_config"}


class Names(NamedTuple):
    """What arguments are about."""

    topic: str
    group: str

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)


# Parameter -> its argument. Nothing here changes what other tests see.
ARGUMENTS: dict[str, Callable[[Names], Any]] = {
    "topic": lambda names: names.topic,
    "topics": lambda names: [names.topic],
    "value": lambda names: b"value",
    "values": lambda names: [b"one", b"two"],
    "key": lambda names: b"key",
    "partition": lambda names: names.partition,
    "partitions": lambda names: [names.partition],
    "offset": lambda names: 0,
    "timestamp_ms": lambda names: 0,
    "timestamps": lambda names: {names.partition: 0},
    "group": lambda names: names.group,
    "group_id": lambda names: names.group,
    "group_ids": lambda names: [names.group],
    "offsets": lambda names: {names.partition: 0},
    "producer_id": lambda names: PRODUCER_ID,
    "producer_epoch": lambda names: 0,
    "transactional_ids": lambda names: [names.group],
    "quotas": lambda names: {QuotaEntity(user="nobody"): {"producer_byte_rate": None}},
    "configs": lambda names: {ConfigResource.topic(names.topic): {"retention.ms": "1000000"}},
    "changes": lambda names: {ConfigResource.topic(names.topic): {"retention.ms": "1000000"}},
    "config_resources": lambda names: [ConfigResource.topic(names.topic)],
    "reassignments": lambda names: {names.partition: None},
    "log_dirs": lambda names: {Replica(names.topic, 0, 1): "/nowhere"},
    "alterations": lambda names: [ScramDeletion("nobody", ScramMechanism.SCRAM_SHA_512)],
    "bindings": lambda names: [],
    "filters": lambda names: [],
    "topic_partitions": lambda names: {names.topic: 2},
    "new_topics": lambda names: [NewTopic(f"{names.topic}-more", 1, 1)],
    "records_to_delete": lambda names: {names.partition: 0},
    "hmac": lambda names: b"token",
    "updates": lambda names: {"nothing": FeatureUpdate(1)},
    "broker_ids": lambda names: [1],
    "member_ids": lambda names: ["nobody"],
    "validate_only": lambda names: True,
}

# (class, method) -> arguments where those above do not fit.
SPECIAL: dict[tuple[str, str], Callable[[Names], dict[str, Any]]] = {
    ("Producer", "send"): lambda names: {"topic": names.topic, "value": b"value"},
    ("Producer", "send_and_wait"): lambda names: {"topic": names.topic, "value": b"value"},
    ("Producer", "send_batch"): lambda names: {"topic": names.topic, "values": [b"one", b"two"]},
    ("Consumer", "getmany"): lambda names: {"timeout_ms": 20},
    ("Consumer", "getbatch"): lambda names: {"timeout_ms": 20},
    ("Consumer", "commit"): lambda names: {},
    ("Consumer", "subscribe"): lambda names: {"topics": [names.topic]},
    ("Admin", "list_offsets"): lambda names: {"offsets": {names.partition: -1}},
    ("Admin", "delete_topics"): lambda names: {"topics": [f"{names.topic}-none"]},
    ("Admin", "delete_consumer_groups"): lambda names: {"group_ids": [f"{names.group}-none"]},
}

# Calls whose argument only their client can give.
OF_CLIENT: dict[tuple[str, str], Callable[[Any, Names], Any]] = {
    ("Producer", "wait_for"): lambda client, names: client.wait_for(client.send(names.topic, b"value")),
    ("Producer", "wait_for_batch"): lambda client, names: client.wait_for_batch(
        client.send_batch(names.topic, [b"one", b"two"])
    ),
}

OPTIONAL = {"broker_ids", "member_ids", "validate_only"}
"""Parameters with defaults that are given all the same."""


class Call(NamedTuple):
    """One method, to be called on any client of its class."""

    kind: str
    name: str
    method: Callable[..., Any]
    parameters: tuple[str, ...]

    def start(self, client: object, names: Names) -> Any:
        """The outcome of a method that does not wait, or what is to be awaited."""
        own = OF_CLIENT.get((self.kind, self.name))
        return getattr(client, self.name)(**self.arguments(names)) if own is None else own(client, names)

    def arguments(self, names: Names) -> dict[str, Any]:
        special = SPECIAL.get((self.kind, self.name))
        if special is not None:
            return special(names)
        return {parameter: ARGUMENTS[parameter](names) for parameter in self.parameters}

    @property
    def is_of_life(self) -> bool:
        """Whether the client is another one afterwards."""
        return self.name in ("start", "stop", "close")


def calls_of(kind: type) -> list[Call]:
    """All public methods of a class. A parameter without a default needs an argument here."""
    calls = []
    for name, method in inspect.getmembers(kind, callable):
        if name.startswith("_") or name in CONSTRUCTORS:
            continue
        parameters = list(inspect.signature(method).parameters.values())[1:]
        wanted = [
            parameter.name
            for parameter in parameters
            if parameter.name in OPTIONAL
            or (parameter.default is parameter.empty and parameter.kind != parameter.VAR_POSITIONAL)
        ]
        missing = [] if (kind.__name__, name) in OF_CLIENT else [word for word in wanted if word not in ARGUMENTS]
        assert not missing, f"{kind.__name__}.{name} has parameters without an argument in ARGUMENTS: {missing}"
        calls.append(Call(kind.__name__, name, method, tuple(wanted)))
    return calls


async def finish(outcome: Any) -> Any:
    """Whatever a method returns, to its end."""
    if isinstance(outcome, AbstractAsyncContextManager):
        async with outcome:
            return None
    if inspect.isawaitable(outcome):
        outcome = await outcome
    if isinstance(outcome, (Delivery, BatchDelivery)):
        awaitable: Awaitable[Any] = outcome
        return await awaitable
    return outcome


def finish_synchronously(client: Any, outcome: Any) -> Any:
    """The same for a synchronous client."""
    if isinstance(outcome, AbstractContextManager):
        with outcome:
            return None
    if isinstance(outcome, Delivery):
        return client.wait_for(outcome)
    if isinstance(outcome, BatchDelivery):
        return client.wait_for_batch(outcome)
    return outcome
