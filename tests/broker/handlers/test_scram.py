"""SCRAM credentials: stored as Kafka stores them, told by their outlines only."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from minikafka.broker.handlers.scram import routes
from minikafka.broker.zookeeper.config_nodes import user_entity
from minikafka.broker.zookeeper.config_store import names_below, read_config, write_config
from minikafka.broker.zookeeper.registration import ensure_path
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    ScramUserName,
)
from tests.broker.handlers.recorded import agrees, names_of, play
from tests.broker.handlers.station import Station, station
from tests.broker.zookeeper.worlds import MemoryWorld
from tests.protocol.recordings import cases

SHA_256, SHA_512 = 1, 2
SALT, PASSWORD = b"salt", b"p" * 32

Upsertion = tuple[str, int, int, bytes]
Described = dict[str, tuple[str, list[tuple[int, int]]]]

ALICE: Upsertion = ("alice", SHA_256, 4096, PASSWORD)


@pytest.fixture
async def broker() -> AsyncIterator[Station]:
    async with station(routes) as made:
        yield made


@pytest.mark.parametrize("name", names_of("scram-"))
async def test_as_recorded(broker: Station, name: str) -> None:
    for step in cases()[name]["steps"]:
        _, shown = await play(broker, step)
        assert agrees(step["answer"], shown), (step, shown)


async def alter(broker: Station, deletions: list[tuple[str, int]], upsertions: list[Upsertion]) -> dict[str, str]:
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in deletions],
        upsertions=[
            ScramCredentialUpsertion(
                name=name, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=password
            )
            for name, mechanism, iterations, password in upsertions
        ],
    )
    answer = await broker.ask(request, 0)
    assert len({each.user for each in answer.results}) == len(answer.results)
    return {each.user: ErrorCode(each.error_code).name for each in answer.results}


async def describe(broker: Station, *users: str) -> Described:
    asked = [ScramUserName(name=user) for user in users] or None
    answer = await broker.ask(DescribeUserScramCredentialsRequest(users=asked), 0)
    assert answer.error_code == ErrorCode.NONE
    return {
        each.user: (
            ErrorCode(each.error_code).name,
            [(info.mechanism, info.iterations) for info in each.credential_infos],
        )
        for each in answer.results
    }


async def test_as_kafka_stores_them(broker: Station) -> None:
    assert await alter(broker, [], [ALICE, ("ü, =%", SHA_256, 4096, PASSWORD)]) == {"alice": "NONE", "ü, =%": "NONE"}
    data, _ = await broker.coord.get("/config/users/alice")
    assert data == (
        b'{"version":1,"config":{"SCRAM-SHA-256":"salt=c2FsdA==,stored_key=5fFUxV0AD26xWkoJJg7bXVrfsC18oO/9teoJx9PJtT0=,'
        b'server_key=HEtYAvOwTubW02jJL+5MEEljbbOmsXhQuGr9eFqJSO0=,iterations=4096"}}'
    )
    assert await names_below(broker.coord, "/config/users") == ["%C3%BC%2C%20%3D%25", "alice"]


async def test_who_has_what(broker: Station) -> None:
    assert await describe(broker) == {}
    await alter(broker, [], [ALICE, ("alice", SHA_512, 8192, b"p" * 64), ("bob", SHA_512, 16384, b"x")])
    await write_config(broker.coord, user_entity("quota"), {"producer_byte_rate": "7"})
    await write_config(broker.coord, user_entity(None), {"SCRAM-SHA-256": "iterations=4096"})
    await ensure_path(broker.coord, "/config/users/mad", b"nonsense")
    alice, bob = ("NONE", [(SHA_256, 4096), (SHA_512, 8192)]), ("NONE", [(SHA_512, 16384)])
    assert await describe(broker) == {"alice": alice, "bob": bob}
    answer = await broker.ask(DescribeUserScramCredentialsRequest(users=[]), 0)
    assert [each.user for each in answer.results] == ["alice", "bob"]
    unknown = ("RESOURCE_NOT_FOUND", list[tuple[int, int]]())
    assert await describe(broker, "bob", "carol", "", "..", "mad") == {
        "bob": bob,
        **dict.fromkeys(("carol", "", "..", "mad"), unknown),
    }
    assert await describe(broker, "alice", "bob", "alice") == {"alice": ("DUPLICATE_RESOURCE", []), "bob": bob}


async def test_giving_and_taking(broker: Station) -> None:
    await write_config(broker.coord, user_entity("alice"), {"producer_byte_rate": "7"})
    assert await alter(broker, [], [ALICE]) == {"alice": "NONE"}
    assert await alter(broker, [("alice", SHA_256)], [("alice", SHA_512, 8192, b"q" * 64)]) == {"alice": "NONE"}
    assert await describe(broker, "alice") == {"alice": ("NONE", [(SHA_512, 8192)])}
    assert await alter(broker, [("alice", SHA_512)], []) == {"alice": "NONE"}
    assert (await read_config(broker.coord, user_entity("alice"))).texts == {"producer_byte_rate": "7"}
    assert await alter(broker, [], [("bob", SHA_256, 4096, PASSWORD)]) == {"bob": "NONE"}
    assert await alter(broker, [("bob", SHA_256)], []) == {"bob": "NONE"}
    assert await names_below(broker.coord, "/config/users") == ["alice"]


@pytest.mark.parametrize(
    ("deletions", "upsertions", "error"),
    [
        ([("alice", SHA_512)], [], "RESOURCE_NOT_FOUND"),
        ([("alice", 0)], [], "UNSUPPORTED_SASL_MECHANISM"),
        ([("alice", 9)], [], "UNSUPPORTED_SASL_MECHANISM"),
        ([], [("alice", 0, 4096, PASSWORD)], "UNSUPPORTED_SASL_MECHANISM"),
        ([], [("alice", SHA_256, 4095, PASSWORD)], "UNACCEPTABLE_CREDENTIAL"),
        ([], [("alice", SHA_256, 16385, PASSWORD)], "UNACCEPTABLE_CREDENTIAL"),
        ([], [("alice", SHA_256, 4096, b"")], "UNACCEPTABLE_CREDENTIAL"),
        ([("alice", SHA_256)], [ALICE], "DUPLICATE_RESOURCE"),
        ([("alice", SHA_256)] * 2, [], "DUPLICATE_RESOURCE"),
        ([], [ALICE, ALICE], "DUPLICATE_RESOURCE"),
        # One thing is wrong, so the other is not done either.
        ([("alice", SHA_256)], [("alice", SHA_512, 1, PASSWORD)], "UNACCEPTABLE_CREDENTIAL"),
    ],
)
async def test_what_is_wrong_with_one_user_is_no_trouble_for_another(
    broker: Station, deletions: list[tuple[str, int]], upsertions: list[Upsertion], error: str
) -> None:
    await alter(broker, [], [ALICE])
    before = await broker.coord.get(user_entity("alice").node)
    answers = await alter(broker, deletions, [("bob", SHA_256, 4096, PASSWORD), *upsertions])
    assert answers == {"alice": error, "bob": "NONE"}
    assert await broker.coord.get(user_entity("alice").node) == before


async def test_names_that_nobody_can_have(broker: Station) -> None:
    assert await alter(broker, [("", SHA_256)], [(".", SHA_256, 4096, PASSWORD), ("..", SHA_256, 4096, PASSWORD)]) == {
        "": "UNACCEPTABLE_CREDENTIAL",
        ".": "UNACCEPTABLE_CREDENTIAL",
        "..": "UNACCEPTABLE_CREDENTIAL",
    }


async def test_it_is_the_controllers_business(broker: Station) -> None:
    broker.update_metadata(controller_id=2)
    assert await alter(broker, [("bob", SHA_256)], [ALICE]) == {"bob": "NOT_CONTROLLER", "alice": "NOT_CONTROLLER"}
    assert await describe(broker) == {}


@pytest.mark.parametrize("skip", range(3))
async def test_a_lost_answer_is_no_failure(skip: int) -> None:
    async with MemoryWorld() as world, station(routes, world=world) as broker:
        await alter(broker, [], [ALICE])
        world.lose_answer(broker.coord, skip, done=True)
        assert await alter(broker, [("alice", SHA_256)], []) == {"alice": "NONE"}
        await broker.coord.connected()
        assert await describe(broker) == {}


async def test_patience_has_an_end() -> None:
    async with MemoryWorld() as world, station(routes, {"request.timeout.ms": "50"}, world=world) as broker:
        world.cut(broker.coord)
        assert await alter(broker, [], [ALICE]) == {"alice": "REQUEST_TIMED_OUT"}
        assert await describe(broker, "alice") == {"alice": ("REQUEST_TIMED_OUT", [])}
        answer = await broker.ask(DescribeUserScramCredentialsRequest(users=None), 0)
        assert (answer.error_code, answer.results) == (ErrorCode.REQUEST_TIMED_OUT, [])


async def test_no_secret_is_told(broker: Station, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await alter(broker, [], [("alice", SHA_256, 4096, b"hunter2"), ("bob", SHA_256, 1, b"hunter2")])
    await ensure_path(broker.coord, "/config/users/mad", b'{"config":{"SCRAM-SHA-256":"hunter2"')
    await describe(broker)
    stored = (await read_config(broker.coord, user_entity("alice"))).texts["SCRAM-SHA-256"]
    assert "alice" in caplog.text and "/config/users/mad" in caplog.text
    assert "hunter2" not in caplog.text and stored.split(",")[1] not in caplog.text
