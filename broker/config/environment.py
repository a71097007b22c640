"""`KAFKA_*` variables, as the usual container images turn them into keys.

`KAFKA_LOG_DIRS` is log.dirs: `_` stands for a point, `__` for an underscore, `___` for a dash. `KAFKA_CFG_` in front
means the same, as in Bitnami's image. The environment is shared with others, though: variables of Kafka's launcher, of
clients, and those that Kubernetes makes up for a service called kafka are no keys and are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from minikafka.broker.config.keys import broker_keys

_PREFIX: Final = re.compile(r"KAFKA_(?:CFG_)?(?=.)")
_UNDERSCORES: Final = re.compile(r"_{1,3}")
_MEANINGS: Final = {"_": ".", "__": "_", "___": "-"}

_NO_KEYS: Final = re.compile(
    "KAFKA_(?:"
    # Kafka's scripts and the images around them.
    r"(?:HEAP|GC_LOG|JVM_PERFORMANCE|DEBUG)_OPTS|OPTS|DEBUG|DEBUG_\w+|JMX_\w+|(?:TOOLS_)?LOG4J_\w+|CLASSPATH"
    r"|VERSION|SCALA_VERSION|HOME|USER|GROUP|CREATE_TOPICS|KRAFT_CLUSTER_ID"
    r"|(?:BASE|BIN|CONF|CERTS|DATA|INITSCRIPTS|MOUNTED_CONF|VOLUME)_DIR|CONF_FILE"
    # What programs call the cluster that they connect to.
    r"|BOOTSTRAP_SERVERS?|BROKERS?|BROKER_(?:LIST|URL|HOST|PORT)|URL|HOST|HOSTS|TOPICS?|CLIENT_ID|GROUP_ID"
    # Kubernetes' service links.
    r"|SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_[0-9]+_\w+)?"
    ")"
)


def keys_of_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Key, value and variable of all that is meant for the broker, in the order of the variables' names."""
    for variable in sorted(environment):
        prefix = _PREFIX.match(variable)
        if prefix is None or _NO_KEYS.fullmatch(variable):
            continue
        name = _UNDERSCORES.sub(_meaning, variable[prefix.end() :].lower())
        yield _as_declared(name), environment[variable], variable


def _meaning(found: re.Match[str]) -> str:
    return _MEANINGS[found[0]]


def _as_declared(name: str) -> str:
    """Names of variables have lost their case; one of Kafka's keys has capitals in it."""
    if name in broker_keys():
        return name
    return next((known for known in broker_keys() if known.lower() == name), name)
