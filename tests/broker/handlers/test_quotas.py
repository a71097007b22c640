"""Client quotas: stored as Kafka does, found by its filters, answered as recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from minikafka.broker.handlers.quotas import routes
from minikafka.broker.zookeeper.config_nodes import CHANGES, encode_config, user_entity
from minikafka.broker.zookeeper.config_store import names_below, read_config, write_config
from minikafka.broker.zookeeper.registration import ensure_path
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    QuotaAlteration,
    QuotaEntity,
    QuotaFilterComponent,
    QuotaOp,
)
from tests.broker.handlers.recorded import agrees, names_of, play
from tests.broker.handlers.station import Station, station
from tests.broker.zookeeper.worlds import MemoryWorld, RealWorld
from tests.protocol.recordings import cases

EXACT, DEFAULT, ANY = 0, 1, 2

Whose = tuple[tuple[str, str | None], ...]
Op = tuple[str, float | None]

U1: Whose = (("user", "u1"),)
EVERYBODY: list[Whose] = [
    U1,
    (("user", None),),
    (("user", "u1"), ("client-id", None)),
    (("user", "ü/2"), ("client-id", "c1")),
    (("user", None), ("client-id", "c1")),
    (("user", None), ("client-id", None)),
    (("client-id", "c1"),),
    (("client-id", "<default>"),),
    (("client-id", None),),
    (("ip", "1.2.3.4"),),
    (("ip", None),),
]


@pytest.fixture
async def broker() -> AsyncIterator[Station]:
    async with station(routes) as made:
        yield made


def sensible(told: Any) -> Any:
    """A recorded answer, with a clear error where Kafka stumbles."""
    if isinstance(told, dict):
        return {key: sensible(each) for key, each in told.items()}
    return "INVALID_REQUEST" if told == "UNKNOWN_SERVER_ERROR" else told


@pytest.mark.parametrize("name", names_of("client-quotas"))
async def test_as_recorded(broker: Station, name: str) -> None:
    for step in cases()[name]["steps"]:
        _, shown = await play(broker, step)
        assert agrees(sensible(step["answer"]), shown), (step, shown)


def quota_of(whose: Whose) -> str:
    return "connection_creation_rate" if whose[0][0] == "ip" else "producer_byte_rate"


async def alter(broker: Station, *entries: tuple[Whose, Sequence[Op]], validate_only: bool = False) -> list[str]:
    asked = [
        QuotaAlteration(
            entity=[QuotaEntity(entity_type=kind, entity_name=name) for kind, name in whose],
            ops=[QuotaOp(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
        )
        for whose, ops in entries
    ]
    answer = await broker.ask(AlterClientQuotasRequest(entries=asked, validate_only=validate_only), 1)
    return [ErrorCode(each.error_code).name for each in answer.entries]


async def describe(
    broker: Station, *components: tuple[str, int, str | None], strict: bool = False
) -> dict[Whose, dict[str, float]]:
    asked = [QuotaFilterComponent(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    answer = await broker.ask(DescribeClientQuotasRequest(components=asked, strict=strict), 1)
    assert answer.error_code == ErrorCode.NONE
    return {
        tuple((each.entity_type, each.entity_name) for each in entry.entity): {
            each.key: each.value for each in entry.values
        }
        for entry in answer.entries
    }


@pytest.fixture
async def crowd(broker: Station) -> Station:
    """A broker with quotas for everybody, and one user with a credential instead."""
    assert await alter(broker, *((whose, [(quota_of(whose), 7.0)]) for whose in EVERYBODY)) == ["NONE"] * len(EVERYBODY)
    await write_config(broker.coord, user_entity("secretive"), {"SCRAM-SHA-256": "salt=,iterations=4096"})
    return broker


# What Kafka found by the same filters.
FOUND: list[tuple[list[tuple[str, int, str | None]], bool, list[int]]] = [
    ([], False, [*range(11)]),
    ([], True, []),
    ([("user", EXACT, "u1")], False, [0, 2]),
    ([("user", EXACT, "u1")], True, [0]),
    ([("user", DEFAULT, None)], False, [1, 4, 5]),
    ([("user", DEFAULT, "ignored")], True, [1]),
    ([("user", ANY, None)], False, [0, 1, 2, 3, 4, 5]),
    ([("user", ANY, None)], True, [0, 1]),
    ([("client-id", EXACT, "c1")], False, [3, 4, 6]),
    ([("client-id", ANY, None)], True, [6, 7, 8]),
    ([("client-id", EXACT, "<default>")], False, [7]),
    ([("user", ANY, None), ("client-id", ANY, None)], False, [2, 3, 4, 5]),
    ([("user", ANY, None), ("client-id", ANY, None)], True, [2, 3, 4, 5]),
    ([("user", DEFAULT, None), ("client-id", EXACT, "c1")], False, [4]),
    ([("user", EXACT, "ü/2"), ("client-id", DEFAULT, None)], False, []),
    ([("ip", ANY, None)], False, [9, 10]),
    ([("ip", EXACT, "1.2.3.4")], True, [9]),
    ([("ip", DEFAULT, None)], False, [10]),
    ([("ip", EXACT, "::1")], False, []),
    ([("user", EXACT, "")], False, []),
    ([("user", EXACT, "..")], False, []),
    ([("user", EXACT, "secretive")], False, []),
]


@pytest.mark.parametrize(("components", "strict", "numbers"), FOUND)
async def test_who_is_found(
    crowd: Station, components: list[tuple[str, int, str | None]], strict: bool, numbers: list[int]
) -> None:
    found = await describe(crowd, *components, strict=strict)
    assert set(found) == {EVERYBODY[number] for number in numbers}
    assert all(values == {quota_of(whose): 7.0} for whose, values in found.items())


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("ip", EXACT, "1.2.3.4"), ("user", EXACT, "u")], "INVALID_REQUEST"),
        ([("user", EXACT, "a"), ("user", EXACT, "b")], "INVALID_REQUEST"),
        ([("", EXACT, "a")], "INVALID_REQUEST"),
        ([("user", EXACT, None)], "INVALID_REQUEST"),
        ([("planet", ANY, None)], "UNSUPPORTED_VERSION"),
    ],
)
async def test_filters_that_make_no_sense(
    broker: Station, components: list[tuple[str, int, str | None]], error: str
) -> None:
    asked = [QuotaFilterComponent(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    for version in (0, 1):
        answer = await broker.ask(DescribeClientQuotasRequest(components=asked, strict=False), version)
        assert (ErrorCode(answer.error_code).name, answer.entries) == (error, None)


async def test_as_kafka_stores_them(broker: Station) -> None:
    whose: Whose = (("client-id", "c1"), ("user", "u:1%"))
    assert await alter(broker, (whose, [("producer_byte_rate", 1000.0), ("controller_mutation_rate", 2.0)])) == ["NONE"]
    data, _ = await broker.coord.get("/config/users/u%3A1%25/clients/c1")
    assert data == b'{"version":1,"config":{"producer_byte_rate":"1000","controller_mutation_rate":"2.0"}}'
    assert (await broker.coord.get("/config/users/u%3A1%25"))[0] == b""
    (name,) = await names_below(broker.coord, CHANGES)
    data, _ = await broker.coord.get(f"{CHANGES}/{name}")
    assert data == b'{"version":2,"entity_path":"users/u%3A1%25/clients/c1"}'


async def test_some_change_and_others_stay(broker: Station) -> None:
    await write_config(broker.coord, user_entity("u1"), {"SCRAM-SHA-256": "x", "consumer_byte_rate": "5"})
    ops: list[Op] = [
        ("producer_byte_rate", 1.0),
        ("producer_byte_rate", 2.0),
        ("no_such", None),
        ("SCRAM-SHA-256", None),
    ]
    assert await alter(broker, (U1, ops)) == ["NONE"]
    assert await alter(broker, (U1, [("consumer_byte_rate", None)])) == ["NONE"]
    assert (await read_config(broker.coord, user_entity("u1"))).texts == {
        "SCRAM-SHA-256": "x",
        "producer_byte_rate": "2",
    }


async def test_without_quotas_nothing_is_left(crowd: Station) -> None:
    assert await alter(crowd, *((whose, [(quota_of(whose), None)]) for whose in EVERYBODY)) == ["NONE"] * len(EVERYBODY)
    assert await names_below(crowd.coord, "/config/users") == ["secretive"]
    assert await names_below(crowd.coord, "/config/clients") == await names_below(crowd.coord, "/config/ips") == []


async def test_entries_fail_alone_and_an_entity_is_answered_once(broker: Station) -> None:
    bad: Whose = (("planet", "mars"),)
    answers = await alter(
        broker,
        (U1, [("producer_byte_rate", 1.0)]),
        (bad, [("producer_byte_rate", 1.0)]),
        (U1, [("consumer_byte_rate", 2.0)]),
        ((("client-id", "c"),), [("producer_byte_rate", -1.0)]),
    )
    assert answers == ["NONE", "INVALID_REQUEST", "INVALID_REQUEST"]
    assert await describe(broker) == {U1: {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0}}


async def test_checking_changes_nothing(broker: Station) -> None:
    assert await alter(broker, (U1, [("producer_byte_rate", 1.0)]), validate_only=True) == ["NONE"]
    assert await names_below(broker.coord, "/config/users") == []


async def test_nonsense_of_others_is_passed_over(crowd: Station) -> None:
    await ensure_path(crowd.coord, "/config/users/mad", b"nonsense")
    await ensure_path(crowd.coord, "/config/clients/odd", encode_config({"producer_byte_rate": "many", "x": "3"}))
    found = await describe(crowd)
    assert len(found) == len(EVERYBODY) + 1 and found[(("client-id", "odd"),)] == {"x": 3.0}


async def test_patience_has_an_end() -> None:
    async with MemoryWorld() as world, station(routes, {"request.timeout.ms": "50"}, world=world) as broker:
        world.cut(broker.coord)
        assert await alter(broker, (U1, [("producer_byte_rate", 1.0)])) == ["REQUEST_TIMED_OUT"]
        answer = await broker.ask(DescribeClientQuotasRequest(components=[], strict=False), 1)
        assert (answer.error_code, answer.entries) == (ErrorCode.REQUEST_TIMED_OUT, None)


@pytest.mark.needs("java")
async def test_on_a_real_zookeeper(real_world: RealWorld) -> None:
    async with station(routes, world=real_world) as broker:
        odd: list[Whose] = [(("user", name),) for name in ("a/b", "<default>", "~ *+%", "ü\0\n", "...")]
        assert await alter(broker, *((whose, [("producer_byte_rate", 7.0)]) for whose in odd)) == ["NONE"] * len(odd)
        assert set(await describe(broker)) == set(odd)
        assert set(await describe(broker, *((kind, EXACT, name) for kind, name in odd[3]))) == {odd[3]}
        for name in ("", ".", ".."):
            assert await describe(broker, ("user", EXACT, name)) == {}
            assert await alter(broker, ((("user", name),), [("producer_byte_rate", 7.0)])) == ["INVALID_REQUEST"]
        await alter(broker, *((whose, [("producer_byte_rate", None)]) for whose in odd))
        assert await names_below(broker.coord, "/config/users") == []
