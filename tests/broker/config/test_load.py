"""From files, variables and arguments to a configuration; one line about whatever is wrong."""

from pathlib import Path

import pytest
from hypothesis import given as given_examples
from hypothesis import settings
from hypothesis import strategies as st

from minikafka.broker.config.errors import ConfigError, assignment
from minikafka.broker.config.keys import Kind, broker_keys
from minikafka.broker.config.load import Loaded, load, resolve
from minikafka.broker.config.settings import Given
from tests.broker.config.recorded import config_of, given, recording

ZOOKEEPER = "zookeeper.connect=localhost:2181\n"
HUSH = "hunter2"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.properties"


def loaded(path: Path, text: str, environment: dict[str, str] | None = None, *sets: str) -> Loaded:
    path.write_text(ZOOKEEPER + text)
    return load(str(path), environment or {}, sets)


def said(path: Path, text: str, environment: dict[str, str] | None = None, *sets: str) -> str:
    """The one line about what is wrong, without the folder."""
    with pytest.raises(ConfigError) as error:
        loaded(path, text, environment, *sets)
    line = str(error.value)
    assert "\n" not in line
    return line.replace(f"{path.parent}/", "")


def test_later_sources_win(path: Path) -> None:
    text = "broker.id=1\nnum.partitions=1\nlog.dirs=/file\nbroker.rack=file\n"
    environment = {"KAFKA_LOG_DIRS": "/variable", "KAFKA_BROKER_RACK": "variable", "KAFKA_HEAP_OPTS": "-Xmx1g"}
    config = loaded(path, text, environment, "broker.rack=set", "num.partitions=7").config
    assert (config.broker_id, config.num_partitions) == (1, 7)
    assert (config.log_dirs, config.broker_rack) == (("/variable",), "set")


def test_nothing_but_variables() -> None:
    config, warnings = load(None, {"KAFKA_ZOOKEEPER_CONNECT": "a:1,b:2/kafka"})
    assert config.zookeeper_connect == "a:1,b:2/kafka"
    assert warnings == ()


def test_a_value_of_set_may_hold_equals_signs(path: Path) -> None:
    assert loaded(path, "", None, "broker.rack=a=b").config.broker_rack == "a=b"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("log.retnetion.ms=1", "server.properties:2: unknown key 'log.retnetion.ms', did you mean 'log.retention.ms'?"),
        ("qqqq=1", "server.properties:2: unknown key 'qqqq'"),
        (
            "\nlog.segment.bytes=12",
            "server.properties:3: log.segment.bytes='12': must be a 32-bit whole number of at least 14",
        ),
        (
            "log.cleanup.policy=shred",
            "server.properties:2: log.cleanup.policy='shred': must be a list of compact, delete",
        ),
        (
            "auto.create.topics.enable=maybe\\nnot",
            "server.properties:2: auto.create.topics.enable='maybe\\nnot': must be true or false",
        ),
        ("log.dirs=,", "server.properties:2: log.dirs=',': must name at least one directory"),
        ("log.dirs=/a,/a", "server.properties:2: log.dirs='/a,/a': the same directory is there twice"),
        (
            "replica.socket.timeout.ms=100",
            "server.properties:2: replica.socket.timeout.ms='100': "
            "replica.fetch.wait.max.ms must not be above replica.socket.timeout.ms, which is 100",
        ),
        (
            "log.retention.minutes=0",
            "server.properties:2: log.retention.minutes='0': must be at least 1, or -1 to keep everything",
        ),
        (
            "node.id=1\nbroker.id=2",
            "server.properties:2: node.id='1': must be the same as broker.id, of which it is another name",
        ),
        (
            "broker.id=" + "9" * 200,
            "server.properties:2: broker.id='" + "9" * 97 + "...': must be a 32-bit whole number",
        ),
        (
            "num.io.threads=none",
            "server.properties:2: num.io.threads='none': must be a 32-bit whole number of at least 1",
        ),
        ("listener.name.x.no.such=1", "server.properties:2: unknown key 'listener.name.x.no.such'"),
    ],
)
def test_errors_of_a_file(path: Path, text: str, line: str) -> None:
    assert said(path, text) == line


def test_errors_of_variables_and_arguments(path: Path) -> None:
    assert (
        said(path, "", {"KAFKA_BROKER_IDD": "1"})
        == "KAFKA_BROKER_IDD: unknown key 'broker.idd', did you mean 'broker.id'?"
    )
    assert said(path, "", {"KAFKA_NUM_PARTITIONS": "0"}) == (
        "KAFKA_NUM_PARTITIONS: num.partitions='0': must be a 32-bit whole number of at least 1"
    )
    assert said(path, "", None, "num.partitions=x") == (
        "--set: num.partitions='x': must be a 32-bit whole number of at least 1"
    )
    assert said(path, "", None, "num.partition=1") == (
        "--set: unknown key 'num.partition', did you mean 'num.partitions'?"
    )
    assert said(path, "", None, "broker.id") == "--set broker.id: must be key=value"
    assert said(path, "", {"KAFKA_BROKER_RACK": "\udcff"}) == (
        "KAFKA_BROKER_RACK: broker.rack='\\udcff': must be valid Unicode"
    )


def test_zookeeper_has_to_be_named() -> None:
    with pytest.raises(ConfigError) as error:
        load(None, {})
    assert str(error.value) == "zookeeper.connect is not set: must be the address of ZooKeeper, as in localhost:2181"


def test_a_bad_value_that_is_overridden_does_not_count(path: Path) -> None:
    assert loaded(path, "num.partitions=x", None, "num.partitions=2").config.num_partitions == 2


def test_warnings(path: Path) -> None:
    text = "num.io.threads=4\nbroker.id=1\nbroker.id=2\nconfluent.support.metrics.enable=false\n"
    config, warnings = loaded(path, text, {"KAFKA_PROCESS_ROLES": "broker"}, "super.users=User:a")
    assert config.broker_id == 2
    assert [line.replace(f"{path.parent}/", "") for line in warnings] == [
        "server.properties:4: broker.id is set again, line 3 does not count",
        "server.properties:5: confluent.support.metrics.enable is not used: it belongs to Confluent's distribution",
        "server.properties:2: num.io.threads has no effect here: one event loop does all the work",
        "KAFKA_PROCESS_ROLES: process.roles has no effect here: "
        "the cluster's metadata is in ZooKeeper, there is no KRaft quorum",
        "--set: super.users has no effect here: there is no authorizer, everybody may do everything",
    ]


@pytest.mark.parametrize(("texts", "accepted"), recording("config-values")["together"])
def test_kafka_accepts_the_same_settings(texts: dict[str, str], accepted: bool) -> None:
    try:
        resolve(given(texts))
    except ConfigError:
        assert not accepted
    else:
        assert accepted


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({}, (-1, -1)),
        ({"broker.id": "3"}, (3, 3)),
        ({"node.id": "4"}, (4, 4)),
        ({"node.id": "5", "broker.id": "5"}, (5, 5)),
    ],
)
def test_the_two_names_of_the_id(texts: dict[str, str], expected: tuple[int, int]) -> None:
    config = config_of(texts)
    assert (config.broker_id, config.settings.value("node.id")) == expected


@pytest.mark.parametrize("text", ["socket.request.max.bytes=1", "controller.socket.timeout.ms=0", "max.connections=0"])
def test_values_with_which_nobody_is_served_are_warned_of(text: str) -> None:
    name, _, value = text.partition("=")
    zookeeper = Given("zookeeper.connect", "localhost:2181", "--set")
    (warning,) = resolve([zookeeper, Given(name, value, "--set")]).warnings
    assert warning.startswith(name)


def test_limits_for_addresses() -> None:
    config = config_of({"max.connections.per.ip.overrides": "127.0.0.1:5, ::1:6,example.com:7"})
    assert config.max_connections_per_ip_overrides == {"127.0.0.1": 5, "::1": 6, "example.com": 7}


SECRETS = [name for name, key in broker_keys().items() if key.kind is Kind.PASSWORD]


def test_secrets_are_nowhere(path: Path) -> None:
    lines = [f"{name}={HUSH}\n" for name in (*SECRETS, "listener.name.x.scram-sha-256.sasl.jaas.config")]
    config, warnings = loaded(path, "".join(lines))
    assert len(warnings) == len(lines)
    shown = [repr(config), str(config), repr(config.settings), *warnings]
    assert not [text for text in shown if HUSH in text]


@pytest.mark.parametrize(
    "text",
    [
        f"ssl.keystore.pasword={HUSH}",
        f"ssl.keystore.password={HUSH}\nnum.partitions=0",
        f"ssl.keystore.password={HUSH}\\u12",
        f"sasl.jaas.config={HUSH}\nlisteners=nonsense",
    ],
)
def test_errors_show_no_secret(path: Path, text: str) -> None:
    assert HUSH not in said(path, text)
    assert HUSH not in said(path, "", None, f"ssl.key.password {HUSH}")


def test_given_shows_no_secret() -> None:
    assert assignment("ssl.key.password", HUSH, secret=True) == "ssl.key.password"
    assert repr(Given("ssl.key.password", HUSH, "--set")) == "Given('ssl.key.password', origin='--set')"


NAMES = st.sampled_from(sorted(broker_keys())) | st.text(max_size=30)
TEXTS = st.text(max_size=20) | st.integers().map(str) | st.sampled_from(recording("config-values")["candidates"])


@given_examples(st.dictionaries(NAMES, TEXTS, max_size=4))
@settings(max_examples=200, deadline=None)
def test_garbage_is_a_configuration_or_a_config_error(texts: dict[str, str]) -> None:
    try:
        config = config_of(texts)
    except ConfigError as error:
        assert "\n" not in str(error)
        return
    assert config.topic_config({}).min_insync_replicas >= 1
