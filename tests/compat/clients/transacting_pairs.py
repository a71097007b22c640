"""A client with its transactions, and what is left open when a test ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from tests.compat.clients.aio import Aiokafka
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.kafka_python import KafkaPython
from tests.compat.clients.model import Client
from tests.compat.clients.transacting import TIMEOUT_MS, GroupReader, Transacting, Transactor
from tests.compat.clients.transacting_aio import AiokafkaTransacting
from tests.compat.clients.transacting_confluent import ConfluentTransacting
from tests.compat.clients.transacting_kafka_python import KafkaPythonTransacting


class Pair(NamedTuple):
    """Both are the same client."""

    transacting: Transacting
    client: Client
    opened: ExitStack

    def transactor(self, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> Transactor:
        made = self.transacting.transactor(transactional_id, timeout_ms)
        self.opened.callback(made.close)
        return made

    def reader(self, group: str, topic: str) -> GroupReader:
        made = self.transacting.reader(group, topic)
        self.opened.callback(made.close)
        return made


PAIRS: dict[str, Callable[[str, ExitStack], Pair]] = {
    "confluent": lambda servers, opened: Pair(ConfluentTransacting(servers), Confluent(servers), opened),
    "kafka-python": lambda servers, opened: Pair(KafkaPythonTransacting(servers), KafkaPython(servers), opened),
    "aiokafka": lambda servers, opened: Pair(AiokafkaTransacting(servers), Aiokafka(servers), opened),
}
