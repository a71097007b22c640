"""Log directories read directly: the same rows as through the broker, byte for byte, and clear words about damage."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from minikafka.client.structs import TopicPartition
from minikafka.protocol.records import BatchView
from minikafka.spark_jobs.batch_reader import plan, read_from_broker
from minikafka.spark_jobs.broker_catalog import BrokerCatalog
from minikafka.spark_jobs.direct import reader as reader_module
from minikafka.spark_jobs.direct.batches import Mapped, map_segments
from minikafka.spark_jobs.direct.catalog import DirectCatalog
from minikafka.spark_jobs.direct.reader import DirectBatchReader
from minikafka.spark_jobs.errors import BadOption, DataLoss, LogNotReadable
from minikafka.spark_jobs.link import link_to
from minikafka.spark_jobs.options import SourceOptions, Use, parse_source_options
from minikafka.storage.formats import encode_partition_metadata, segment_name
from tests.compat.running import Cluster
from tests.spark.running import Sent, Topics

pytestmark = pytest.mark.needs("java")

WAIT_SECONDS = 20


@pytest.fixture
def log_dir(broker: Cluster) -> Path:
    (found,) = {path.parent for path in broker.data.rglob("meta.properties")}
    return found


def direct_options(log_dir: Path, topic: str, **more: str) -> SourceOptions:
    options = {"logDirs": str(log_dir), "subscribe": topic, "includeHeaders": "true"}
    return parse_source_options(
        {**options, **{key.replace("__", "."): value for key, value in more.items()}}, Use.BATCH_READ
    )


def read_direct(options: SourceOptions) -> Any:
    reader = DirectBatchReader(options)
    return pa.Table.from_batches(
        [batch for partition in reader.partitions() for batch in reader.read(partition)], SCHEMA
    )


def read_broker(topics: Topics, topic: str, **more: str) -> Any:
    given = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic, "includeHeaders": "true"}
    named = {key.replace("__", "."): value for key, value in more.items()}
    options = parse_source_options({**given, **named}, Use.BATCH_READ)
    ranges = plan(options, BrokerCatalog(link_to(options.config), options))
    return pa.Table.from_batches([batch for each in ranges for batch in read_from_broker(options, each)], SCHEMA)


SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))),
    ]
)


def wait_for_checkpoint(log_dir: Path, topic: str, ends: dict[int, int]) -> None:
    """High watermarks are written from time to time."""
    wait_until(lambda: checkpointed(log_dir, topic) == ends, f"high watermarks of {ends}")


def checkpointed(log_dir: Path, topic: str) -> dict[int, int]:
    catalog = DirectCatalog(direct_options(log_dir, topic))
    return {tp.partition: offset for tp, offset in catalog.latest(catalog.partitions()).items()}


def wait_until(condition: Callable[[], bool], what: str) -> None:
    for _ in range(WAIT_SECONDS * 20):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"waited for {what}")


def fill(topics: Topics, topic: str, *, keys_only: bool = False, **configs: str) -> None:
    """Two partitions, several segments, all codecs."""
    topics.create(topic, 2, configs={"segment.bytes": "20000", "index.interval.bytes": "1000", **configs})
    for round_, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        records = [
            Sent(
                b"%d" % number * (number % 50),
                b"k%d" % (number % 7) if number % 3 or keys_only else None,
                number % 2,
                1_000_000 + round_ * 1000 + number,
                (("h", b"%d" % number), ("n", None)) if number % 5 == 0 else (),
            )
            for number in range(1000)
        ]
        topics.send(topic, records, compression_type=codec, max_batch_size=4000)


def test_same_rows(topics: Topics, log_dir: Path, topic: str) -> None:
    fill(topics, topic)
    wait_for_checkpoint(log_dir, topic, {0: 2500, 1: 2500})
    assert len([*(log_dir / f"{topic}-0").glob("*.log")]) > 2
    whole = read_broker(topics, topic)
    assert whole.num_rows == 5000
    assert read_direct(direct_options(log_dir, topic)).equals(whole)
    # Pieces begin and end anywhere.
    pieces = read_direct(direct_options(log_dir, topic, minPartitions="23"))
    assert pieces.sort_by([("partition", "ascending"), ("offset", "ascending")]).equals(whole)
    limits = {
        "startingOffsets": f'{{"{topic}": {{"0": 777, "1": 2400}}}}',
        "endingOffsets": f'{{"{topic}": {{"0": 1333, "1": -1}}}}',
    }
    assert read_direct(direct_options(log_dir, topic, **limits)).equals(read_broker(topics, topic, **limits))


def test_same_times(topics: Topics, log_dir: Path, topic: str) -> None:
    fill(topics, topic)
    wait_for_checkpoint(log_dir, topic, {0: 2500, 1: 2500})
    for start, stop in ((1_000_000, 1_000_001), (1_001_500, 1_003_333), (1_004_999, 9_999_999), (0, 1_000_400)):
        times = {"startingTimestamp": str(start), "endingTimestamp": str(stop)}
        lenient = {"startingOffsetsByTimestampStrategy": "latest"}
        expected = read_broker(topics, topic, **times, **lenient)
        assert read_direct(direct_options(log_dir, topic, **times, **lenient)).equals(expected)


def test_same_after_compaction(topics: Topics, log_dir: Path, topic: str) -> None:
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "20000"}
    fill(topics, topic, keys_only=True, **configs)
    wait_until(lambda: read_broker(topics, topic).num_rows < 4000, "compaction")
    wait_for_checkpoint(log_dir, topic, {0: 2500, 1: 2500})

    def is_same() -> bool:
        # Compaction may run between the two.
        return bool(read_direct(direct_options(log_dir, topic)).equals(read_broker(topics, topic)))

    wait_until(is_same, "the same rows")


def test_same_transactions(topics: Topics, log_dir: Path, topic: str) -> None:
    topics.create(topic, configs={"segment.bytes": "2000"})
    for number in range(30):
        topics.transact(topic, f"{topic}-a", [b"aborted %d" % number] * 5, commit=False)
        topics.transact(topic, f"{topic}-b", [b"committed %d" % number] * 5, commit=True)
    topics.transact(topic, f"{topic}-c", [b"open"], commit=None)
    topics.send(topic, [b"behind"])
    committed = {"kafka__isolation__level": "read_committed"}
    wait_for_checkpoint(log_dir, topic, {0: 30 * 12 + 2})
    expected = read_broker(topics, topic, **committed)
    assert expected.num_rows == 150
    assert read_direct(direct_options(log_dir, topic, **committed)).equals(expected)
    pieces = read_direct(direct_options(log_dir, topic, maxRecordsPerPartition="7", **committed))
    assert pieces.equals(expected)
    everything = read_broker(topics, topic)
    assert everything.num_rows == 302
    assert read_direct(direct_options(log_dir, topic)).equals(everything)


def test_the_best_of_several_copies(topics: Topics, log_dir: Path, topic: str, tmp_path: Path) -> None:
    topics.create(topic)
    topics.send(topic, [b"one"])
    wait_for_checkpoint(log_dir, topic, {0: 1})
    older = tmp_path / "older"
    (older / f"{topic}-0").mkdir(parents=True)
    (older / "replication-offset-checkpoint").write_text(f"0\n1\n{topic} 0 0\n")
    options = parse_source_options({"logDirs": f"{older},{log_dir}", "subscribe": topic}, Use.BATCH_READ)
    catalog = DirectCatalog(options)
    assert catalog.replica(TopicPartition(topic, 0)).directory.parent == log_dir


def cut_short(copy: Path, topic: str) -> int:
    """Take the last batches of a log away, as losing power can; the offset it ends at then."""
    path = max((copy / f"{topic}-0").glob("*.log"))
    data = path.read_bytes()
    positions, position = [], 0
    while position < len(data):
        positions.append(position)
        position += BatchView(data, position).size
    path.write_bytes(data[: positions[-2]])
    return BatchView(data, positions[-2]).base_offset


def test_a_log_that_is_shorter_than_its_high_watermark(
    topics: Topics, log_dir: Path, topic: str, tmp_path: Path
) -> None:
    topics.create(topic)
    topics.send(topic, [b"%d" % number * 20 for number in range(100)], compression_type="none", max_batch_size=500)
    wait_for_checkpoint(log_dir, topic, {0: 100})
    whole = read_broker(topics, topic)
    copy = copy_of(log_dir, topic, tmp_path / "short", 100)
    lenient = direct_options(copy, topic, failOnDataLoss="false")
    reader = DirectBatchReader(lenient)
    planned = reader.partitions()
    end = cut_short(copy, topic)
    assert 0 < end < 100
    with pytest.raises(DataLoss, match=f"{topic}-0 ends at {end} in .*, but is known to be committed up to 100"):
        read_direct(direct_options(copy, topic))
    assert read_direct(lenient).equals(whole[:end])
    # Cut short between planning and reading.
    with pytest.raises(DataLoss, match=f"ends at {end}, before {topic}-0"):
        [*DirectBatchReader(direct_options(copy, topic)).read(planned[0])]
    assert sum(batch.num_rows for batch in reader.read(planned[0])) == end
    # Nothing is missing as long as one copy is complete, though its watermark was written down earlier.
    complete = copy_of(log_dir, topic, tmp_path / "complete", 99)
    both = parse_source_options({"logDirs": f"{copy},{complete}", "subscribe": topic}, Use.BATCH_READ)
    with pytest.raises(DataLoss, match=r"ends at 99 in .*complete"):
        read_direct(both)
    (complete / "replication-offset-checkpoint").write_text(f"0\n1\n{topic} 0 100\n")
    assert DirectCatalog(both).replica(TopicPartition(topic, 0)).directory.parent == complete


def test_a_directory_of_a_topic_that_was_deleted(topics: Topics, log_dir: Path, topic: str, tmp_path: Path) -> None:
    topics.create(topic, 2)
    topics.send(topic, [b"new"])
    wait_for_checkpoint(log_dir, topic, {0: 1, 1: 0})
    old = copy_of(log_dir, topic, tmp_path, 1000)
    both = {"logDirs": f"{old},{log_dir}", "subscribe": topic, "failOnDataLoss": "false"}
    assert len(DirectCatalog(parse_source_options(both, Use.BATCH_READ)).partitions()) == 2
    # Another partition of the topic is enough to see it.
    (old / f"{topic}-0").rename(old / f"{topic}-7")
    (old / f"{topic}-7" / "partition.metadata").write_bytes(encode_partition_metadata(bytes(range(16))))
    with pytest.raises(LogNotReadable, match=f"different topics called '{topic}'") as raised:
        DirectCatalog(parse_source_options(both, Use.BATCH_READ))
    assert str(old / f"{topic}-7") in str(raised.value) and str(log_dir) in str(raised.value)
    # Which is nothing to those who read another one.
    other = {"logDirs": both["logDirs"], "subscribePattern": "none"}
    assert not DirectCatalog(parse_source_options(other, Use.BATCH_READ)).partitions()


def test_indexes_that_are_deleted_while_a_task_begins(
    topics: Topics, log_dir: Path, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(topic, configs={"segment.bytes": "2000"})
    for _ in range(10):
        topics.transact(topic, f"{topic}-a", [b"aborted" * 10] * 5, commit=False)
    topics.send(topic, [b"end"])
    wait_for_checkpoint(log_dir, topic, {0: 61})
    copy = copy_of(log_dir, topic, tmp_path, 61)

    def map_and_lose(directory: Path, start: int, stop: int) -> list[Mapped]:
        mapped = map_segments(directory, start, stop)
        for path in (copy / f"{topic}-0").glob("0*"):
            if not path.name.startswith(segment_name(mapped[-1].segment.base_offset)):
                path.unlink()
        return mapped

    options = direct_options(copy, topic, kafka__isolation__level="read_committed")
    (partition,) = DirectBatchReader(options).partitions()
    monkeypatch.setattr(reader_module, "map_segments", map_and_lose)
    assert len([*copy.rglob("*.txnindex")]) > 1
    (rows,) = DirectBatchReader(options).read(partition)
    assert rows.column("value").to_pylist() == [b"end"]


def copy_of(log_dir: Path, topic: str, folder: Path, high_watermark: int) -> Path:
    shutil.copytree(log_dir / f"{topic}-0", folder / f"{topic}-0")
    (folder / "replication-offset-checkpoint").write_text(f"0\n1\n{topic} 0 {high_watermark}\n")
    return folder


def test_damage(topics: Topics, log_dir: Path, topic: str, tmp_path: Path) -> None:
    topics.create(topic, configs={"segment.bytes": "20000"})
    topics.send(topic, [b"%d" % number * 20 for number in range(1000)], compression_type="none", max_batch_size=2000)
    wait_for_checkpoint(log_dir, topic, {0: 1000})
    whole = read_broker(topics, topic)
    copy = copy_of(log_dir, topic, tmp_path, 1000)
    options = direct_options(copy, topic)
    segments = sorted((copy / f"{topic}-0").glob("*.log"))
    assert read_direct(options).equals(whole)
    # Indexes only save time.
    for index in (copy / f"{topic}-0").glob("*.index"):
        index.write_bytes(b"\x7f" * 64)
    assert read_direct(direct_options(copy, topic, minPartitions="20")).equals(whole)
    # A torn end above the high watermark is not looked at.
    with segments[-1].open("ab") as file:
        file.write(b"torn")
    assert read_direct(options).equals(whole)
    # Compaction that was interrupted.
    swap = segments[1].with_suffix(".log.swap")
    swap.touch()
    with pytest.raises(LogNotReadable, match="is being compacted"):
        read_direct(options)
    swap.unlink()
    # Retention after planning.
    reader = DirectBatchReader(options)
    (partition,) = reader.partitions()
    segments[0].unlink()
    with pytest.raises(DataLoss):
        [*reader.read(partition)]
    data = bytearray(segments[1].read_bytes())
    data[70] ^= 1
    segments[1].write_bytes(data)
    with pytest.raises(LogNotReadable, match="is damaged"):
        read_direct(options)
    segments[1].write_bytes(data[:100])
    with pytest.raises(LogNotReadable, match="no whole batch at byte 0"):
        read_direct(options)


def test_what_is_not_there(log_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="logDirs have no nothing"):
        read_direct(direct_options(log_dir, "nothing"))
    with pytest.raises(LogNotReadable, match="no directory that can be reached"):
        read_direct(direct_options(tmp_path / "x", "t"))
    (tmp_path / "replication-offset-checkpoint").write_text("what?")
    with pytest.raises(LogNotReadable, match="cannot be read"):
        read_direct(direct_options(tmp_path, "t"))
