"""What the reader beside the driver decides, step by step, with a catalog that a test sets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import pytest

from minikafka.client.structs import TopicPartition
from minikafka.spark_jobs.errors import DataLoss
from minikafka.spark_jobs.offsets import StreamOffset
from minikafka.spark_jobs.options import Use, parse_source_options
from minikafka.spark_jobs.stream_reader import DriverState

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OLD, NEW = b"old topic's id..", b"new topic's id.."


class FakeCatalog:
    """First and last offsets by partition."""

    def __init__(self, ends: dict[TopicPartition, tuple[int, int]]) -> None:
        self.ends = ends
        self.ids: dict[str, bytes] = {}
        self.asked = 0

    def partitions(self, *, missing_ok: bool = False) -> tuple[TopicPartition, ...]:
        return tuple(sorted(self.ends))

    def topic_ids(self) -> dict[str, bytes]:
        return self.ids

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.ends[tp][0] for tp in partitions if tp in self.ends}

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked += 1
        return {tp: self.ends[tp][1] for tp in partitions if tp in self.ends}

    def at_time(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return dict.fromkeys(timestamps_ms)


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def state(catalog: FakeCatalog, clock: Clock | None = None, **given: str) -> DriverState:
    options = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "pollIntervalMs": "0", **given}
    return DriverState(parse_source_options(options, Use.STREAM_READ), catalog, clock or Clock())


def ranges(driver: DriverState, start: StreamOffset, end: StreamOffset) -> list[tuple[int, int, int]]:
    ranges = [each for task in driver.plan(start, end) for each in task.ranges]
    return [(each.partition, each.start, each.stop) for each in ranges]


def restored(offset: StreamOffset) -> StreamOffset:
    """As it comes back from a checkpoint."""
    return StreamOffset.from_json(json.loads(json.dumps(offset.to_json())))


def test_a_driver_that_dies_in_the_first_batch_loses_nothing() -> None:
    catalog = FakeCatalog({T0: (0, 100)})
    first = state(catalog)
    begun = first.initial()
    catalog.ends[T0] = (0, 105)
    end = first.next_end(begun, reads_all=False)
    assert end is not None
    assert ranges(first, begun, end) == [(0, 100, 105)]
    # The offsets of the batch are in the checkpoint, and the driver dies. Meanwhile records arrive.
    catalog.ends[T0] = (0, 110)
    second = state(catalog)
    asked_again = second.initial()
    assert asked_again.positions == {T0: 110}
    assert ranges(second, asked_again, restored(end)) == [(0, 100, 105)]
    after = second.next_end(restored(end), reads_all=False)
    assert after is not None and after.start is None
    assert ranges(second, restored(end), after) == [(0, 105, 110)]


def test_nothing_new_is_the_same_offset() -> None:
    catalog = FakeCatalog({T0: (0, 100)})
    driver = state(catalog, startingOffsets="earliest")
    begun = driver.initial()
    end = driver.next_end(begun, reads_all=False)
    assert end == StreamOffset({T0: 100}, {T0: 0})
    assert driver.next_end(restored(end), reads_all=False) is None
    assert driver.initial() is begun


def test_an_empty_first_batch() -> None:
    catalog = FakeCatalog({T0: (0, 0)})
    driver = state(catalog)
    begun = driver.initial()
    assert driver.next_end(begun, reads_all=False) is None
    catalog.ends[T0] = (0, 3)
    end = driver.next_end(restored(begun), reads_all=False)
    assert end is not None and ranges(driver, begun, end) == [(0, 0, 3)]


def test_partitions_that_appear_are_read_from_their_beginning() -> None:
    catalog = FakeCatalog({T0: (0, 10)})
    driver = state(catalog)
    begun = StreamOffset({T0: 10})
    catalog.ends[T1] = (0, 7)
    end = driver.next_end(begun, reads_all=False)
    assert end is not None and ranges(driver, begun, end) == [(1, 0, 7)]
    # One of which the beginning is missing already.
    catalog.ends[T1] = (5, 7)
    with pytest.raises(DataLoss, match="t-1 begins at offset 5 now, and was to be read from 0"):
        driver.plan(begun, end)
    lenient = state(catalog, failOnDataLoss="false")
    assert ranges(lenient, begun, end) == [(1, 5, 7)]


def test_partitions_that_are_gone() -> None:
    catalog = FakeCatalog({T0: (0, 10)})
    begun = StreamOffset({T0: 5, T1: 5})
    with pytest.raises(DataLoss, match="t-1 cannot be found any more, or the checkpoint is one of other topics"):
        state(catalog).next_end(begun, reads_all=False)
    lenient = state(catalog, failOnDataLoss="false")
    end = lenient.next_end(begun, reads_all=False)
    assert end == StreamOffset({T0: 10, T1: 5})
    assert ranges(lenient, begun, end) == [(0, 5, 10)]
    assert lenient.next_end(end, reads_all=False) is None
    # Gone between planning and reading, or in a batch that is done again.
    with pytest.raises(DataLoss, match=r"t-1 \[5, 10\) was to be read, but that partition cannot be found any more"):
        state(catalog).plan(begun, StreamOffset({T0: 10, T1: 10}))


def test_partition_that_comes_back_is_read_on() -> None:
    """A broker that has just started might not know of a topic."""
    catalog = FakeCatalog({T0: (0, 10)})
    driver = state(catalog, failOnDataLoss="false")
    end = driver.next_end(StreamOffset({T0: 5, T1: 5}), reads_all=False)
    assert end is not None
    catalog.ends[T1] = (0, 8)
    after = driver.next_end(restored(end), reads_all=False)
    assert after is not None and ranges(driver, end, after) == [(1, 5, 8)]


def test_partition_that_became_shorter_is_read_on_from_its_end() -> None:
    catalog = FakeCatalog({T0: (0, 10)})
    begun = StreamOffset({T0: 15})
    with pytest.raises(DataLoss, match="t-0 ends at 10, but was read up to 15"):
        state(catalog).next_end(begun, reads_all=False)
    lenient = state(catalog, failOnDataLoss="false")
    end = lenient.next_end(begun, reads_all=False)
    assert end == StreamOffset({T0: 10})
    assert ranges(lenient, begun, end) == []
    catalog.ends[T0] = (0, 12)
    after = lenient.next_end(restored(end), reads_all=False)
    assert after is not None and ranges(lenient, end, after) == [(0, 10, 12)]


@pytest.mark.parametrize("length", [3, 10, 40])
def test_topic_that_was_created_again_is_read_from_its_start(length: int) -> None:
    catalog = FakeCatalog({T0: (0, 10), T1: (0, 10)})
    catalog.ids = {"t": OLD}
    driver = state(catalog, startingOffsets="earliest", failOnDataLoss="false")
    begun = driver.next_end(driver.initial(), reads_all=False)
    assert begun is not None and begun.topic_ids == {"t": OLD}
    catalog.ends, catalog.ids = {T0: (0, length)}, {"t": NEW}
    with pytest.raises(DataLoss, match="topic t was deleted and created again, after reading t-0 up to 10, t-1 up to"):
        state(catalog).next_end(restored(begun), reads_all=False)
    for again in (driver, state(catalog, failOnDataLoss="false")):
        end = again.next_end(restored(begun), reads_all=False)
        assert end == StreamOffset({T0: length}, None, {"t": NEW})
        assert ranges(again, restored(begun), restored(end)) == [(0, 0, length)]
        assert again.next_end(restored(end), reads_all=False) is None


def test_topic_that_was_created_again_before_the_first_batch_is_read_from_its_start() -> None:
    catalog = FakeCatalog({T0: (0, 100)})
    catalog.ids = {"t": OLD}
    driver = state(catalog, failOnDataLoss="false")
    begun = restored(driver.initial())
    catalog.ends, catalog.ids = {T0: (0, 7)}, {"t": NEW}
    end = driver.next_end(begun, reads_all=False)
    assert end is not None and ranges(driver, begun, restored(end)) == [(0, 0, 7)]


def test_batch_of_a_topic_that_was_created_again_since_is_left_out() -> None:
    """Its offsets are in the checkpoint, and the driver died before it was done."""
    catalog = FakeCatalog({T0: (0, 20)})
    catalog.ids = {"t": NEW}
    begun, end = StreamOffset({T0: 10}, None, {"t": OLD}), StreamOffset({T0: 30}, None, {"t": OLD})
    with pytest.raises(DataLoss, match=r"t-0 \[10, 30\) was to be read, but that topic was deleted and created again"):
        state(catalog).plan(begun, end)
    lenient = state(catalog, failOnDataLoss="false")
    assert ranges(lenient, begun, end) == []
    after = lenient.next_end(end, reads_all=False)
    assert after is not None and ranges(lenient, end, after) == [(0, 0, 20)]


def test_checkpoint_without_topic_ids_holds_for_the_topic_of_the_name() -> None:
    catalog = FakeCatalog({T0: (0, 20)})
    catalog.ids = {"t": NEW}
    driver = state(catalog)
    begun = StreamOffset.from_json({"t": {"0": 20}})
    assert driver.next_end(begun, reads_all=False) is None
    catalog.ends[T0] = (0, 25)
    end = driver.next_end(begun, reads_all=False)
    assert end == StreamOffset({T0: 25}, None, {"t": NEW})
    assert ranges(driver, begun, restored(end)) == [(0, 20, 25)]


def test_nothing_is_overlooked_before_the_first_batch_with_rows() -> None:
    """A query that begins at the end of an idle topic keeps its first offset, through all restarts."""
    catalog = FakeCatalog({T0: (0, 100), T1: (0, 0)})
    begun = restored(state(catalog).initial())
    assert state(catalog).next_end(begun, reads_all=False) is None
    # Made anew: what is in it would never be read.
    catalog.ends[T0] = (0, 40)
    with pytest.raises(DataLoss, match="t-0 ends at 40, but is to be read from 100"):
        state(catalog).next_end(begun, reads_all=False)
    catalog.ends = {T0: (0, 101)}
    with pytest.raises(DataLoss, match="t-1 cannot be found any more"):
        state(catalog).next_end(begun, reads_all=False)
    lenient = state(catalog, failOnDataLoss="false")
    end = lenient.next_end(begun, reads_all=False)
    assert end is not None and ranges(lenient, begun, end) == [(0, 100, 101)]
    assert end.start is not None and end.start[T1] == 0
    catalog.ends = {TopicPartition("u", 0): (0, 7)}
    with pytest.raises(DataLoss, match="or the checkpoint is one of other topics"):
        state(catalog, subscribe="u").next_end(begun, reads_all=False)


def test_a_beginning_beyond_the_end() -> None:
    catalog = FakeCatalog({T0: (0, 10)})
    for stops in (False, True):
        driver = state(catalog, startingOffsets='{"t": {"0": 1000}}')
        if stops:
            driver.stop_at_latest()
        with pytest.raises(DataLoss, match="t-0 ends at 10, but is to be read from 1000"):
            driver.next_end(driver.initial(), reads_all=False)
    lenient = state(catalog, startingOffsets='{"t": {"0": 1000}}', failOnDataLoss="false")
    assert lenient.next_end(lenient.initial(), reads_all=False) == StreamOffset({T0: 10}, {T0: 1000})


def test_data_that_was_deleted_before_it_was_read() -> None:
    catalog = FakeCatalog({T0: (20, 30)})
    begun, end = StreamOffset({T0: 10}), StreamOffset({T0: 30})
    with pytest.raises(DataLoss, match="begins at offset 20 now, and was to be read from 10"):
        state(catalog).plan(begun, end)
    assert ranges(state(catalog, failOnDataLoss="false"), begun, end) == [(0, 20, 30)]


def test_pace() -> None:
    catalog = FakeCatalog({T0: (0, 100), T1: (0, 300)})
    clock = Clock()
    given = {"maxOffsetsPerTrigger": "40", "minOffsetsPerTrigger": "20", "maxTriggerDelay": "5s"}
    driver = state(catalog, clock, startingOffsets="earliest", **given)
    end = driver.next_end(driver.initial(), reads_all=False)
    assert end is not None and end.positions == {T0: 10, T1: 30}
    # Trigger.Once takes all that there is.
    whole = driver.next_end(driver.initial(), reads_all=True)
    assert whole is not None and whole.positions == {T0: 100, T1: 300}
    nearly = StreamOffset({T0: 95, T1: 295})
    clock.now_ms = 4999
    assert driver.next_end(nearly, reads_all=False) is None
    clock.now_ms = 5000
    end = driver.next_end(nearly, reads_all=False)
    assert end is not None and end.positions == {T0: 100, T1: 300}


def test_available_now_ends_where_it_was_told() -> None:
    catalog = FakeCatalog({T0: (0, 100)})
    driver = state(catalog, startingOffsets="earliest", minOffsetsPerTrigger="1000")
    driver.stop_at_latest()
    catalog.ends = {T0: (0, 200), T1: (0, 50)}
    # It does not wait for more records than there are.
    end = driver.next_end(StreamOffset({T0: 10}), reads_all=False)
    assert end == StreamOffset({T0: 100})
    assert driver.next_end(end, reads_all=False) is None
    assert driver.report() == {"t": {"0": 100}}


def test_available_now_may_begin_after_its_end() -> None:
    """Spark asks for the end first, and records and partitions may come before it asks for the beginning."""
    catalog = FakeCatalog({T0: (0, 100)})
    driver = state(catalog, startingOffsets="latest")
    driver.stop_at_latest()
    catalog.ends = {T0: (0, 105), T1: (0, 3)}
    begun = driver.initial()
    assert begun.positions == {T0: 105, T1: 3}
    assert driver.next_end(begun, reads_all=False) is None


def test_data_that_is_not_there_any_more_makes_no_batches() -> None:
    catalog = FakeCatalog({T0: (10_000_000, 10_000_100), T1: (0, 5)})
    driver = state(catalog, failOnDataLoss="false", maxOffsetsPerTrigger="50")
    begun = StreamOffset({T0: 5, T1: 5})
    end = driver.next_end(begun, reads_all=False)
    assert end == StreamOffset({T0: 10_000_050, T1: 5})
    assert ranges(driver, begun, end) == [(0, 10_000_000, 10_000_050)]
    with pytest.raises(DataLoss, match="begins at offset 10000000 now, and was to be read from 5"):
        state(catalog).plan(begun, end)


def test_an_idle_query_does_not_ask_all_the_time() -> None:
    catalog = FakeCatalog({T0: (0, 100)})
    clock = Clock()
    driver = state(catalog, clock, pollIntervalMs="30")
    for _ in range(3):
        assert driver.next_end(StreamOffset({T0: 100}), reads_all=False) is None
        clock.now_ms += 30
    assert catalog.asked == 3


def test_pieces() -> None:
    catalog = FakeCatalog({T0: (0, 100)})
    driver = state(catalog, minPartitions="3")
    assert ranges(driver, StreamOffset({T0: 10}), StreamOffset({T0: 40})) == [(0, 10, 20), (0, 20, 30), (0, 30, 40)]
