"""`KAFKA_*` variables."""

import pytest

from minikafka.broker.config.environment import keys_of_environment


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_LOG_DIRS", "log.dirs"),
        ("KAFKA_BROKER_ID", "broker.id"),
        ("KAFKA_CFG_BROKER_ID", "broker.id"),
        ("KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR", "offsets.topic.replication.factor"),
        ("KAFKA_LISTENER_NAME_MY__ONE_MAX_CONNECTIONS", "listener.name.my_one.max.connections"),
        ("KAFKA_LISTENER_NAME_X_SCRAM___SHA___256_SASL_JAAS_CONFIG", "listener.name.x.scram-sha-256.sasl.jaas.config"),
        ("KAFKA_ZOOKEEPER_CLIENTCNXNSOCKET", "zookeeper.clientCnxnSocket"),
        ("KAFKA_A____B", "a-.b"),
        ("KAFKA_NO_SUCH_KEY", "no.such.key"),
        ("KAFKA_LOG_DIR", "log.dir"),
        ("KAFKA_GROUP_MAX_SIZE", "group.max.size"),
    ],
)
def test_keys(variable: str, key: str) -> None:
    assert list(keys_of_environment({variable: " v ", "PATH": "/bin"})) == [(key, " v ", variable)]


@pytest.mark.parametrize(
    "variable",
    [
        *("KAFKA_HEAP_OPTS", "KAFKA_OPTS", "KAFKA_JMX_OPTS", "KAFKA_JMX_PORT", "KAFKA_JMX_HOSTNAME"),
        *("KAFKA_LOG4J_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_LOG4J_LOGGERS", "KAFKA_TOOLS_LOG4J_LOGLEVEL"),
        *("KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_GC_LOG_OPTS", "KAFKA_VERSION", "KAFKA_HOME", "KAFKA_DEBUG"),
        *("KAFKA_SERVICE_HOST", "KAFKA_SERVICE_PORT", "KAFKA_SERVICE_PORT_CLIENT", "KAFKA_PORT"),
        *("KAFKA_PORT_9092_TCP", "KAFKA_PORT_9092_TCP_ADDR", "KAFKA_PORT_9092_TCP_PORT"),
        *("KAFKA_BOOTSTRAP_SERVERS", "KAFKA_BROKERS", "KAFKA_", "KAFKA", "LOG_DIRS", "kafka_log_dirs"),
    ],
)
def test_no_keys(variable: str) -> None:
    assert list(keys_of_environment({variable: "v"})) == []


def test_the_order_is_that_of_the_names() -> None:
    environment = {"KAFKA_LOG_DIRS": "b", "KAFKA_BROKER_ID": "a"}
    assert [key for key, _, _ in keys_of_environment(environment)] == ["broker.id", "log.dirs"]
