"""Batches that Kafka's own classes were given: producer state and validation must agree with them.

The two files of `data/` hold random ones, and say in `about` what is what. The recorded log directory has snapshots,
transaction indexes and leader epochs beside the batches that they follow from.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from minikafka.protocol.compression import Compression
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.records.batch import BatchView, read_whole_batches
from minikafka.protocol.records.control import ControlType, build_marker, read_marker
from minikafka.protocol.records.layout import TimestampType
from minikafka.protocol.records.reader import iter_records
from minikafka.protocol.varint import INT64_MAX
from minikafka.storage.epochs import LeaderEpochs
from minikafka.storage.formats import AbortedTxn, encode_snapshot, parse_aborted_txns, parse_epochs, parse_snapshot
from minikafka.storage.producers import Origin, ProducerStates
from minikafka.storage.validation import Limits, RejectedRecords, parse_produced, validate
from tests.storage.batches import NOW_MS, make_batch
from tests.storage.recorded import recorded_files

DATA = Path(__file__).parent / "data"
SEQUENCES: list[dict[str, Any]] = json.loads((DATA / "kafka-3.9.1-producer-state.json").read_text())["sequences"]
CASES: list[dict[str, Any]] = json.loads((DATA / "kafka-3.9.1-validation.json").read_text())["cases"]

EXPIRATION_MS = 1000
CODECS = {"uncompressed": Compression.NONE} | {codec.name.lower(): codec for codec in Compression}


class Replica:
    """Takes the recorded steps."""

    def __init__(self) -> None:
        self.states = ProducerStates()
        self.end = 0

    def do(self, kind: str, *args: Any) -> list[Any]:
        if kind in ("data", "marker"):
            return self.append(Origin[args[0]], data(*args[1:]) if kind == "data" else marker(*args[1:]))
        if kind == "high watermark":
            self.states.on_high_watermark(min(args[0], self.end))
        elif kind == "log start":
            self.states.on_log_start_offset(min(args[0], self.end))
        elif kind == "expire":
            self.expire(args[0])
        elif kind == "reload":
            entries = parse_snapshot(encode_snapshot(self.states.snapshot()))
            self.states.load(entries, 0)
            self.expire(args[0])
        else:
            raise KeyError(kind)
        return ["ok"]

    def expire(self, now_ms: int) -> None:
        """As Kafka does, for which a producer was active at the time of its last record."""
        for entry in self.states.snapshot():
            producer = self.states.get(entry.producer_id)
            assert producer is not None
            producer.idle_since_ms = producer.last_timestamp
        self.states.expire(now_ms, EXPIRATION_MS)

    def append(self, origin: Origin, batch: BatchView) -> list[Any]:
        batch.patch_base_offset(self.end)
        found = read_marker(batch) if batch.is_control else None
        duplicate = self.states.duplicate_of(batch) if origin is Origin.CLIENT else None
        if duplicate is not None:
            return ["dup", duplicate.first_offset, duplicate.last_offset, duplicate.timestamp]
        try:
            self.states.check(batch, origin, found)
        except KafkaError as error:
            return ["error", error.code.name]
        completed = self.states.update(batch, found)
        self.end = batch.next_offset
        if completed is None:
            return ["ok"]
        stable = self.states.last_stable_offset_of(completed)
        self.states.complete(completed)
        return ["done", completed.first_offset, completed.last_offset, int(completed.is_aborted), stable]


def data(pid: int, epoch: int, sequence: int, count: int, is_txn: int, now_ms: int) -> BatchView:
    fields = {"producer_id": pid, "producer_epoch": epoch, "base_sequence": sequence, "attributes": 0x10 * is_txn}
    return BatchView(make_batch(count, timestamps=[now_ms] * count, **fields))  # type: ignore[arg-type]


def marker(pid: int, epoch: int, control_type: int, coordinator_epoch: int, now_ms: int) -> BatchView:
    made = build_marker(
        ControlType(control_type),
        producer_id=pid,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=now_ms,
    )
    return BatchView(made)


@pytest.mark.parametrize("sequence", SEQUENCES, ids=range(len(SEQUENCES)))
def test_producer_state(sequence: dict[str, Any]) -> None:
    replica = Replica()
    for number, (step, outcome, unstable, map_end) in enumerate(sequence["steps"]):
        ours = replica.do(*step)
        states = replica.states
        assert (ours, states.first_unstable_offset, states.map_end_offset) == (outcome, unstable, map_end), number
    assert sorted(map(list, replica.states.snapshot())) == sequence["snapshot"]


def partitions() -> list[str]:
    return sorted({name.partition("/")[0] for name in recorded_files() if name.endswith(".log")})


@pytest.mark.parametrize("partition", partitions())
def test_the_state_of_a_recorded_log(partition: str) -> None:
    files = {
        name.partition("/")[2]: file for name, file in recorded_files().items() if name.startswith(f"{partition}/")
    }
    # A leader notes its epoch before the first batch.
    replica, epochs = Replica(), LeaderEpochs([(0, 0)])
    snapshots = {0: replica.states.snapshot()}
    for name in sorted(name for name in files if name.endswith(".log")):
        aborted = []
        for batch in read_whole_batches(bytearray(files[name]))[0]:
            epochs.assign(batch.leader_epoch, batch.base_offset)
            replica.end = batch.base_offset
            outcome = replica.append(Origin.REPLICATION, batch)
            if outcome[0] == "done" and outcome[3]:
                aborted.append(AbortedTxn(batch.producer_id, outcome[1], outcome[2], outcome[4]))
            snapshots[replica.end] = replica.states.snapshot()
        assert aborted == parse_aborted_txns(files.get(name.replace(".log", ".txnindex"), b""))
    assert epochs.entries() == parse_epochs(files["leader-epoch-checkpoint"])
    for name in files:
        if name.endswith(".snapshot"):
            assert snapshots[int(name[:20])] == parse_snapshot(files[name])


def limits_of(configs: dict[str, Any]) -> Limits:
    codec = configs.get("compression.type")
    return Limits(
        max_message_bytes=configs.get("max.message.bytes", 1_048_588),
        timestamp_type=TimestampType(configs.get("message.timestamp.type") == "LogAppendTime"),
        timestamp_before_max_ms=configs.get("message.timestamp.before.max.ms", INT64_MAX),
        timestamp_after_max_ms=configs.get("message.timestamp.after.max.ms", INT64_MAX),
        is_compacted="cleanup.policy" in configs,
        compression=None if codec is None else CODECS[codec],
    )


def verdict(case: dict[str, Any]) -> dict[str, Any]:
    data = bytearray.fromhex(case["hex"])
    try:
        batch = validate(parse_produced(data, case["version"]), limits_of(case["configs"]), NOW_MS, Origin.CLIENT)
    except KafkaError as error:
        return {"error": error.code.name}
    except RejectedRecords as rejected:
        named = [each.batch_index for each in rejected.record_errors]
        return {"error": rejected.error.code.name, "records": named}
    batch.check_crc()
    return {
        "codec": batch.compression.name.lower(),
        "timestamp type": ["CreateTime", "LogAppendTime"][batch.timestamp_type],
        "max timestamp": batch.max_timestamp,
        "records": [[record.offset, record.timestamp_ms] for record in iter_records(batch)],
    }


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_validation(case: dict[str, Any]) -> None:
    assert verdict(case) == case["answer"]
