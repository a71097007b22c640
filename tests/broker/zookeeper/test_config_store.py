"""Stored configs: changed by several at once, with lost answers, and gone without a trace when they are empty."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from minikafka.broker.zookeeper.config_nodes import (
    CHANGES,
    Entity,
    broker_entity,
    client_entity,
    decode_change,
    topic_entity,
    user_client_entity,
    user_entity,
)
from minikafka.broker.zookeeper.config_store import (
    Vanished,
    change_config,
    in_batches,
    names_below,
    read_config,
    write_config,
)
from minikafka.broker.zookeeper.coord import Coord, MultiFailed, NoNode, TooLarge
from minikafka.broker.zookeeper.registration import ensure_path, ensure_persistent_paths
from tests.broker.zookeeper.worlds import World

TOPIC = topic_entity("t")


async def texts_of(coord: Coord, entity: Entity) -> dict[str, str]:
    return (await read_config(coord, entity)).texts


async def changes(coord: Coord) -> list[Entity]:
    found = []
    for name in await names_below(coord, CHANGES):
        data, _ = await coord.get(f"{CHANGES}/{name}")
        found.append(decode_change(name, data))
    return found


async def test_what_is_written_is_read_and_told(coord: Coord) -> None:
    assert await read_config(coord, TOPIC) == ({}, None, 0)
    await write_config(coord, TOPIC, {"a": "1"})
    await write_config(coord, TOPIC, {"a": "2", "b": "3"})
    assert await texts_of(coord, TOPIC) == {"a": "2", "b": "3"}
    assert await changes(coord) == [TOPIC, TOPIC]
    data, stat = await coord.get("/config/topics/t")
    assert (data, stat.version) == (b'{"version":1,"config":{"a":"2","b":"3"}}', 1)


async def test_changes_at_once_are_all_made(world: World) -> None:
    coords = [await world.open() for _ in range(3)]
    await ensure_persistent_paths(coords[0])

    async def add(number: int) -> None:
        await change_config(coords[number % 3], TOPIC, lambda texts: {**texts, str(number): "x"})

    await asyncio.gather(*map(add, range(9)))
    assert await texts_of(coords[0], TOPIC) == {str(number): "x" for number in range(9)}
    assert len(await changes(coords[0])) == 9


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("skip", range(3))
async def test_a_lost_answer_is_made_good(world: World, skip: int, done: bool) -> None:
    coord = await world.open()
    await ensure_persistent_paths(coord)
    await write_config(coord, TOPIC, {"a": "1"})
    world.lose_answer(coord, skip, done=done)
    told = await change_config(coord, TOPIC, lambda texts: {**texts, "b": "2"})
    await coord.connected()
    # Whatever is lost later than the change is not ours.
    assert told == await texts_of(await world.open(), TOPIC) == {"a": "1", "b": "2"}
    assert set(await changes(await world.open())) == {TOPIC}


async def test_what_cannot_be_decided_is_not_written(coord: Coord) -> None:
    def refuse(texts: Mapping[str, str]) -> Mapping[str, str]:
        raise ValueError(dict(texts))

    await write_config(coord, TOPIC, {"a": "1"})
    with pytest.raises(ValueError, match="'a': '1'"):
        await change_config(coord, TOPIC, refuse)
    assert len(await changes(coord)) == 1
    with pytest.raises(TooLarge):
        await write_config(coord, TOPIC, {"a": "x" * 2_000_000})


async def test_configs_of_nobody_are_not_written(coord: Coord) -> None:
    await ensure_persistent_paths(coord)
    with pytest.raises(Vanished):
        await change_config(coord, TOPIC, lambda _: {"a": "1"}, owner="/brokers/topics/t")
    assert await coord.exists(TOPIC.node) is None
    await ensure_path(coord, "/brokers/topics/t")
    await change_config(coord, TOPIC, lambda _: {"a": "1"}, owner="/brokers/topics/t")
    assert await texts_of(coord, TOPIC) == {"a": "1"}


async def test_empty_quotas_leave_nothing_behind(coord: Coord) -> None:
    user, client, deep = user_entity("u"), client_entity(None), user_client_entity("u", "c")
    for entity in (user, client, deep):
        await write_config(coord, entity, {"a": "1"})
    await write_config(coord, user, {})
    # It is still needed for what is below it.
    assert await coord.exists(user.node) is not None
    for entity in (client, deep):
        await write_config(coord, entity, {})
    assert await names_below(coord, "/config/users") == await names_below(coord, "/config/clients") == []
    # Kafka tells this, too.
    await write_config(coord, user, {})
    assert (await changes(coord))[-4:] == [user, client, deep, user]


async def test_a_user_with_something_left_stays(coord: Coord) -> None:
    await write_config(coord, user_entity("u"), {"a": "1"})
    for client in ("c", "d"):
        await write_config(coord, user_client_entity("u", client), {"a": "1"})
    await write_config(coord, user_client_entity("u", "c"), {})
    assert await names_below(coord, "/config/users/u/clients") == ["d"]
    await write_config(coord, user_client_entity("u", "d"), {})
    assert await names_below(coord, "/config/users/u") == []
    assert await texts_of(coord, user_entity("u")) == {"a": "1"}


async def test_brokers_keep_an_empty_node(coord: Coord) -> None:
    await write_config(coord, broker_entity(1), {})
    assert (await coord.get("/config/brokers/1"))[0] == b'{"version":1,"config":{}}'


async def test_other_trouble_is_passed_on(coord: Coord) -> None:
    await ensure_persistent_paths(coord)
    await coord.create("/config/topics/t", ephemeral=True)
    with pytest.raises(MultiFailed):
        await write_config(coord, Entity("topics/t/below"), {"a": "1"})
    with pytest.raises(NoNode):
        await coord.get("/config/topics/t/below")


async def test_many_are_done_in_order() -> None:
    busy, most = 0, 0

    async def double(number: int) -> int:
        nonlocal busy, most
        busy, most = busy + 1, max(most, busy + 1)
        await asyncio.sleep(0)
        busy -= 1
        return 2 * number

    assert await in_batches(range(250), double) == list(range(0, 500, 2))
    assert most == 100
