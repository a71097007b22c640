"""Writing topics down, and what ZooKeeper's answers are taken for when they do not come."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from minikafka.broker.live_config import LiveConfig
from minikafka.broker.metadata import Metadata
from minikafka.broker.topic_admin import Plan, TopicAdmin
from minikafka.broker.zookeeper.coord import Coord
from minikafka.broker.zookeeper.registration import ensure_persistent_paths
from minikafka.broker.zookeeper.topic_nodes import Assignment, TopicNode, encode_topic_id, topic_path
from minikafka.protocol.control import LiveBroker
from minikafka.protocol.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    ReassignmentInProgressError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from tests.broker.config.recorded import config_of
from tests.broker.zookeeper.worlds import World

losses = pytest.mark.parametrize(("skip", "done"), [(skip, done) for skip in range(4) for done in (True, False)])


def admin_of(coord: Coord, random_bytes: Callable[[int], bytes]) -> TopicAdmin:
    """For a cluster of three brokers that knows no topics yet."""
    metadata = Metadata()
    metadata.brokers = {each: LiveBroker(broker_id=each, broker_epoch=1, endpoints=[]) for each in (1, 2, 3)}
    config = LiveConfig(config_of({"num.partitions": "2", "default.replication.factor": "2"}))
    rng = Random(1)
    rng.randbytes = random_bytes  # type: ignore[method-assign, assignment]
    return TopicAdmin(coord, config, metadata, rng)


@pytest.fixture
async def admin(coord: Coord) -> TopicAdmin:
    await ensure_persistent_paths(coord)
    return admin_of(coord, Random(1).randbytes)


async def node_of(coord: Coord, topic: str) -> TopicNode:
    data, _ = await coord.get(topic_path(topic))
    return TopicNode.decode(topic_path(topic), data)


async def test_a_topic_is_written_down(coord: Coord, admin: TopicAdmin) -> None:
    plan = await admin.plan("t", 4, 3, entries=[("retention.ms", "5")])
    assert [sorted(each) for each in plan.replicas.values()] == [[1, 2, 3]] * 4
    topic_id = await admin.create(plan)
    node = await node_of(coord, "t")
    assert node == TopicNode(topic_id, {index: Assignment(each) for index, each in plan.replicas.items()})
    assert (await coord.get("/config/topics/t"))[0] == b'{"version":1,"config":{"retention.ms":"5"}}'


async def test_counts_of_the_broker(admin: TopicAdmin) -> None:
    plan = await admin.plan("t", -1, -1)
    assert (len(plan.replicas), plan.replication_factor) == (2, 2)


async def test_replicas_of_the_client(admin: TopicAdmin) -> None:
    plan = await admin.plan("t", -1, -1, [(1, [3, 2]), (0, [1, 2])])
    assert plan.replicas == {0: (1, 2), 1: (3, 2)}


@pytest.mark.parametrize(
    ("partitions", "replication_factor", "replicas", "error"),
    [
        (0, 1, [], InvalidPartitionsError),
        (-2, 1, [], InvalidPartitionsError),
        (2**31 - 1, 1, [], InvalidPartitionsError),
        (1, 0, [], InvalidReplicationFactorError),
        (1, 4, [], InvalidReplicationFactorError),
        (1, -1, [(0, [1])], InvalidRequestError),
        (-1, 1, [(0, [1])], InvalidRequestError),
        (-1, -1, [(1, [1])], InvalidReplicaAssignmentError),
        (-1, -1, [(-1, [1])], InvalidReplicaAssignmentError),
        (-1, -1, [(0, [])], InvalidReplicaAssignmentError),
        (-1, -1, [(0, [1, 1])], InvalidReplicaAssignmentError),
        (-1, -1, [(0, [1]), (1, [1, 2])], InvalidReplicaAssignmentError),
        (-1, -1, [(0, [1]), (0, [2])], InvalidReplicaAssignmentError),
    ],
)
async def test_what_cannot_be_made(
    admin: TopicAdmin,
    partitions: int,
    replication_factor: int,
    replicas: list[tuple[int, list[int]]],
    error: type[KafkaError],
) -> None:
    with pytest.raises(error):
        await admin.plan("t", partitions, replication_factor, replicas)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250])
async def test_names_that_cannot_be(admin: TopicAdmin, name: str) -> None:
    with pytest.raises(InvalidTopicError):
        await admin.plan(name, 1, 1)


async def test_configs_that_cannot_be(admin: TopicAdmin) -> None:
    for entry in (("no.such.key", "1"), ("retention.ms", "x"), ("retention.ms", None)):
        with pytest.raises(InvalidConfigError):
            await admin.plan("t", 1, 1, entries=[entry])


async def test_names_that_would_be_taken_for_each_other(admin: TopicAdmin) -> None:
    await admin.create(await admin.plan("a.b", 1, 1))
    with pytest.raises(InvalidTopicError, match=r"a\.b"):
        await admin.plan("a_b", 1, 1)
    await admin.plan("a-b", 1, 1)


async def test_a_topic_that_is_there(admin: TopicAdmin, world: World) -> None:
    plan = await admin.plan("t", 1, 1)
    other = admin_of(await world.open(), Random(2).randbytes)
    await other.create(plan)
    with pytest.raises(TopicAlreadyExistsError):
        await admin.create(plan)
    with pytest.raises(TopicAlreadyExistsError):
        await admin.plan("t", 1, 1)


async def test_configs_that_an_earlier_topic_has_left(coord: Coord, admin: TopicAdmin) -> None:
    await coord.create("/config/topics/t", b'{"version":1,"config":{"retention.ms":"5"}}')
    await admin.create(await admin.plan("t", 1, 1))
    assert (await coord.get("/config/topics/t"))[0] == b'{"version":1,"config":{}}'


@losses
async def test_a_creation_with_an_answer_lost(
    coord: Coord, world: World, admin: TopicAdmin, skip: int, done: bool
) -> None:
    plan = Plan("t", {0: (1,)}, {})
    world.lose_answer(coord, skip, done=done)
    topic_id = await admin.create(plan)
    await coord.connected()
    other = await world.open()
    assert (await node_of(other, "t")).topic_id == topic_id


async def test_ids(coord: Coord) -> None:
    """None looks like an option on a command line."""
    drawn = iter([b"\xfb" + bytes(15), bytes(range(16))])
    made = admin_of(coord, lambda size: next(drawn)).new_id()
    assert made == bytes([0, 1, 2, 3, 4, 5, 0x46, 7, 0x88, 9, 10, 11, 12, 13, 14, 15])
    assert not encode_topic_id(made).startswith("-")


async def test_a_deletion_is_asked_for(coord: Coord, admin: TopicAdmin) -> None:
    for _ in range(2):
        await admin.request_deletion("t")
    assert await coord.children("/admin/delete_topics") == ["t"]


# More partitions


async def test_more_partitions(coord: Coord, admin: TopicAdmin) -> None:
    topic_id = await admin.create(Plan("t", {0: (2, 3)}, {}))
    await admin.add_partitions("t", 3, validate_only=True)
    assert len((await node_of(coord, "t")).partitions) == 1
    await admin.add_partitions("t", 3)
    node = await node_of(coord, "t")
    assert node.topic_id == topic_id
    assert node.partitions == {0: Assignment((2, 3)), 1: Assignment((3, 2)), 2: Assignment((1, 3))}
    await admin.add_partitions("t", 4, [[2, 1]])
    assert (await node_of(coord, "t")).partitions[3] == Assignment((2, 1))


@pytest.mark.parametrize(
    ("count", "replicas", "error"),
    [
        (1, None, InvalidPartitionsError),
        (0, None, InvalidPartitionsError),
        (-1, None, InvalidPartitionsError),
        (2**31 - 1, None, InvalidPartitionsError),
        (2, [[9, 1]], InvalidReplicaAssignmentError),
        (2, [[1]], InvalidReplicaAssignmentError),
        (2, [[1, 1]], InvalidReplicaAssignmentError),
        (2, [[1, 2], [2, 3]], InvalidReplicaAssignmentError),
        (3, [[1, 2]], InvalidReplicaAssignmentError),
    ],
)
async def test_partitions_that_cannot_be_added(
    admin: TopicAdmin, count: int, replicas: list[list[int]] | None, error: type[KafkaError]
) -> None:
    await admin.create(Plan("t", {0: (2, 3)}, {}))
    with pytest.raises(error):
        await admin.add_partitions("t", count, replicas)


@pytest.mark.parametrize("name", ["t", "", ".", "..", "there/partitions"])
async def test_partitions_for_no_topic(admin: TopicAdmin, name: str) -> None:
    await admin.create(Plan("there", {0: (2, 3)}, {}))
    with pytest.raises(UnknownTopicOrPartitionError):
        await admin.add_partitions(name, 2)


async def test_partitions_while_others_are_moved(coord: Coord, admin: TopicAdmin) -> None:
    node = TopicNode(bytes(range(16)), {0: Assignment((1, 2), adding=(2,))})
    await coord.create(topic_path("t"), node.encode())
    with pytest.raises(ReassignmentInProgressError):
        await admin.add_partitions("t", 2)


@losses
async def test_more_partitions_with_an_answer_lost(
    coord: Coord, world: World, admin: TopicAdmin, skip: int, done: bool
) -> None:
    await admin.create(Plan("t", {0: (2, 3)}, {}))
    world.lose_answer(coord, skip, done=done)
    await admin.add_partitions("t", 3)
    other = await world.open()
    assert len((await node_of(other, "t")).partitions) == 3


async def test_a_topic_that_somebody_else_makes_meanwhile_is_no_twin_of_itself(
    coord: Coord, admin: TopicAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes up between the look for its name and the look for names like it."""
    rival, children = await admin.plan("a_b", 1, 1), coord.children

    async def make_first(path: str) -> list[str]:
        monkeypatch.undo()
        await admin.create(rival)
        return list(await children(path))

    monkeypatch.setattr(coord, "children", make_first)
    with pytest.raises(TopicAlreadyExistsError):
        await admin.plan("a_b", 1, 1)
