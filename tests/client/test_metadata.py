"""What a new answer makes of what was known."""

from __future__ import annotations

import pytest

from minikafka.client.config import Address
from minikafka.client.metadata import Metadata
from minikafka.protocol.errors import ErrorCode, UnknownTopicOrPartitionError
from minikafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ONE, TWO = bytes(15) + b"\x01", bytes(15) + b"\x02"


def topic(name: str, leader: int, epoch: int, topic_id: bytes = ONE, error_code: int = 0) -> MetadataResponseTopic:
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2], isr_nodes=[1]
    )
    return MetadataResponseTopic(
        name=name, topic_id=topic_id, error_code=error_code, partitions=[] if error_code else [partition]
    )


def answer(*topics: MetadataResponseTopic, brokers: int = 2) -> MetadataResponse:
    found = [MetadataResponseBroker(node_id=node, host=f"h{node}", port=9) for node in range(1, brokers + 1)]
    return MetadataResponse(brokers=found, cluster_id="c", controller_id=2, topics=[*topics])


def leader(metadata: Metadata) -> int:
    found = metadata.partition("t", 0)
    assert found is not None
    return found.leader


@pytest.mark.parametrize(
    ("epoch", "topic_id", "expected"),
    [
        (5, ONE, 2),  # the same epoch: a leader may come back
        (6, ONE, 2),
        (4, ONE, 1),  # a broker that has not heard yet
        (0, TWO, 2),  # made anew
        (-1, ONE, 2),  # from a broker that knows no epochs
        (4, bytes(16), 1),  # from one that knows no ids
    ],
)
def test_leaders_do_not_go_back(epoch: int, topic_id: bytes, expected: int) -> None:
    known = Metadata().merge(answer(topic("t", 1, 5)), ["t"])
    assert leader(known.merge(answer(topic("t", 2, epoch, topic_id)), ["t"])) == expected


def test_topics_that_were_not_asked_for_stay() -> None:
    known = Metadata().merge(answer(topic("a", 1, 0), topic("b", 1, 0)), ["a", "b"])
    assert {*known.merge(answer(topic("a", 2, 1)), ["a"]).topics} == {"a", "b"}
    assert {*known.merge(answer(topic("a", 2, 1)), None).topics} == {"a"}
    assert {*known.without(["a"]).topics} == {"b"}


def test_an_error_takes_the_partitions_away_and_its_end_brings_them_back() -> None:
    known = Metadata().merge(answer(topic("t", 1, 5)), ["t"])
    gone = known.merge(answer(topic("t", 0, 0, bytes(16), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)), ["t"])
    assert isinstance(gone.topics["t"].error, UnknownTopicOrPartitionError)
    assert gone.partition("t", 0) is None
    assert leader(gone.merge(answer(topic("t", 2, 0, TWO)), ["t"])) == 2


def test_brokers() -> None:
    known = Metadata().merge(answer(), [])
    assert known.brokers[2].address == Address("h2", 9)
    assert known.merge(answer(brokers=0), []).brokers == known.brokers
    assert {*known.merge(answer(brokers=1), []).brokers} == {1}
    assert known.with_broker(2, Address("h2", 9)) is known
    assert known.with_broker(3, Address("h3", 9)).brokers[3].address.port == 9
