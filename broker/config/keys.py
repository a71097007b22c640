"""Every key that Kafka 3.9 knows, for brokers and for topics, with type, default, limits and documentation.

The table is data, `broker_keys.json` and `topic_keys.json`, one key a line, read once on first use. Its fields:

    name, type, default   as DescribeConfigs shows them; a default is text, or null for none
    update                when a broker's value may change: read-only, cluster-wide (for all brokers or for one), or
                          per-broker (for one broker only)
    min, max, also        limits of a number, and single values outside of them that are allowed all the same
    one_of, each_of       the values allowed, the elements allowed in a list; any_case: in any spelling of case
    form                  a check by name, see `values`
    broker                of a topic's key: the broker's key that holds its default
    inert                 why the key has no effect here, see `INERT`; a key without it has one
    internal              not shown by DescribeConfigs unless set: Kafka's undocumented keys, those that can be set
                          only at run time, those of Kafka's authorizer, and our own

Any broker key may be set for one listener as `listener.name.<name>.<key>`, some of them as
`listener.name.<name>.<mechanism>.<key>`.
"""

import json
from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from functools import cache
from operator import itemgetter
from os.path import dirname, join
from typing import Any, Final, NamedTuple


class Kind(IntEnum):
    """The type of a value; the numbers are those of DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(Enum):
    """Whether a broker's value may change at run time, and for whom."""

    READ_ONLY = "read-only"
    CLUSTER_WIDE = "cluster-wide"
    PER_BROKER = "per-broker"


class Key(NamedTuple):
    """One row of the table."""

    name: str
    kind: Kind
    default: str | None
    update: Update
    low: float | None
    high: float | None
    also: tuple[float, ...]
    one_of: tuple[str, ...]
    each_of: tuple[str, ...]
    any_case: bool
    form: str
    broker: str | None
    inert: str
    internal: bool
    doc: str

    @property
    def secret(self) -> bool:
        """Whether values are shown to nobody. What is of unknown type might be anything."""
        return self.kind is Kind.PASSWORD or self.kind is Kind.UNKNOWN

    @property
    def documentation(self) -> str:
        return f"{self.doc} No effect here: {INERT[self.inert]}." if self.inert else self.doc


INERT: Final = {
    "acks": "a commit of offsets always needs all in-sync replicas",
    "acl": "there is no authorizer, everybody may do everything",
    "classic": "groups use the classic protocol",
    "compaction": "compaction runs beside the broker and takes what it needs",
    "java": "no Java classes are loaded",
    "jitter": "segments are rolled without jitter",
    "kraft": "the cluster's metadata is in ZooKeeper, there is no KRaft quorum",
    "loop": "one event loop does all the work",
    "memory": "logs are loaded in steps of a fixed size",
    "metrics": "metrics are served over HTTP",
    "prealloc": "files grow as they are written",
    "queue": "requests are limited by their bytes, and by their number for each connection",
    "quota": "quotas are not enforced",
    "rate": "connections are limited by their number, not by their rate",
    "recovery": "the number of threads that load logs is fixed",
    "sasl": "connections are not authenticated",
    "secrets": "no secrets are kept in ZooKeeper",
    "setup": "connecting to another broker may take as long as a request to it",
    "share": "there are no share groups",
    "sockets": "the operating system sizes the buffers of sockets",
    "startup": "chores have no pause of their own",
    "tiered": "there is no tiered storage",
    "tls": "connections are not encrypted",
    "tokens": "there are no delegation tokens",
    "unserved": "the request that it limits is not served",
    "v2": "only the current record format is read and written",
    "version": "there is one version of everything",
    "waiting": "finished requests are cleared away at once",
    "windows": "the rate of replication holds at every moment",
    "zktls": "the connection to ZooKeeper is plain",
}

FOREIGN: Final = {
    "confluent.": "it belongs to Confluent's distribution",
    "rlmm.config.": INERT["tiered"],
    "rsm.config.": INERT["tiered"],
}
"""Beginnings of keys that other people's software reads from the same file, and why we do not."""

# Kafka's rules for keys that mean the same thing: of those set in one place the first wins.
_SYNONYMS: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_SYNONYMS_BY_NAME: Final[dict[str, tuple[str, ...]]] = {
    **{name: group for group in _SYNONYMS for name in group},
    # One way only: the scheduler's interval stands in for the other, but also has a meaning of its own.
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}

_FOR_LISTENER: Final = "listener.name."
_FOR_MECHANISM: Final = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)


@cache
def broker_keys() -> Mapping[str, Key]:
    return _read("broker_keys.json")


@cache
def topic_keys() -> Mapping[str, Key]:
    return _read("topic_keys.json")


def broker_key(name: str) -> Key | None:
    """The row of a broker's key, which may also be set for a single listener."""
    known = broker_keys()
    return known.get(name) or known.get(base_name(name))


def base_name(name: str) -> str:
    """The key without listener and mechanism; other keys as they are."""
    if not is_for_listener(name):
        return name
    base = name.removeprefix(_FOR_LISTENER).partition(".")[2]
    return next((key for key in _FOR_MECHANISM if base.endswith(f".{key}")), base)


def is_for_listener(name: str) -> bool:
    listener, point, base = name.removeprefix(_FOR_LISTENER).partition(".")
    return name.startswith(_FOR_LISTENER) and name.isascii() and bool(listener and point and base)


def synonyms(name: str) -> tuple[str, ...]:
    """The keys that can determine a broker's value, the decisive one first."""
    if is_for_listener(name):
        return (name, base_name(name))
    return _SYNONYMS_BY_NAME.get(name, (name,))


def displaced(name: str) -> tuple[str, ...]:
    """The keys of lower layers that count no more where this one is set."""
    return (name,) if is_for_listener(name) else synonyms(name)


_NAME_MAX: Final = 100
"""Characters of an unknown name that are looked at and repeated; it may be a peer's, and of any length."""
_LIKENESS_MIN: Final = 0.5


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known key that somebody may have meant: the one that shares most of its pairs of letters.

    A peer can ask for this at will, so it takes a millisecond; the standard library's way takes forty.
    """
    wanted = _pairs(name[:_NAME_MAX])
    scores = ((_likeness(wanted, _pairs_of_key(each)), each) for each in known)
    score, found = max(scores, key=itemgetter(0))
    return found if score >= _LIKENESS_MIN else None


def unknown(name: str, known: Iterable[str]) -> str:
    """What to say of a key that nobody knows. Its value could be a secret under a mistyped name."""
    base = base_name(name)
    meant = nearest(base, known)
    hint = f", did you mean {name.removesuffix(base) + meant!r}?" if meant and len(name) <= _NAME_MAX else ""
    return f"unknown key {name[:_NAME_MAX]!r}{hint}"


def _pairs(name: str) -> frozenset[str]:
    folded = name.casefold()
    return frozenset(folded[at : at + 2] for at in range(len(folded) - 1))


_pairs_of_key: Final = cache(_pairs)


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return 2 * len(one & other) / (len(one) + len(other))


def _read(file: str) -> dict[str, Key]:
    with open(join(dirname(__file__), file), encoding="utf-8") as table:
        return {row["name"]: _key(row) for row in json.load(table)}


_KINDS: Final = {kind.name.lower(): kind for kind in Kind}
_UPDATES: Final = {update.value: update for update in Update}


def _key(row: dict[str, Any]) -> Key:
    get = row.get
    return Key(
        name=row["name"],
        kind=_KINDS[row["type"]],
        default=row["default"],
        # All of a topic's keys may change at any time.
        update=_UPDATES[get("update", "cluster-wide")],
        low=get("min"),
        high=get("max"),
        also=tuple(get("also", ())),
        one_of=tuple(get("one_of", ())),
        each_of=tuple(get("each_of", ())),
        any_case=get("any_case", False),
        form=get("form", ""),
        broker=get("broker"),
        inert=get("inert", ""),
        internal=get("internal", False),
        doc=row["doc"],
    )
