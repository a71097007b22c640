"""Each check of the campaign on hand-made input: what it must find, and what it must let pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from minikafka.broker.zookeeper.topic_nodes import StateNode, state_path
from minikafka.client import KafkaError, TopicPartition
from minikafka.client.consumer.errors import LogTruncated, OffsetOutOfRange
from minikafka.client.errors import ConnectionFailed, DeliveryTimeout, ProducerFailed
from minikafka.protocol.errors import OutOfOrderSequenceNumberError
from minikafka.protocol.records import BatchBuilder, BatchView, ControlType, build_marker, read_whole_batches
from tests.chaos import checker
from tests.chaos.history import Event, Kind, Seen
from tests.sim.campaign import anomalies
from tests.sim.campaign.faults import Injector
from tests.sim.campaign.judge import judge_groups, judge_records, judge_transactions
from tests.sim.campaign.leaks import leaks
from tests.sim.campaign.load import Load
from tests.sim.campaign.losses import Losses, Permitted
from tests.sim.campaign.observer import Reign, Reigns, Sample, States
from tests.sim.campaign.plan import Fault, plan_of
from tests.sim.campaign.replicas import differences, last_values
from tests.sim.cluster import SimCluster
from tests.sim.loop import Process, SimLoop
from tests.sim.memory_zookeeper import Node

_T = TypeVar("_T")

REIGN = Reign(b"id", "t", 0, 5)
LOSS = Permitted(5.0, 5.0)


def kinds_of(violations: list[str]) -> list[str]:
    return [text.partition(":")[0] for text in violations]


# --------------------------------------------------------------------------------------------------- leaders


def kinds_of_samples(*samples: Sample) -> list[str]:
    reigns = Reigns()
    for sample in samples:
        reigns.add(sample)
    return kinds_of(reigns.violations)


def test_two_leaders_of_one_epoch_are_a_violation() -> None:
    assert kinds_of_samples(Sample(REIGN, 1, 1, 3, 3), Sample(REIGN, 2, 1, 3, 3)) == ["two-leaders"]
    assert kinds_of_samples(Sample(REIGN, 1, 1, 3, 3), Sample(REIGN._replace(epoch=6), 2, 1, 3, 3)) == []


def test_high_watermark_and_stable_offset_must_not_go_back_within_an_epoch() -> None:
    assert kinds_of_samples(Sample(REIGN, 1, 1, 3, 3), Sample(REIGN, 1, 1, 2, 3)) == ["high-watermark-back"]
    assert kinds_of_samples(Sample(REIGN, 1, 1, 3, 3), Sample(REIGN, 1, 1, 3, 1)) == ["last-stable-offset-back"]
    assert kinds_of_samples(Sample(REIGN, 1, 1, 3, 3), Sample(REIGN, 1, 2, 1, 1)) == []


class Seer:
    """Sees states one after the other."""

    def __init__(self, *states: StateNode) -> None:
        self.unclean = 0
        self.states = States(self._on_unclean)
        for state in states:
            self.states.on_change(state_path("t", 0), Node(state.encode(), 0, 0, 0, 0, 0))

    def _on_unclean(self) -> None:
        self.unclean += 1


def test_state_with_two_leaders_of_an_epoch_or_an_older_epoch_is_a_violation() -> None:
    first = StateNode(1, 5, (1, 2), 1)
    assert kinds_of(Seer(first, first._replace(leader=2)).states.violations) == ["two-leaders"]
    assert kinds_of(Seer(first, first._replace(leader_epoch=4)).states.violations) == ["epoch-back"]
    assert Seer(first, first._replace(leader=2, leader_epoch=6)).states.violations == []


def test_states_count_elections_and_changes_of_the_isr() -> None:
    first = StateNode(1, 5, (1, 2), 1)
    nobody = first._replace(leader=-1, leader_epoch=6)
    seer = Seer(first, nobody, first._replace(leader_epoch=7), StateNode(2, 8, (2,), 1))
    assert (seer.states.counts["elections"], seer.states.counts["leader_epochs"]) == (1, 3)
    assert seer.states.counts["isr_changes"] == 1
    assert seer.unclean == 0
    assert Seer(first, first._replace(leader=3, leader_epoch=6, unclean_epoch=6)).unclean == 1


# -------------------------------------------------------------------------------------------------- replicas


def replica(data: bytes = b"ab", **more: Any) -> dict[str, Any]:
    return {"start": 0, "end": 2, "read": lambda low: data[low:], "epochs": [(1, 0)], "producers": {}, **more}


def test_replicas_that_differ_are_a_violation() -> None:
    assert differences("t-0", {1: replica(), 2: replica(), 3: replica(b"xb", start=0)})[0].startswith("replicas-differ")
    assert differences("t-0", {1: replica(), 2: replica(end=1)})[0].startswith("replicas-differ")
    assert differences("t-0", {1: replica(), 2: replica(epochs=[(2, 0)])})[0].startswith("epochs-differ")
    assert differences("t-0", {1: replica(), 2: replica(producers={7: (0, 1, -1)})})[0].startswith("producers-differ")


def batch_of(base_offset: int, *records: tuple[bytes, bytes | None], producer_id: int = -1) -> BatchView:
    builder = BatchBuilder()
    for key, value in records:
        builder.append(0, key, value)
    is_transactional = producer_id >= 0
    sequence = 0 if is_transactional else -1
    data = builder.build(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=sequence,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
    return read_whole_batches(data)[0][0]


def marker_of(producer_id: int, kind: ControlType) -> BatchView:
    marker = build_marker(kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0)
    return read_whole_batches(marker)[0][0]


def test_compacted_topic_comes_to_its_last_committed_values() -> None:
    begun = [batch_of(0, (b"a", b"1"), (b"b", b"1")), batch_of(2, (b"a", b"2"), producer_id=7)]
    assert last_values([*begun, marker_of(7, ControlType.COMMIT)]) == {b"a": b"2", b"b": b"1"}
    assert last_values([*begun, marker_of(7, ControlType.ABORT)]) == {b"a": b"1", b"b": b"1"}
    assert last_values([*begun, batch_of(4, (b"b", None))]) == {b"a": b"2"}


def test_replicas_may_begin_at_different_offsets() -> None:
    assert differences("t-0", {1: replica(), 2: replica(b"xb", start=1)}) == []


# ---------------------------------------------------------------------------------------------------- losses


def losses_of(durability: str, *back: int) -> Losses:
    return Losses(durability, back.__contains__, lambda: 5.0)


@pytest.mark.parametrize(("durability", "is_permitted"), [("replicated", True), ("fsync", False)])
def test_power_losses_that_overlap_permit_a_loss_without_fsync(durability: str, is_permitted: bool) -> None:
    losses = losses_of(durability)
    losses.stopped(1, loses=True)
    losses.stopped(1, loses=True)
    assert losses.permitted is None
    assert losses.is_safe(2, loses=False) is not is_permitted
    losses.stopped(2, loses=True)
    assert (losses.permitted is not None) is is_permitted


@pytest.mark.parametrize("power", [(1,), (2,), ()])
def test_killed_hosts_permit_a_loss_only_if_one_of_them_has_lost_something(power: tuple[int, ...]) -> None:
    losses = losses_of("replicated")
    losses.stopped(1, loses=1 in power)
    losses.stopped(2, loses=2 in power)
    assert (losses.permitted is not None) is bool(power)


def test_power_loss_of_a_host_permits_nothing_once_the_other_is_in_sync() -> None:
    losses = losses_of("replicated", 1)
    losses.stopped(1, loses=True)
    losses.stopped(2, loses=True)
    assert losses.permitted is None


def test_damaged_disk_is_a_lost_copy_until_it_was_replaced_and_is_in_sync() -> None:
    losses = losses_of("fsync", 1)
    losses.doom(1, loses=True)
    assert not losses.is_safe(2, loses=True, is_damage=True)
    losses.forget_doom(1)
    losses.stopped(1, loses=True, is_damage=True)
    assert losses.is_safe(2, loses=True, is_damage=True)
    assert losses.permitted is None


# --------------------------------------------------------------------------------------------------- records


def send(value: int, began: float, offset: int, *, is_acked: bool = True) -> list[Event]:
    invoke = Event(began, f"p{value}", "invoke", "send", partition="0", value=value)
    return [invoke, invoke._replace(time=began + 0.1, kind="ok", offset=offset)] if is_acked else [invoke]


def poll(time: float, process: str, *records: tuple[int, int]) -> Event:
    return Event(time, process, "ok", "poll", records=tuple(Seen("0", *record) for record in records))


def final(*records: tuple[int, int]) -> list[Event]:
    return [poll(9, "final", *records), Event(9, "final", "info", "final")]


def test_permitted_loss_excuses_only_what_was_sent_before() -> None:
    for began, expected in ((1.0, []), (6.0, ["lost"])):
        events = [*send(2, began, 2), *send(3, 7.0, 3), *final((3, 3))]
        assert kinds_of(judge_records(events, None)) == ["lost"]
        assert kinds_of(judge_records(events, LOSS)) == expected


def test_permitted_loss_excuses_no_duplicate_and_no_disorder_of_what_is_there() -> None:
    events = [*send(2, 1.0, 2), *final((2, 2), (4, 2))]
    assert kinds_of(judge_records(events, LOSS)) == ["duplicate"]
    later = [event._replace(process="p2") for event in send(3, 2.0, 1)]
    assert "reordered" in kinds_of(judge_records([*send(2, 1.0, 2), *later, *final((1, 3), (2, 2))], LOSS))


def test_permitted_loss_excuses_an_offset_that_is_used_again() -> None:
    events = [*send(2, 1.0, 2), poll(2, "r", (2, 2)), *send(3, 6.0, 2), *final((2, 3))]
    assert "inconsistent-offsets" in kinds_of(judge_records(events, None))
    assert judge_records(events, LOSS) == []


def test_permitted_loss_excuses_a_record_that_was_sent_once_more() -> None:
    events = [*send(2, 1.0, 7, is_acked=False), poll(2, "r", (7, 2)), *final((3, 2))]
    assert "duplicate" in kinds_of(judge_records(events, None))
    assert judge_records(events, LOSS) == []


def test_permitted_loss_excuses_positions_that_are_gone_afterwards_only() -> None:
    refused = Event(6, "r", "fail", "poll", partition="0", note="out of range")
    assert judge_records([refused, *final()], LOSS) == []
    assert kinds_of(judge_records([refused._replace(time=4), *final()], LOSS)) == ["out-of-range"]


def in_load(note: str, *arguments: object) -> list[str]:
    """What the judge of records finds after a client of the load got an error."""

    async def story() -> Load:
        load = Load(plan_of(0), SimCluster(3, {}))
        getattr(load, note)(*arguments)
        return load

    return [anomaly.kind for anomaly in checker.check(SimLoop().run(story()).records).anomalies]


def test_reader_whose_position_is_gone_is_an_anomaly() -> None:
    where = TopicPartition("t", 1)
    for error in (OffsetOutOfRange("gone", where, 5), LogTruncated("gone", where, 5)):
        assert in_load("note_position", "reader/0", error) == ["out-of-range"]
    assert in_load("note_position", "reader/0", ConnectionFailed("broken")) == []


def test_producer_whose_records_are_refused_is_an_anomaly() -> None:
    errors: list[KafkaError] = [ProducerFailed("over"), OutOfOrderSequenceNumberError("a gap")]
    for error in errors:
        assert in_load("note_refusal", "producer-0/0", "1", error) == ["fatal"]
    assert in_load("note_refusal", "producer-0/0", "1", DeliveryTimeout("late")) == []


# ---------------------------------------------------------------------------------------------- transactions


def txn(number: int, began: float, kind: Kind, *values: int) -> list[Event]:
    """A transaction that writes values to x-0, x-1 and so on."""
    records = tuple(Seen(f"x-{index}", -1, value) for index, value in enumerate(values))
    invoke = Event(began, f"txn-{number}", "invoke", "txn", value=number, records=records)
    end = Event(began + 0.1, invoke.process, "invoke", "end", value=number)
    return [invoke, end, invoke._replace(time=began + 0.2, kind=kind, records=())]


def given(time: float, process: str, *records: tuple[str, int, int], within: int = -1) -> Event:
    return Event(time, process, "ok", "poll", value=within, records=tuple(Seen(*record) for record in records))


def the_end(*records: tuple[str, int, int]) -> list[Event]:
    return [given(9, "final x", *records), Event(9, "final x", "info", "final")]


def test_transactions_that_read_from_each_other_are_a_violation() -> None:
    both = [*txn(100, 1, "ok", 1), *txn(101, 1, "ok", 2)]
    reads = [given(3, "a", ("x-0", 1, 2), within=100), given(3, "b", ("x-0", 0, 1), within=101)]
    end = the_end(("x-0", 0, 1), ("x-0", 1, 2))
    assert "G1c" in kinds_of(judge_transactions([*both, *reads, *end], None))
    assert judge_transactions([*both, reads[1], *end], None) == []


def test_reader_of_committed_data_that_skips_or_repeats_is_a_violation() -> None:
    both, end = [*txn(100, 1, "ok", 1), *txn(101, 1, "ok", 2)], the_end(("x-0", 0, 1), ("x-0", 2, 2))
    assert kinds_of(judge_transactions([*both, given(3, "r", ("x-0", 2, 2)), *end], None)) == ["poll-skip"]
    twice = [given(3, "r", ("x-0", 0, 1)), given(4, "r", ("x-0", 0, 1))]
    assert kinds_of(judge_transactions([*both, *twice, *end], None)) == ["nonmonotonic-poll"]


def test_aborted_precommitted_and_torn_transactions_are_violations() -> None:
    seen = the_end(("x-0", 0, 1))
    assert kinds_of(judge_transactions([*txn(100, 1, "fail", 1), *seen], None)) == ["aborted-read"]
    early = given(1.05, "r", ("x-0", 0, 1))
    assert kinds_of(judge_transactions([*txn(100, 1, "ok", 1), early, *seen], None)) == ["precommitted-read"]
    assert kinds_of(judge_transactions([*txn(100, 1, "ok", 1, 2), *seen], None)) == ["torn"]


def test_permitted_loss_excuses_only_transactions_that_began_before() -> None:
    for began, expected in ((1.0, []), (6.0, ["torn"])):
        events = [*txn(100, began, "ok", 1, 2), *the_end(("x-0", 0, 1))]
        assert kinds_of(judge_transactions(events, LOSS)) == expected


def test_write_cycles_are_counted_and_no_violation() -> None:
    both = [*txn(100, 1, "ok", 1, 2), *txn(101, 1, "ok", 3, 4)]
    straight = the_end(("x-0", 0, 1), ("x-1", 0, 2), ("x-0", 1, 3), ("x-1", 1, 4))
    crossed = the_end(("x-0", 0, 1), ("x-0", 1, 3), ("x-1", 0, 4), ("x-1", 1, 2))
    assert (anomalies.write_cycles([*both, *straight]), anomalies.write_cycles([*both, *crossed])) == (0, 1)
    assert judge_transactions([*both, *crossed], None) == []


# ---------------------------------------------------------------------------------------------------- groups


def commit(time: float, process: str, generation: int, offset: int) -> list[Event]:
    owned = Event(time, process, "ok", "owned", partition="g", value=generation, records=(Seen("g/t-0", -1, -1),))
    invoke = Event(time, process, "invoke", "commit", partition="g/t-0", offset=offset, value=generation)
    return [owned, invoke, invoke._replace(time=time + 0.1, kind="ok")]


def fetched(time: float, offset: int) -> list[Event]:
    invoke = Event(time, "m", "invoke", "offset", partition="g/t-0")
    return [invoke, invoke._replace(time=time + 0.1, kind="ok", offset=offset)]


def test_committed_offset_that_moves_back_is_a_violation() -> None:
    assert kinds_of(judge_groups([*commit(1, "m", 1, 5), *fetched(2, 4)], None)) == ["offset-lost"]
    both = [*commit(1, "m", 1, 4), *commit(1.5, "m", 1, 5), *fetched(2, 5), *fetched(3, 4)]
    assert kinds_of(judge_groups(both, None)) == ["offset-back"]
    assert judge_groups([*commit(1, "m", 1, 5), *fetched(2, 5)], None) == []


def test_partition_that_is_owned_twice_in_a_generation_is_a_violation() -> None:
    assert "double-owner" in kinds_of(judge_groups([*commit(1, "m", 1, 4), *commit(2, "n", 1, 5)], None))
    assert judge_groups([*commit(1, "m", 1, 4), *commit(2, "n", 2, 5)], None) == []


def test_commit_of_a_generation_that_is_over_is_a_violation() -> None:
    assert "stale-commit" in kinds_of(judge_groups([*commit(1, "n", 2, 4), *commit(2, "m", 1, 5)], None))


def test_permitted_loss_excuses_offsets_that_go_back_and_no_second_owner() -> None:
    assert judge_groups([*commit(1, "m", 1, 5), *fetched(6, 4)], LOSS) == []
    assert "double-owner" in kinds_of(judge_groups([*commit(6, "m", 1, 4), *commit(7, "n", 1, 5)], LOSS))
    assert "stale-commit" in kinds_of(judge_groups([*commit(6, "n", 2, 4), *commit(7, "m", 1, 5)], LOSS))


# ----------------------------------------------------------------------------------------------------- leaks


def run(story: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    return SimLoop().run(story())


def test_task_that_outlives_its_client_is_a_leak() -> None:
    async def story() -> list[str]:
        process = Process("client")
        process.spawn(asyncio.sleep(60), "forgotten")
        return await leaks(await SimCluster.start(), [process])

    assert run(story) == ["leak: client leaves 1 of sleep"]


def test_file_and_task_that_outlive_a_broker_are_leaks() -> None:
    async def story() -> list[str]:
        cluster = await SimCluster.start()
        node = cluster.nodes[1]
        node.disk.open("/data/forgotten", create=True)
        node.process.spawn(asyncio.sleep(60), "forgotten")
        return await leaks(cluster, [])

    assert run(story) == ["leak: broker-1 leaves 1 of sleep", "leak: broker 1 leaves /data/forgotten open"]


def test_broker_that_stops_in_good_order_leaves_nothing() -> None:
    async def story() -> list[str]:
        cluster = await SimCluster.start()
        await cluster.create_topic()
        await cluster.client.produce(1, b"a")
        return await leaks(cluster, [])

    assert run(story) == []


def test_roll_is_over_when_its_last_broker_is_back() -> None:
    async def story() -> None:
        cluster = await SimCluster.start()
        first = {node.process for node in cluster.nodes.values()}
        losses = Losses("replicated", lambda _: True, asyncio.get_running_loop().time)
        injector = Injector(cluster, plan_of(1), losses)
        injector.inject(Fault(0, "roll", "any", 0.05, 1))
        await cluster.until(lambda: injector.is_calm)
        restarted = {node.process for node in cluster.nodes.values()}
        assert not first & restarted
        await cluster.wait(5)
        assert {node.process for node in cluster.nodes.values()} == restarted

    run(story)
