"""What a Coord promises, on a real ZooKeeper and on the one in memory alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from minikafka.broker.zookeeper.coord import (
    REQUEST_BYTES_MAX,
    BadVersion,
    Check,
    Coord,
    CoordError,
    Create,
    Delete,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionState,
    Set,
    Stat,
    TooLarge,
)
from tests.broker.zookeeper.worlds import Diary, World

CONNECTED, SUSPENDED, LOST = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST


# Nodes


async def test_a_node_from_creation_to_deletion(coord: Coord) -> None:
    path, stat = await coord.create("/a", b"one")
    assert path == "/a"
    assert (stat.version, stat.ephemeral_owner, stat.child_count) == (0, 0, 0)
    assert stat.czxid == stat.mzxid
    assert await coord.get("/a") == (b"one", stat)
    written = await coord.set("/a", b"two")
    assert (written.version, written.czxid) == (1, stat.czxid)
    assert written.mzxid > stat.mzxid
    assert await coord.exists("/a") == written
    await coord.delete("/a", 1)
    assert await coord.exists("/a") is None


async def test_a_node_without_data_has_an_empty_text(coord: Coord) -> None:
    await coord.create("/a")
    await coord.multi(Create("/b"))
    assert [(await coord.get(path))[0] for path in ("/a", "/b")] == [b"", b""]


async def test_children_are_names_in_order(coord: Coord) -> None:
    for path in ("/a", "/a/c", "/a/b", "/a/b/x"):
        await coord.create(path)
    assert await coord.children("/a") == ["b", "c"]
    stat = await coord.exists("/a")
    assert stat is not None and stat.child_count == 2
    assert await coord.children("/a/c") == []
    assert await coord.children("/") == ["a"]


async def test_later_nodes_have_larger_zxids(coord: Coord, world: World) -> None:
    other = await world.open()
    stats = [(await each.create(path)).stat for each, path in ((coord, "/a"), (other, "/b"), (coord, "/c"))]
    assert stats == sorted(stats, key=lambda stat: stat.czxid)
    assert len({stat.czxid for stat in stats}) == 3


async def test_sequence_nodes_count_all_children_there_ever_were(coord: Coord) -> None:
    await coord.create("/queue")
    await coord.create("/queue/plain")
    await coord.delete("/queue/plain")
    made = [await coord.create("/queue/n_", b"%d" % index, sequence=True) for index in range(2)]
    assert [path for path, _ in made] == ["/queue/n_0000000001", "/queue/n_0000000002"]
    assert await coord.multi(Create("/queue/m_", sequence=True)) == ("/queue/m_0000000003",)
    assert await coord.get(made[1].path) == (b"1", made[1].stat)


Refused = tuple[str, Callable[[Coord], Awaitable[object]], type[CoordError]]

REFUSED: list[Refused] = [
    ("get", lambda coord: coord.get("/none"), NoNode),
    ("children", lambda coord: coord.children("/none"), NoNode),
    ("set", lambda coord: coord.set("/none", b""), NoNode),
    ("delete", lambda coord: coord.delete("/none"), NoNode),
    ("create below nothing", lambda coord: coord.create("/none/a"), NoNode),
    ("create twice", lambda coord: coord.create("/full"), NodeExists),
    ("set an old version", lambda coord: coord.set("/full", b"", 3), BadVersion),
    ("delete an old version", lambda coord: coord.delete("/full/leaf", 3), BadVersion),
    ("delete with children", lambda coord: coord.delete("/full"), NotEmpty),
    ("create below an ephemeral", lambda coord: coord.create("/brief/a"), NoChildrenForEphemerals),
    ("too much data", lambda coord: coord.create("/big", bytes(REQUEST_BYTES_MAX)), TooLarge),
    ("too much in all", lambda coord: coord.multi(*[Set("/full", bytes(300_000))] * 4), TooLarge),
]


@pytest.mark.parametrize("refused", REFUSED, ids=[name for name, _, _ in REFUSED])
async def test_refusals_name_the_path(coord: Coord, refused: Refused) -> None:
    _, ask, error = refused
    await coord.create("/full")
    await coord.create("/full/leaf")
    await coord.create("/brief", ephemeral=True)
    with pytest.raises(error, match="/") as raised:
        await ask(coord)
    assert type(raised.value) is error
    assert coord.session.state is CONNECTED


async def test_data_up_to_the_limit(coord: Coord) -> None:
    data = bytes(REQUEST_BYTES_MAX - 1000)
    await coord.create("/big", data)
    assert (await coord.get("/big"))[0] == data


# Ephemeral nodes


async def test_an_ephemeral_node_ends_with_its_session(coord: Coord, world: World) -> None:
    other = await world.open()
    _, stat = await coord.create("/brief", ephemeral=True)
    assert stat.ephemeral_owner == coord.session.id != other.session.id
    await coord.close()
    assert await other.exists("/brief") is None


async def test_an_ephemeral_node_outlives_a_connection(coord: Coord, world: World) -> None:
    _, stat = await coord.create("/brief", ephemeral=True)
    diary = Diary(coord)
    world.drop(coord)
    await diary.until(CONNECTED)
    assert await coord.exists("/brief") == stat


async def test_an_ephemeral_node_does_not_outlive_an_expired_session(coord: Coord, world: World) -> None:
    other = await world.open()
    await coord.create("/brief", ephemeral=True)
    await coord.create("/lasting")
    await world.expire(coord)
    assert await other.exists("/brief") is None
    assert await other.exists("/lasting") is not None


# Several operations at once


async def test_multi_does_all_in_one_transaction(coord: Coord) -> None:
    await coord.create("/a", b"0")
    await coord.create("/gone")
    results = await coord.multi(
        Check("/a", 0), Create("/b", b"new", ephemeral=True), Set("/a", b"1", 0), Delete("/gone"), Create("/b2")
    )
    stats = [await coord.exists(path) for path in ("/a", "/b", "/b2")]
    assert all(stat is not None for stat in stats)
    assert results == (None, "/b", stats[0], None, "/b2")
    a, b, b2 = [stat for stat in stats if stat is not None]
    assert a.mzxid == b.czxid == b2.czxid
    assert b.ephemeral_owner == coord.session.id
    assert await coord.exists("/gone") is None


async def test_multi_sees_its_own_operations(coord: Coord) -> None:
    results = await coord.multi(Create("/a"), Create("/a/b"), Set("/a", b"1", 0), Check("/a", 1), Delete("/a/b"))
    assert isinstance(results[2], Stat)
    assert await coord.children("/a") == []
    assert (await coord.get("/a"))[0] == b"1"


@pytest.mark.parametrize(
    ("op", "cause"),
    [
        (Check("/a", 7), BadVersion),
        (Check("/none", 0), NoNode),
        (Create("/a"), NodeExists),
        (Set("/a", b"", 7), BadVersion),
        (Delete("/a/none"), NoNode),
        (Delete("/a"), NotEmpty),
    ],
    ids=str,
)
@pytest.mark.parametrize("index", [0, 1, 2])
async def test_multi_does_nothing_and_names_what_failed(
    coord: Coord, op: Check | Create | Set | Delete, cause: type[CoordError], index: int
) -> None:
    await coord.create("/a", b"0")
    await coord.create("/a/leaf")
    ops: list[Check | Create | Set | Delete] = [Create("/new"), Set("/a/leaf", b"1")]
    ops.insert(index, op)
    with pytest.raises(MultiFailed) as raised:
        await coord.multi(*ops)
    failed = raised.value
    assert (failed.index, failed.op, type(failed.cause)) == (index, op, cause)
    assert op.path in str(failed) and cause.__name__ in str(failed)
    assert await coord.exists("/new") is None
    assert (await coord.get("/a/leaf"))[0] == b""
