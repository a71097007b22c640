"""Configs described and changed, by requests: as recorded, across brokers, and when ZooKeeper is in the way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from minikafka.broker.config_watch import ConfigWatch
from minikafka.broker.handlers.configs import routes
from minikafka.broker.zookeeper.config_nodes import CHANGES, topic_entity
from minikafka.broker.zookeeper.config_store import names_below, read_config
from minikafka.broker.zookeeper.coord import SessionState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.broker.handlers.recorded import agrees, names_of, play
from tests.broker.handlers.station import RECORDED, Station, station
from tests.broker.zookeeper.worlds import Diary, MemoryWorld
from tests.protocol.recordings import cases

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND = 0, 1, 2
Change = tuple[str, int, str | None]


@pytest.fixture
async def broker() -> AsyncIterator[Station]:
    async with station(routes, RECORDED) as made:
        await made.add_topic("t", {"retention.ms": "60000"})
        yield made


async def describe(broker: Station, kind: int, name: str, *keys: str, version: int = 4, **options: bool) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    answer = await broker.ask(DescribeConfigsRequest(resources=[resource], **options), version)
    (result,) = answer.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def value(broker: Station, kind: int, name: str, key: str) -> str | None:
    (config,) = (await describe(broker, kind, name, key)).configs
    found: str | None = config.value
    return found


async def change(
    broker: Station, *resources: tuple[int, str, Sequence[Change]], validate_only: bool = False
) -> list[str]:
    asked = [
        IncrementalAlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[IncrementalAlterableConfig(name=key, config_operation=op, value=text) for key, op, text in wanted],
        )
        for kind, name, wanted in resources
    ]
    answer = await broker.ask(IncrementalAlterConfigsRequest(resources=asked, validate_only=validate_only), 1)
    assert [(each.resource_type, each.resource_name) for each in answer.responses] == [each[:2] for each in resources]
    return [ErrorCode(each.error_code).name for each in answer.responses]


async def replace(broker: Station, *resources: tuple[int, str, dict[str, str | None]], only: bool = False) -> list[str]:
    asked = [
        AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[AlterableConfig(name=key, value=text) for key, text in texts.items()],
        )
        for kind, name, texts in resources
    ]
    answer = await broker.ask(AlterConfigsRequest(resources=asked, validate_only=only), 2)
    return [ErrorCode(each.error_code).name for each in answer.responses]


# As recorded


def sensible(told: Any) -> Any:
    """A recorded answer, with a clear error where Kafka stumbles."""
    if isinstance(told, dict):
        return {key: sensible(each) for key, each in told.items()}
    if isinstance(told, list):
        return [sensible(each) for each in told]
    return "INVALID_REQUEST" if told == "UNKNOWN_SERVER_ERROR" else told


CONFIG_CASES = names_of("describe-topic-configs", "describe-configs", "describe-broker-configs", "incremental-alter-")


@pytest.mark.parametrize("name", CONFIG_CASES)
async def test_as_recorded(name: str) -> None:
    async with station(routes, RECORDED) as broker:
        for step in cases()[name]["steps"]:
            if "given" in step:
                await broker.add_topic(step["given"]["topic"], step["given"].get("configs"))
                continue
            answer, shown = await play(broker, step)
            told = step["answer"]
            if "more than 20 configs" in told:
                assert len(answer.results[0].configs) > 20
            else:
                assert agrees(sensible(told), shown), (step, shown)


# Describing


async def test_all_that_is_told_of_a_config(broker: Station) -> None:
    result = await describe(broker, TOPIC, "t", "retention.ms", include_synonyms=True, include_documentation=True)
    (config,) = result.configs
    assert (config.value, config.config_source, config.config_type, config.read_only) == ("60000", 1, 5, False)
    assert [(each.name, each.value, each.source) for each in config.synonyms] == [("retention.ms", "60000", 1)]
    assert len(config.documentation) > 20
    (plain,) = (await describe(broker, TOPIC, "t", "retention.ms")).configs
    assert (plain.synonyms, plain.documentation) == ([], None)


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "other", "UNKNOWN_TOPIC_OR_PARTITION"),
        (TOPIC, "", "INVALID_TOPIC_EXCEPTION"),
        (TOPIC, "bad name", "INVALID_TOPIC_EXCEPTION"),
        (BROKER, "2", "INVALID_REQUEST"),
        (BROKER, "x", "INVALID_REQUEST"),
        (LOGGER, "", "INVALID_REQUEST"),
        (LOGGER, "2", "INVALID_REQUEST"),
        (LOGGER, "x", "INVALID_REQUEST"),
        (0, "x", "INVALID_REQUEST"),
        (16, "x", "INVALID_REQUEST"),
        (32, "x", "INVALID_REQUEST"),
        (77, "x", "INVALID_REQUEST"),
    ],
)
async def test_what_cannot_be_described(broker: Station, kind: int, name: str, error: str) -> None:
    result = await describe(broker, kind, name)
    assert (ErrorCode(result.error_code).name, result.configs) == (error, [])
    assert result.error_message


async def test_each_resource_is_described_alone(broker: Station) -> None:
    asked = [(TOPIC, "t"), (TOPIC, "other"), (BROKER, "1")]
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None) for kind, name in asked
    ]
    # One that is there again is answered once.
    answer = await broker.ask(DescribeConfigsRequest(resources=resources * 3), 1)
    assert [(each.resource_type, each.resource_name) for each in answer.results] == asked
    assert [len(each.configs) > 20 for each in answer.results] == [True, False, True]
    assert (await broker.ask(DescribeConfigsRequest(resources=[]), 0)).results == []


async def test_resource_that_is_there_again_is_described_with_all_keys_asked_for(broker: Station) -> None:
    def asked(*keys: str) -> DescribeConfigsResource:
        return DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=list(keys) or None)

    two = [asked("retention.ms"), asked("segment.bytes"), asked("retention.ms")]
    (result,) = (await broker.ask(DescribeConfigsRequest(resources=two), 1)).results
    assert sorted(each.name for each in result.configs) == ["retention.ms", "segment.bytes"]
    (result,) = (await broker.ask(DescribeConfigsRequest(resources=[*two, asked()]), 1)).results
    assert len(result.configs) > 20


async def test_a_topic_is_described_by_what_is_stored_at_that_moment(broker: Station) -> None:
    # By another broker, of whose change this one has not heard yet.
    await broker.coord.set(topic_entity("t").node, b'{"version":1,"config":{"retention.ms":"7","nonsense":"1"}}')
    assert await value(broker, TOPIC, "t", "retention.ms") == "7"
    assert broker.live.overrides("t") == {"retention.ms": "60000"}


@pytest.mark.parametrize("data", [b"nonsense", None])
async def test_a_topic_is_described_without_zookeeper(data: bytes | None) -> None:
    async with MemoryWorld() as world, station(routes, world=world) as broker:
        await broker.add_topic("t", {"retention.ms": "60000"})
        if data is None:
            world.cut(broker.coord)
        else:
            await broker.coord.set(topic_entity("t").node, data)
        assert await value(broker, TOPIC, "t", "retention.ms") == "60000"
        if data is None:
            # The connection is gone, but nobody has noticed.
            diary = Diary(broker.coord)
            world.heal(broker.coord)
            await diary.until(SessionState.CONNECTED)
            asked = asyncio.create_task(value(broker, TOPIC, "t", "retention.ms"))
            await asyncio.sleep(0)
            world.drop(broker.coord)
            assert await asked == "60000"


# Changing


async def test_what_is_changed_is_stored_told_and_in_force(broker: Station) -> None:
    told: list[str | None] = []
    broker.live.add_listener(told.append)
    assert await change(broker, (TOPIC, "t", [("max.message.bytes", SET, "5")])) == ["NONE"]
    assert (await read_config(broker.coord, topic_entity("t"))).texts == {
        "retention.ms": "60000",
        "max.message.bytes": "5",
    }
    assert len(await names_below(broker.coord, CHANGES)) == 1
    assert broker.live.topic("t").log.max_message_bytes == 5
    assert await change(broker, (BROKER, "1", [("log.segment.bytes", SET, "5000")])) == ["NONE"]
    assert broker.live.topic("t").log.segment_bytes == 5000
    assert await change(broker, (BROKER, "", [("log.retention.ms", SET, "7000")])) == ["NONE"]
    assert broker.live.topic("u").log.retention_ms == 7000
    assert told == ["t", None, None]
    assert await names_below(broker.coord, "/config/brokers") == ["1", "<default>"]


async def test_replacing(broker: Station) -> None:
    assert await replace(broker, (TOPIC, "t", {"segment.bytes": "1000"})) == ["NONE"]
    assert broker.live.overrides("t") == {"segment.bytes": "1000"}
    assert await replace(broker, (TOPIC, "t", {}), only=True) == ["NONE"]
    assert broker.live.overrides("t") == {"segment.bytes": "1000"}
    assert await replace(broker, (BROKER, "1", {"log.segment.bytes": "2000"}), (BROKER, "", {})) == ["NONE", "NONE"]
    assert await value(broker, BROKER, "1", "log.segment.bytes") == "2000"
    assert await replace(broker, (BROKER, "1", {})) == ["NONE"]
    assert await value(broker, BROKER, "1", "log.segment.bytes") == "1073741824"


async def test_nothing_is_changed_if_it_is_only_to_be_checked(broker: Station) -> None:
    assert await change(broker, (TOPIC, "t", [("segment.bytes", SET, "1000")]), validate_only=True) == ["NONE"]
    assert await change(broker, (TOPIC, "t", [("segment.bytes", SET, "1")]), validate_only=True) == ["INVALID_CONFIG"]
    assert broker.live.overrides("t") == {"retention.ms": "60000"}
    assert await names_below(broker.coord, CHANGES) == []


OK: list[Change] = [("retention.ms", SET, "7")]
WRONG: list[tuple[int, str, list[Change], str]] = [
    (TOPIC, "", OK, "INVALID_REQUEST"),
    (TOPIC, "other", OK, "UNKNOWN_TOPIC_OR_PARTITION"),
    (TOPIC, "bad name", OK, "UNKNOWN_TOPIC_OR_PARTITION"),
    (TOPIC, "t", [("retention.ms", APPEND, "7")], "INVALID_CONFIG"),
    (BROKER, "2", [("log.retention.ms", SET, "7")], "INVALID_REQUEST"),
    (BROKER, "1", [("broker.id", SET, "7")], "INVALID_REQUEST"),
    (16, "x", OK, "INVALID_REQUEST"),
    (77, "x", OK, "INVALID_REQUEST"),
    (LOGGER, "2", [("root", SET, "INFO")], "INVALID_REQUEST"),
    (LOGGER, "", [("root", SET, "INFO")], "INVALID_REQUEST"),
]


async def test_each_resource_fails_alone(broker: Station) -> None:
    asked = [(kind, name, changes) for kind, name, changes, _ in WRONG]
    distinct = {(kind, name): each for kind, name, *_ in asked for each in asked if each[:2] == (kind, name)}
    good: tuple[int, str, list[Change]] = (BROKER, "", [("log.retention.ms", SET, "7")])
    errors = {(kind, name): error for kind, name, _, error in WRONG}
    answers = await change(broker, *distinct.values(), good)
    assert answers == [*(errors[each] for each in distinct), "NONE"]
    assert broker.live.topic("u").log.retention_ms == 7


async def test_what_is_there_twice_is_refused(broker: Station) -> None:
    twice = (TOPIC, "t", OK)
    assert await change(broker, twice, (BROKER, "", []), twice) == ["INVALID_REQUEST", "NONE", "INVALID_REQUEST"]
    pairs: dict[str, str | None] = {"retention.ms": "7"}
    assert await replace(broker, (TOPIC, "t", pairs), (TOPIC, "t", pairs)) == ["INVALID_REQUEST"] * 2
    assert broker.live.overrides("t") == {"retention.ms": "60000"}


async def test_loggers_are_not_replaced(broker: Station) -> None:
    assert await replace(broker, (LOGGER, "1", {"root": "INFO"}), (77, "x", {})) == ["INVALID_REQUEST"] * 2


async def test_a_topic_that_was_deleted_just_now(broker: Station) -> None:
    await broker.coord.delete(topic_entity("t").node)
    await broker.coord.delete("/brokers/topics/t")
    assert await change(broker, (TOPIC, "t", OK)) == ["UNKNOWN_TOPIC_OR_PARTITION"]
    assert await names_below(broker.coord, "/config/topics") == []


@pytest.mark.parametrize("skip", range(3))
async def test_requests_take_effect_in_their_order(skip: int) -> None:
    """Also if they are sent without waiting for answers, and ZooKeeper's are lost."""
    async with MemoryWorld() as world, station(routes, world=world) as broker:
        await broker.add_topic("t")
        world.lose_answer(broker.coord, skip, done=False)
        asked: list[asyncio.Task[Any]] = []
        for number in range(5):
            asked.append(asyncio.create_task(change(broker, (TOPIC, "t", [("retention.ms", SET, str(number))]))))
            asked.append(asyncio.create_task(value(broker, TOPIC, "t", "retention.ms")))
        assert await asyncio.gather(*asked) == [each for number in range(5) for each in (["NONE"], str(number))]


async def test_changes_on_two_brokers_at_once() -> None:
    async with (
        MemoryWorld() as world,
        station(routes, world=world) as one,
        station(routes, {"broker.id": "2"}, world=world) as two,
    ):
        for each in (one, two):
            await each.add_topic("t")
        watch = ConfigWatch(two.coord, two.live, two.context.clock)
        await watch.load()
        following = asyncio.create_task(watch.run())
        keys = ("retention.ms", "segment.bytes", "max.message.bytes", "delete.retention.ms")
        await asyncio.gather(
            *(change(each, (TOPIC, "t", [(key, SET, "7000")])) for key, each in zip(keys, (one, two) * 2, strict=True))
        )
        assert (await read_config(one.coord, topic_entity("t"))).texts == dict.fromkeys(keys, "7000")
        changed = asyncio.Event()
        two.live.add_listener(lambda _: changed.set())
        while two.live.overrides("t") != dict.fromkeys(keys, "7000"):
            changed.clear()
            await changed.wait()
        following.cancel()


async def test_patience_has_an_end() -> None:
    async with MemoryWorld() as world, station(routes, {"request.timeout.ms": "50"}, world=world) as broker:
        await broker.add_topic("t")
        world.cut(broker.coord)
        assert await change(broker, (TOPIC, "t", OK), (77, "x", [])) == ["REQUEST_TIMED_OUT", "INVALID_REQUEST"]
        world.heal(broker.coord)
        await broker.coord.connected()
        assert await change(broker, (TOPIC, "t", OK)) == ["NONE"]
        await broker.coord.close()
        assert await change(broker, (TOPIC, "t", OK)) == ["BROKER_NOT_AVAILABLE"]


async def test_no_secret_is_told(broker: Station, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    request: list[Change] = [("listener.name.plaintext.ssl.keystore.password", SET, "hunter2")]
    assert await change(broker, (BROKER, "1", request)) == ["INVALID_CONFIG"]
    assert "hunter2" not in caplog.text


# Loggers


@pytest.fixture
def quiet() -> Iterator[logging.Logger]:
    """A logger of ours, with the levels as they were in the end."""
    logger, root = logging.getLogger("minikafka.test.quiet"), logging.root.level
    yield logger
    logger.setLevel(logging.NOTSET)
    logging.root.setLevel(root)


async def test_loggers(broker: Station, quiet: logging.Logger) -> None:
    logging.root.setLevel(logging.WARNING)
    assert await value(broker, LOGGER, "1", quiet.name) == await value(broker, LOGGER, "1", "root") == "WARN"
    assert await change(broker, (LOGGER, "1", [(quiet.name, SET, "DEBUG")])) == ["NONE"]
    assert quiet.level == logging.DEBUG
    result = await describe(broker, LOGGER, "1", quiet.name, "no.such", include_synonyms=True)
    (config,) = result.configs
    assert (config.value, config.config_source, config.config_type, config.read_only) == ("DEBUG", 6, 0, False)
    assert await change(broker, (LOGGER, "1", [(quiet.name, SET, "FATAL")]), validate_only=True) == ["NONE"]
    assert quiet.level == logging.DEBUG
    assert await change(broker, (LOGGER, "1", [(quiet.name, DELETE, None), ("root", SET, "TRACE")])) == ["NONE"]
    assert await value(broker, LOGGER, "1", quiet.name) == "TRACE"
    assert len((await describe(broker, LOGGER, "1")).configs) > 5


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([("no.such", SET, "INFO")], "INVALID_CONFIG"),
        ([("no.such", DELETE, None)], "INVALID_CONFIG"),
        ([("root", SET, "LOUD")], "INVALID_CONFIG"),
        ([("root", SET, None)], "INVALID_REQUEST"),
        ([("root", DELETE, None)], "INVALID_REQUEST"),
        ([("root", APPEND, "INFO")], "INVALID_REQUEST"),
        ([("root", 9, "INFO")], "INVALID_REQUEST"),
        ([("root", SET, "INFO"), ("root", SET, "WARN")], "INVALID_REQUEST"),
        ([("root", SET, "FATAL"), ("no.such", SET, "INFO")], "INVALID_CONFIG"),
    ],
)
async def test_levels_that_cannot_be_set(
    broker: Station, quiet: logging.Logger, changes: list[Change], error: str
) -> None:
    before = logging.root.level
    assert await change(broker, (LOGGER, "1", changes)) == [error]
    assert logging.root.level == before
