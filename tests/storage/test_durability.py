"""Group commit: who waits for which sync, what a failed one means, and that what was promised survives a power cut."""

from contextlib import suppress
from random import Random
from threading import Thread

import pytest

from minikafka.storage.disk import join
from minikafka.storage.durability import Durability, GroupCommit, Verdict, is_flush_due
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.trimming import truncate_to
from tests.sim.memory_disk import MemoryDisk, PowerCut
from tests.storage.dirs import ROOT, checkpoint, created, restart, start
from tests.storage.logs import NOW_MS, SMALL, append, contents, drop_below, flush

ORDERS = ("orders", 0)
OTHERS = ("orders", 1)


class Desk:
    """A directory with two logs and a group commit; waiters are strings."""

    def __init__(self, durability: Durability = Durability.FSYNC, disk: MemoryDisk | None = None) -> None:
        self.disk = MemoryDisk() if disk is None else disk
        self.log_dir: LogDir = start(self.disk)
        self.orders: Log = created(self.log_dir, ORDERS)
        self.others: Log = created(self.log_dir, OTHERS)
        self.commit: GroupCommit[str] = GroupCommit(self.log_dir, durability)

    def write(self, log: Log, value: str) -> bool:
        """True if nobody has to wait."""
        return self.commit.request(log, append(log, value.encode()).last_offset + 1, value)

    def round(self) -> list[tuple[str, Verdict]]:
        made = self.commit.next_round()
        assert made is not None
        made.run()
        return self.commit.complete(made)

    def syncs(self) -> int:
        return len([op for op in self.disk.ops if op.kind in ("sync", "flush", "fsync_dir")])


def synced(*waiters: str) -> list[tuple[str, Verdict]]:
    return [(waiter, Verdict.SYNCED) for waiter in waiters]


def test_one_round_serves_all_who_came_before_it() -> None:
    desk = Desk()
    for value in "abc":
        assert not desk.write(desk.orders, value)
    assert not desk.write(desk.others, "d")
    assert not desk.commit.is_idle
    assert desk.round() == synced("a", "b", "c", "d")
    assert desk.commit.is_idle
    assert (desk.orders.recovery_point, desk.others.recovery_point) == (3, 1)
    assert desk.commit.next_round() is None


def test_a_round_costs_one_sync_a_log() -> None:
    desk = Desk()
    for log in (desk.orders, desk.others):
        desk.write(log, "first")
    desk.round()
    for number in range(10):
        desk.write(desk.orders, f"{number}")
        desk.write(desk.others, f"{number}")
    before = desk.syncs()
    desk.round()
    assert desk.syncs() - before == 2


def test_who_comes_during_a_round_waits_for_the_next() -> None:
    desk = Desk()
    desk.write(desk.orders, "a")
    first = desk.commit.next_round()
    assert first is not None
    desk.write(desk.orders, "b")
    desk.write(desk.others, "c")
    # One round at a time.
    assert desk.commit.next_round() is None
    first.run()
    desk.write(desk.orders, "d")
    assert desk.commit.complete(first) == synced("a")
    assert desk.round() == synced("c", "b", "d")


def test_a_round_runs_on_another_thread() -> None:
    desk = Desk()
    desk.write(desk.orders, "a")
    made = desk.commit.next_round()
    assert made is not None
    worker = Thread(target=made.run)
    worker.start()
    desk.write(desk.orders, "b")
    worker.join()
    assert desk.commit.complete(made) == synced("a")


def test_several_threads_share_a_round() -> None:
    desk = Desk()
    logs = [desk.orders, desk.others, *(created(desk.log_dir, ("many", number)) for number in range(30))]
    for number, log in enumerate(logs):
        desk.write(log, f"{number}")
    made = desk.commit.next_round()
    assert made is not None
    workers = [Thread(target=made.run) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(log.directory for log in made.ended) == sorted(log.directory for log in logs)
    assert desk.commit.complete(made) == synced(*map(str, range(32)))


def test_nobody_waits_for_what_is_on_disk() -> None:
    desk = Desk()
    append(desk.orders, b"x")
    flush(desk.orders)
    assert desk.commit.request(desk.orders, 1, "a")
    assert desk.commit.is_idle


def test_nobody_waits_in_the_other_mode() -> None:
    desk = Desk(Durability.REPLICATED)
    assert desk.write(desk.orders, "a")
    assert desk.commit.is_idle and desk.orders.recovery_point == 0
    assert desk.commit.next_round() is None


@pytest.mark.parametrize("durability", Durability)
def test_logs_that_nobody_waits_for_are_synced_when_told(durability: Durability) -> None:
    desk = Desk(durability)
    append(desk.orders, b"x")
    assert desk.commit.next_round() is None
    desk.commit.add(desk.orders)
    assert not desk.commit.is_idle
    made = desk.commit.next_round()
    assert made is not None and made.logs == [desk.orders]
    made.run()
    assert desk.commit.complete(made) == []
    assert desk.orders.recovery_point == 1 and desk.commit.is_idle


def test_those_that_nobody_waits_for_come_a_few_at_a_time() -> None:
    desk = Desk()
    logs = [created(desk.log_dir, ("many", number)) for number in range(250)]
    for log in logs:
        append(log, b"x")
        desk.commit.add(log)
    assert not desk.write(desk.orders, "a")
    counts = []
    while (made := desk.commit.next_round()) is not None:
        made.run()
        desk.commit.complete(made)
        counts.append(len(made.logs))
    assert counts == [100, 100, 51]
    assert all(log.recovery_point == 1 for log in (*logs, desk.orders))


def test_every_so_many_messages_somebody_waits_in_either_mode() -> None:
    desk = Desk(Durability.REPLICATED)
    desk.orders.reconfigure(SMALL._replace(flush_messages=3))
    assert [desk.write(desk.orders, value) for value in "abcd"] == [True, True, False, False]
    assert desk.round() == synced("c", "d")
    assert desk.write(desk.orders, "e")


def test_when_a_log_is_synced_though_nobody_waits() -> None:
    log = Desk().orders
    append(log, b"x")
    assert not is_flush_due(log, NOW_MS, NOW_MS + 10**9)
    log.reconfigure(SMALL._replace(flush_ms=50))
    assert not is_flush_due(log, NOW_MS, NOW_MS + 49)
    assert is_flush_due(log, NOW_MS, NOW_MS + 50)
    log.reconfigure(SMALL._replace(flush_messages=2))
    assert not is_flush_due(log, NOW_MS, NOW_MS)
    append(log, b"x")
    assert is_flush_due(log, NOW_MS, NOW_MS)
    log.reconfigure(SMALL)
    assert not is_flush_due(log, NOW_MS, NOW_MS)
    log.roll()
    assert is_flush_due(log, NOW_MS, NOW_MS)


# ---------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize("kind", ["sync", "fsync_dir"])
def test_a_failed_sync_is_never_tried_again(kind: str) -> None:
    desk = Desk()
    desk.write(desk.others, "a")
    desk.write(desk.orders, "b")
    desk.disk.fail(lambda op: op.kind == kind)
    made = desk.commit.next_round()
    assert made is not None
    made.run()
    desk.write(desk.orders, "late")
    assert desk.commit.complete(made) == [(each, Verdict.FAILED) for each in ("a", "b", "late")]
    assert desk.log_dir.is_offline
    assert (desk.orders.recovery_point, desk.others.recovery_point) == (0, 0)
    before = desk.syncs()
    assert desk.commit.next_round() is None
    desk.log_dir.close()
    assert desk.syncs() == before
    assert not restart(desk.disk).was_clean


def test_a_round_that_cannot_even_begin() -> None:
    desk = Desk()
    desk.write(desk.others, "a")
    desk.write(desk.orders, "b")
    # Leader epochs are written when a flush is prepared.
    desk.disk.fail(lambda op: op.kind == "rename" and "orders-0" in op.path)
    before = desk.syncs()
    assert desk.round() == [("a", Verdict.FAILED), ("b", Verdict.FAILED)]
    assert desk.log_dir.is_offline and desk.syncs() == before


def test_a_directory_that_fails_for_another_reason_meanwhile() -> None:
    desk = Desk()
    desk.write(desk.orders, "a")
    made = desk.commit.next_round()
    assert made is not None
    made.run()
    desk.log_dir.fail("something else")
    assert desk.commit.give_up() == [("a", Verdict.FAILED)]
    assert desk.commit.complete(made) == []
    assert desk.commit.is_idle


# ---------------------------------------------------------------------------------------- logs that change meanwhile


def test_what_was_cut_off_is_not_confirmed_by_what_took_its_place() -> None:
    desk = Desk()
    for value in "abc":
        desk.write(desk.orders, value)
    made = desk.commit.next_round()
    assert made is not None
    made.run()
    truncate_to(desk.orders, 1, NOW_MS)
    for other in (b"x", b"y", b"z"):
        append(desk.orders, other, epoch=1)
    assert desk.commit.complete(made) == [(each, Verdict.CUT_OFF) for each in "abc"]
    assert desk.orders.recovery_point <= 1
    desk.write(desk.orders, "new")
    assert desk.round() == synced("new")


def test_what_was_cut_off_before_a_round_began() -> None:
    desk = Desk()
    append(desk.orders, b"first")
    flush(desk.orders)
    desk.write(desk.orders, "a")
    desk.write(desk.others, "b")
    truncate_to(desk.orders, 1, NOW_MS)
    assert desk.round() == [("a", Verdict.CUT_OFF), *synced("b")]
    assert desk.commit.is_idle


def test_who_waits_for_a_log_can_be_sent_away() -> None:
    desk = Desk()
    desk.write(desk.orders, "a")
    desk.write(desk.others, "b")
    assert desk.commit.cut_off(desk.orders) == [("a", Verdict.CUT_OFF)]
    assert desk.commit.cut_off(desk.orders) == []
    assert desk.round() == synced("b")


@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_a_partition_deleted_around_a_round_is_no_failure(moment: str) -> None:
    desk = Desk()
    desk.write(desk.orders, "a")
    desk.write(desk.others, "b")
    if moment == "before":
        desk.log_dir.do(desk.log_dir.delete(ORDERS, NOW_MS))
    made = desk.commit.next_round()
    assert made is not None
    if moment == "during":
        desk.log_dir.do(desk.log_dir.delete(ORDERS, NOW_MS))
    made.run()
    if moment == "after":
        desk.log_dir.do(desk.log_dir.delete(ORDERS, NOW_MS))
    assert desk.commit.complete(made) == [("a", Verdict.CUT_OFF), *synced("b")]
    assert not desk.log_dir.is_offline


def test_a_partition_that_vanishes_is_a_failure() -> None:
    desk = Desk()
    desk.write(desk.orders, "a")
    made = desk.commit.next_round()
    assert made is not None
    desk.disk.rename(join(ROOT, "orders-0"), join(ROOT, "somewhere"))
    made.run()
    assert desk.commit.complete(made) == [("a", Verdict.FAILED)]
    assert desk.log_dir.is_offline


def test_segments_retired_during_a_round_are_no_failure() -> None:
    desk = Desk()
    for number in range(40):
        desk.write(desk.orders, f"{number}")
    made = desk.commit.next_round()
    assert made is not None and len(made.plans[0][1].work.files) > 1
    assert drop_below(desk.orders, 39)
    made.run()
    assert len(desk.commit.complete(made)) == 40
    assert desk.orders.recovery_point == 40 and not desk.log_dir.is_offline


# ---------------------------------------------------------------------------------------- the promise


class Life:
    """Random work with a group commit, on a disk that loses power at some moment."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.written: dict[str, tuple[int, str]] = {}
        self.promised: list[str] = []
        self.deleted: dict[str, int] = {}
        self.desk = Desk()

    def run(self, steps: int) -> None:
        under_way = None
        for number in range(steps):
            act = self.rng.random()
            log = self.rng.choice((self.desk.orders, self.desk.others))
            if act < 0.55:
                self.write(log, f"{number}")
            elif act < 0.60:
                log.roll()
            elif act < 0.65:
                checkpoint(self.desk.log_dir)
            elif act < 0.70 and log.recovery_point > log.log_start_offset:
                offset = self.rng.randint(log.log_start_offset, log.recovery_point)
                self.deleted[log.directory] = offset
                drop_below(log, offset)
            elif under_way is None:
                under_way = self.desk.commit.next_round()
            else:
                under_way.run()
                settled = self.desk.commit.complete(under_way)
                assert all(verdict is Verdict.SYNCED for _, verdict in settled)
                self.promised += [waiter for waiter, _ in settled]
                under_way = None

    def write(self, log: Log, value: str) -> None:
        self.written[value] = (log.log_end_offset, log.directory)
        self.desk.write(log, value)

    def check(self, disk: MemoryDisk) -> None:
        log_dir = start(disk)
        assert not log_dir.corrupt
        found = {log.directory: dict(contents(log)) for log in log_dir.logs.values()}
        for value in self.promised:
            offset, directory = self.written[value]
            # What was deleted may be there or not.
            if offset >= self.deleted.get(directory, 0):
                assert found[directory][offset] == value.encode()


@pytest.mark.parametrize("seed", range(60))
def test_what_was_confirmed_survives_a_power_cut(seed: int) -> None:
    rng = Random(seed)
    life = Life(rng)
    life.desk.disk.cut_power(rng.randint(1, 700))
    with suppress(PowerCut):
        life.run(120)
    for image in life.desk.disk.power_cut_images(rng, 6):
        life.check(image)


def test_the_test_before_would_see_a_lie() -> None:
    """Without the sync, some image lacks what was promised."""
    rng = Random(5)
    life = Life(rng)
    life.write(life.desk.orders, "a")
    made = life.desk.commit.next_round()
    assert made is not None
    made.ended += made.logs
    life.promised += [waiter for waiter, _ in life.desk.commit.complete(made)]
    assert life.promised == ["a"]
    with pytest.raises((AssertionError, KeyError)):
        for image in life.desk.disk.power_cut_images(rng, 6):
            life.check(image)


def test_the_segments_of_these_tests_are_small_enough_to_roll() -> None:
    life = Life(Random(3))
    life.run(120)
    assert len(life.promised) > 20
    assert len(life.desk.orders.segments) + len(life.desk.others.segments) > 2
    assert SMALL.segment_bytes < 2000
