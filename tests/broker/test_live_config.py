"""What is stored and what is used of it, and who is told when."""

from __future__ import annotations

from minikafka.broker.config.settings import Scope
from minikafka.broker.live_config import LiveConfig
from tests.broker.config.recorded import config_of

ALL, ONE = Scope.CLUSTER_WIDE, Scope.PER_BROKER


class Told(list[str | None]):
    """The changes that a listener was told of, with a look at every topic as real listeners take it."""

    def __init__(self, live: LiveConfig) -> None:
        super().__init__()
        self._live = live
        live.add_listener(self._take)

    def _take(self, topic: str | None) -> None:
        self.append(topic)
        for each in [topic] if topic is not None else [*self._live.stored_topics]:
            self._live.topic(each)


def test_a_topic() -> None:
    live = LiveConfig(config_of())
    told = Told(live)
    assert live.store_topic("t", {"max.message.bytes": "5"}) == ()
    assert live.topic("t").log.max_message_bytes == 5
    assert live.store_topic("t", {"max.message.bytes": "6"}) == ()
    assert live.topic("t").log.max_message_bytes == 6
    assert live.store_topic("t", {"max.message.bytes": "6"}) == ()
    assert live.store_topic("t", {}) == ()
    assert live.topic("t").log.max_message_bytes == 1048588
    assert told == ["t", "t", "t"]
    assert list(live.stored_topics) == []


def test_what_is_of_no_use_is_told_and_passed_over() -> None:
    live = LiveConfig(config_of())
    (complaint,) = live.store_topic("t", {"max.message.bytes": "many", "retention.ms": "7"})
    assert "topic t" in complaint and "many" in complaint
    assert live.overrides("t") == {"retention.ms": "7"}
    complaints = live.store_broker({ALL: {"broker.id": "7", "message.max.bytes": "9"}})
    assert ["broker.id" in each for each in complaints] == [True, False]
    assert complaints[1] == complaint
    assert live.topic("u").log.max_message_bytes == 9


def test_layers_of_the_broker() -> None:
    live = LiveConfig(config_of())
    told = Told(live)
    live.store_broker({ALL: {"message.max.bytes": "7"}, ONE: {"message.max.bytes": "8"}})
    assert live.topic("t").log.max_message_bytes == 8
    live.store_broker({ONE: {}})
    assert live.topic("t").log.max_message_bytes == 7
    live.store_broker({ONE: {}})
    live.store_broker({ALL: {}})
    assert live.topic("t").log.max_message_bytes == 1048588
    assert told == [None, None, None]


def test_overrides_that_do_not_fit_come_back_when_they_do() -> None:
    live = LiveConfig(config_of())
    told = Told(live)
    live.store_topic("t", {"min.compaction.lag.ms": "10"})
    (complaint,) = live.store_broker({ALL: {"log.cleaner.max.compaction.lag.ms": "5"}})
    assert "topic t" in complaint and "min.compaction.lag.ms" in complaint
    assert live.overrides("t") == {}
    assert live.topic("t").log.max_compaction_lag_ms == 5
    assert live.store_broker({ALL: {}}) == ()
    assert live.overrides("t") == {"min.compaction.lag.ms": "10"}
    assert live.topic("t").log.min_compaction_lag_ms == 10
    assert told == ["t", None, None]


def test_a_topic_set_directly_is_known_as_stored() -> None:
    live = LiveConfig(config_of())
    live.set_topic("t", {"retention.ms": "7"})
    assert list(live.stored_topics) == ["t"]
    live.set_topic("t", {})
    assert list(live.stored_topics) == []
