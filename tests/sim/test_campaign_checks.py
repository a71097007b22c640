"""Each check of the campaign on hand-made input: what it must find, and what it must let pass."""

from __future__ import annotations

from typing import Any

from minikafka.client import KafkaError, TopicPartition
from minikafka.client.consumer.errors import LogTruncated, OffsetOutOfRange
from minikafka.client.errors import ConnectionFailed, DeliveryTimeout, ProducerFailed
from minikafka.protocol.errors import OutOfOrderSequenceNumberError
from tests.chaos import checker
from tests.chaos.history import Event, Seen
from tests.sim.campaign.load import Load
from tests.sim.campaign.losses import PowerLog, history_after, violations
from tests.sim.campaign.observer import Reign, Reigns, Sample
from tests.sim.campaign.replicas import differences
from tests.sim.loop import SimLoop

REIGN = Reign(b"id", "t", 0, 5)


def kinds(*samples: Sample) -> list[str]:
    reigns = Reigns()
    for sample in samples:
        reigns.add(sample)
    return [each.partition(":")[0] for each in reigns.violations]


def test_two_leaders_of_one_epoch_are_found() -> None:
    assert kinds(Sample(REIGN, 1, 1, 3, 3), Sample(REIGN, 2, 1, 3, 3)) == ["two-leaders"]
    assert kinds(Sample(REIGN, 1, 1, 3, 3), Sample(REIGN._replace(epoch=6), 2, 1, 3, 3)) == []


def test_high_watermark_and_stable_offset_must_not_go_back_within_an_epoch() -> None:
    assert kinds(Sample(REIGN, 1, 1, 3, 3), Sample(REIGN, 1, 1, 2, 3)) == ["high-watermark-back"]
    assert kinds(Sample(REIGN, 1, 1, 3, 3), Sample(REIGN, 1, 1, 3, 1)) == ["last-stable-offset-back"]
    assert kinds(Sample(REIGN, 1, 1, 3, 3), Sample(REIGN, 1, 2, 1, 1)) == []


def replica(data: bytes = b"ab", **more: Any) -> dict[str, Any]:
    return {"start": 0, "end": 2, "read": lambda low: data[low:], "epochs": [(1, 0)], "producers": {}, **more}


def test_replicas_that_differ_are_found() -> None:
    assert differences("t-0", {1: replica(), 2: replica(), 3: replica(b"xb", start=0)})[0].startswith("replicas-differ")
    assert differences("t-0", {1: replica(), 2: replica(end=1)})[0].startswith("replicas-differ")
    assert differences("t-0", {1: replica(), 2: replica(epochs=[(2, 0)])})[0].startswith("epochs-differ")
    assert differences("t-0", {1: replica(), 2: replica(producers={7: (0, 1, -1)})})[0].startswith("producers-differ")


def test_replicas_may_begin_at_different_offsets() -> None:
    assert differences("t-0", {1: replica(), 2: replica(b"xb", start=1)}) == []


def test_loss_is_permitted_only_when_power_losses_overlap_in_replicated_mode() -> None:
    back: set[int] = set()
    for durability, is_permitted in (("replicated", True), ("fsync", False)):
        power = PowerLog(durability, back.__contains__, lambda: 5.0)
        power.lost(1)
        assert not power.permits_loss
        power.lost(2)
        assert power.permits_loss == is_permitted
    power = PowerLog("replicated", {1}.__contains__, lambda: 5.0)
    power.lost(1)
    power.lost(2)
    assert not power.permits_loss


def test_permitted_loss_excuses_losses_only() -> None:
    found = [("lost", "5"), ("duplicate", "6")]
    assert violations(found, permits_loss=True) == ["duplicate: 6"]
    assert violations(found, permits_loss=False) == ["lost: 5", "duplicate: 6"]


def judged(note: str, *arguments: object) -> list[str]:
    """What the judge of records finds after a client of the load got an error."""

    async def story() -> Load:
        load = Load(0, is_full=True)
        getattr(load, note)(*arguments)
        return load

    return [each.kind for each in checker.check(SimLoop().run(story()).records).anomalies]


def test_reader_whose_position_is_gone_is_an_anomaly() -> None:
    where = TopicPartition("t", 1)
    for error in (OffsetOutOfRange("gone", where, 5), LogTruncated("gone", where, 5)):
        assert judged("note_position", "reader/0", error) == ["out-of-range"]
    assert judged("note_position", "reader/0", ConnectionFailed("broken")) == []


def test_producer_whose_records_are_refused_is_an_anomaly() -> None:
    errors: list[KafkaError] = [ProducerFailed("over"), OutOfOrderSequenceNumberError("a gap")]
    for error in errors:
        assert judged("note_refusal", "producer-0/0", "1", error) == ["fatal"]
    assert judged("note_refusal", "producer-0/0", "1", DeliveryTimeout("late")) == []


def test_permitted_loss_excuses_only_what_was_sent_before() -> None:
    def acked(value: int, began: float) -> list[Event]:
        sent = Event(began, "producer", "invoke", "send", partition="0", value=value)
        return [sent, sent._replace(time=began + 1, kind="ok", offset=value)]

    last = [Event(9, "final", "ok", "poll", records=(Seen("0", 3, 3),)), Event(9, "final", "info", "final")]
    for began, expected in ((1.0, []), (6.0, ["lost"])):
        events = [*acked(2, began), *acked(3, 7.0), *last]
        assert [each.kind for each in checker.check(events).anomalies] == ["lost"]
        assert [each.kind for each in checker.check(history_after(events, 5.0)).anomalies] == expected
