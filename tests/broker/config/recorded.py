"""Recordings of Kafka's configs, and configurations to compare with them."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from minikafka.broker.config.broker import BrokerConfig
from minikafka.broker.config.describe import Entry
from minikafka.broker.config.load import resolve
from minikafka.broker.config.settings import Given
from tests.tree import ROOT

DATA = ROOT / "tests" / "data"

TOPIC, BROKER = 2, 4


@cache
def recording(name: str) -> Any:
    return json.loads((DATA / f"kafka-3.9.1-{name}.json").read_text())


def given(texts: Mapping[str, str]) -> list[Given]:
    return [Given(name, text, "here") for name, text in texts.items()]


def config_of(texts: Mapping[str, str] | None = None) -> BrokerConfig:
    """The configuration of a broker with these settings, and an address of ZooKeeper if they have none."""
    return resolve(given({"zookeeper.connect": "localhost:2181", **(texts or {})})).config


def as_recorded(entries: Iterable[Entry]) -> list[list[Any]]:
    """Entries in the form in which Kafka's were written down."""
    return [
        [
            *(each.name, each.value, each.read_only, int(each.source), each.sensitive),
            [[synonym.name, synonym.text, int(synonym.source)] for synonym in each.synonyms],
            int(each.kind),
        ]
        for each in entries
    ]
