"""`KAFKA_*` variables, as the usual container images turn them into keys.

`KAFKA_LOG_DIRS` is log.dirs: `_` stands for a point, `__` for an underscore, `___` for a dash. `KAFKA_CFG_` in front
means the same, as in Bitnami's image. The environment is shared with others, though: variables of Kafka's launcher, of
clients, and those that Kubernetes makes up for a service called kafka are no keys and are passed over.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from minikafka.broker.config.keys import broker_keys

_PREFIX: Final = "KAFKA_"
_NO_KEYS: Final = (
    "(?:"
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
        rest = variable.removeprefix(_PREFIX)
        if rest not in ("", variable) and rest.isascii() and not re.fullmatch(_NO_KEYS, rest):
            yield _as_declared(_key(rest.removeprefix("CFG_"))), environment[variable], variable


def _key(rest: str) -> str:
    # Three before two before one; a blank cannot be part of a variable's name.
    return rest.lower().replace("___", "-").replace("__", " ").replace("_", ".").replace(" ", "_")


def _as_declared(name: str) -> str:
    """Names of variables have lost their case; one of Kafka's keys has capitals in it."""
    if name in broker_keys():
        return name
    return next((known for known in broker_keys() if known.lower() == name), name)
