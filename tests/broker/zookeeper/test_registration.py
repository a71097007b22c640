"""A broker becomes known once, whatever happens to its connection meanwhile."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from minikafka.broker.zookeeper.coord import Coord, SessionState
from minikafka.broker.zookeeper.registration import (
    DuplicateBroker,
    Registration,
    allocate_producer_ids,
    ensure_cluster_id,
    ensure_persistent_paths,
)
from minikafka.broker.zookeeper.session_desk import SessionDesk
from minikafka.broker.zookeeper.znodes import (
    BROKER_IDS,
    PERSISTENT_PATHS,
    PRODUCER_IDS,
    BadNode,
    BrokerNode,
    Endpoint,
    broker_path,
)
from tests.broker.zookeeper.worlds import Diary, MemoryWorld, World

NODE = BrokerNode((Endpoint("PLAINTEXT", "PLAINTEXT", "here", 9092),), timestamp_ms=1)
ELSEWHERE = BrokerNode((Endpoint("PLAINTEXT", "PLAINTEXT", "elsewhere", 9092),), timestamp_ms=1)
PATH = broker_path(7)

# One more than any of the recipes asks when all goes well: the last ones are undisturbed.
REQUESTS = range(4)
losses = pytest.mark.parametrize(("skip", "done"), [(skip, done) for skip in REQUESTS for done in (True, False)])


def registration(coord: Coord, patience_seconds: float = 20.0) -> Registration:
    return Registration(coord, 7, patience_seconds)


# Paths and the cluster's id


async def test_persistent_paths(coord: Coord) -> None:
    await ensure_persistent_paths(coord)
    for path in PERSISTENT_PATHS:
        data, stat = await coord.get(path)
        assert (data, stat.version, stat.ephemeral_owner) == (b"", 0, 0)
    assert await coord.children("/config") == ["brokers", "changes", "clients", "ips", "topics", "users"]
    before = [await coord.exists(path) for path in PERSISTENT_PATHS]
    await ensure_persistent_paths(coord)
    assert [await coord.exists(path) for path in PERSISTENT_PATHS] == before


async def test_brokers_that_start_together_make_the_same_paths(coord: Coord, world: World) -> None:
    coords = [coord, await world.open(), await world.open()]
    await asyncio.gather(*map(ensure_persistent_paths, coords))
    ids = await asyncio.gather(*(ensure_cluster_id(each, f"id-{index}") for index, each in enumerate(coords)))
    assert len(set(ids)) == 1
    assert await ensure_cluster_id(coord, "another") == ids[0]


@losses
async def test_the_cluster_id_with_an_answer_lost(coord: Coord, world: World, skip: int, done: bool) -> None:
    other = await world.open()
    world.lose_answer(coord, skip, done=done)
    assert await ensure_cluster_id(coord, "proposed") == "proposed"
    assert (await other.get("/cluster/id"))[0] == b'{"version":"1","id":"proposed"}'


async def test_a_cluster_id_that_is_none(coord: Coord) -> None:
    await coord.create("/cluster")
    await coord.create("/cluster/id", b"nonsense")
    with pytest.raises(BadNode, match="/cluster/id"):
        await ensure_cluster_id(coord, "x")


# Registering


async def test_the_epoch_is_the_transaction_that_made_the_node(coord: Coord) -> None:
    epoch = await registration(coord).register(NODE)
    data, stat = await coord.get(PATH)
    assert (data, stat.czxid, stat.ephemeral_owner) == (NODE.encode(), epoch, coord.session.id)


async def test_registering_again_in_the_same_session_keeps_the_epoch(coord: Coord) -> None:
    ours = registration(coord)
    epoch = await ours.register(NODE)
    assert await ours.register(replace(NODE, rack="r1")) == epoch
    assert BrokerNode.decode(PATH, (await coord.get(PATH))[0]).rack == "r1"


async def test_every_session_has_a_larger_epoch(coord: Coord, world: World) -> None:
    ours = registration(coord)
    first = await ours.register(NODE)
    diary = Diary(coord)
    await world.expire(coord)
    await diary.until(SessionState.LOST)
    # At other addresses, too: these are what counts from now on.
    assert await ours.register(ELSEWHERE) > first
    assert (await coord.get(PATH))[0] == ELSEWHERE.encode()


@losses
async def test_registering_with_an_answer_lost(coord: Coord, world: World, skip: int, done: bool) -> None:
    await ensure_persistent_paths(coord)
    other = await world.open()
    world.lose_answer(coord, skip, done=done)
    epoch = await registration(coord).register(NODE)
    data, stat = await other.get(PATH)
    assert (data, stat.czxid, stat.ephemeral_owner) == (NODE.encode(), epoch, coord.session.id)


async def test_a_session_that_expires_meanwhile(coord: Coord, world: World) -> None:
    other = await world.open()
    await ensure_persistent_paths(coord)
    first, diary = coord.session, Diary(coord)
    await world.expire(coord)
    world.cut(coord)
    registering = asyncio.create_task(registration(coord).register(NODE))
    await diary.until(SessionState.SUSPENDED)
    world.heal(coord)
    epoch = await registering
    stat = await other.exists(PATH)
    assert stat is not None and (stat.czxid, stat.ephemeral_owner) == (epoch, coord.session.id)
    assert coord.session.id != first.id


async def test_another_broker_with_our_id(coord: Coord, world: World) -> None:
    other = await world.open()
    await registration(other).register(ELSEWHERE)
    with pytest.raises(DuplicateBroker) as raised:
        await registration(coord).register(NODE)
    session = f"{other.session.id:#x}"
    assert str(raised.value) == (f"broker id 7 is taken by the broker at PLAINTEXT://elsewhere:9092, session {session}")
    assert (await coord.get(PATH))[0] == ELSEWHERE.encode()
    # And nobody waits for that node to change.
    assert isinstance(coord, SessionDesk) and coord._armed == {}


async def settle(coord: Coord) -> None:
    """Let what was begun before get as far as it can: it is answered first."""
    for _ in range(5):
        await coord.sync()


async def test_what_our_former_process_left_behind_is_waited_for(coord: Coord, world: World) -> None:
    former = await world.open()
    first = await registration(former).register(NODE)
    registering = asyncio.create_task(registration(coord).register(replace(NODE, timestamp_ms=2)))
    await settle(coord)
    assert not registering.done()
    await world.expire(former)
    assert await registering > first
    assert json.loads((await coord.get(PATH))[0])["timestamp"] == "2"


async def test_waiting_outlasts_a_cut(coord: Coord, world: World) -> None:
    former = await world.open()
    await registration(former).register(NODE)
    registering = asyncio.create_task(registration(coord).register(NODE))
    await settle(coord)
    world.cut(coord)
    await world.expire(former)
    world.heal(coord)
    await registering
    stat = await coord.exists(PATH)
    assert stat is not None and stat.ephemeral_owner == coord.session.id


async def test_what_our_former_session_left_behind_is_removed() -> None:
    """ZooKeeper was known to remove the nodes of a session late, or to show them for longer on another server."""
    async with MemoryWorld() as world:
        coord = await world.open()
        ours = registration(coord)
        await ours.register(ELSEWHERE)
        ghost, above = world.server.nodes[PATH], world.server.nodes[BROKER_IDS]
        coord.expire()
        world.server.nodes.update({PATH: ghost, BROKER_IDS: above})
        await coord.connected()
        assert await ours.register(NODE) > ghost.czxid
        data, stat = await coord.get(PATH)
        assert (data, stat.ephemeral_owner) == (NODE.encode(), coord.session.id)


async def test_waiting_has_an_end(coord: Coord, world: World) -> None:
    other = await world.open()
    await registration(other).register(NODE)
    with pytest.raises(DuplicateBroker, match="broker id 7 is taken by the broker at PLAINTEXT://here:9092"):
        await registration(coord, patience_seconds=0.01).register(NODE)


@pytest.mark.parametrize("data", [NODE.encode(), b"nonsense"])
async def test_a_node_of_no_session_is_not_waited_for(coord: Coord, data: bytes) -> None:
    await ensure_persistent_paths(coord)
    await coord.create(PATH, data)
    with pytest.raises(DuplicateBroker, match="is not of any session, delete it"):
        await registration(coord).register(NODE)


# Producer ids


async def test_blocks_of_producer_ids_are_distinct(coord: Coord, world: World) -> None:
    coords = [coord, await world.open()]
    blocks = await asyncio.gather(
        *(allocate_producer_ids(each, broker_id) for broker_id, each in enumerate(coords) for _ in range(10))
    )
    assert sorted(block.first for block in blocks) == list(range(0, 20_000, 1000))
    assert {block.last - block.first for block in blocks} == {999}
    assert [block.broker_id for block in blocks] == [0] * 10 + [1] * 10


@losses
async def test_a_block_is_given_out_once_with_an_answer_lost(coord: Coord, world: World, skip: int, done: bool) -> None:
    await ensure_persistent_paths(coord)
    world.lose_answer(coord, skip, done=done)
    # Two at once, so that the lost one of the first looks like one of the second.
    first, second = await asyncio.gather(allocate_producer_ids(coord, 7), allocate_producer_ids(coord, 7))
    third = await allocate_producer_ids(coord, 7)
    assert len({first.first, second.first, third.first}) == 3


async def test_blocks_go_on_after_kafkas(coord: Coord) -> None:
    await coord.create(PRODUCER_IDS, b'{"version":1,"broker":3,"block_start":"7000","block_end":"7999"}')
    assert await allocate_producer_ids(coord, 1) == (1, 8000, 8999)
    assert (await coord.get(PRODUCER_IDS))[0] == b'{"version":1,"broker":1,"block_start":"8000","block_end":"8999"}'
