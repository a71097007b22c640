"""What a real Kafka said to odd batches: the recorded cases, put to validation and producer state.

Errors that come from elsewhere in a broker (no such topic, not the leader) are not for this room, and cases with one
are left out. Where the recording shows a defect of Kafka, our own answer is in `OURS`.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from minikafka.protocol.errors import KafkaError
from minikafka.protocol.records.layout import TimestampType
from minikafka.storage.producers import Origin, ProducerStates
from minikafka.storage.validation import Limits, RejectedRecords, parse_produced, validate
from tests.protocol.recordings import cases
from tests.storage.batches import NOW_MS, described

ELSEWHERE = {"UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER", "UNSUPPORTED_FOR_MESSAGE_FORMAT"}
# One partition twice in a request, of which Kafka takes the last: for the handler to sort out.
NOT_HERE = {"produce-duplicate-topic-entries-v7", "produce-duplicate-topic-entries-v9"}

# Case -> our verdicts, where Kafka fails with UNKNOWN_SERVER_ERROR or never answers. A header does not show that the
# records inside are bad, so such a batch is stored unless the topic has its records looked at.
OURS = {
    "produce-null-records-v3": ["INVALID_RECORD"],
    "produce-null-records-v9": ["INVALID_RECORD"],
    "produce-record-offset-deltas-wrong-v8": ["NONE", "NONE"],
    "produce-compression-codec-unknown-v7": ["UNSUPPORTED_COMPRESSION_TYPE"] * 2,
    "produce-compression-codec-unknown-v8": ["UNSUPPORTED_COMPRESSION_TYPE"] * 2,
    "produce-zstd-before-v7-v7": ["NONE"],
    "produce-gzip-garbage-body": ["NONE"],
}


class Partition:
    """The part of a leader that decides about batches."""

    def __init__(self, configs: dict[str, str]) -> None:
        is_append_time = configs.get("message.timestamp.type") == "LogAppendTime"
        self.limits = Limits(
            is_compacted=configs.get("cleanup.policy") == "compact",
            timestamp_before_max_ms=int(configs.get("message.timestamp.before.max.ms", 2**63 - 1)),
            timestamp_type=TimestampType(is_append_time),
        )
        self.states = ProducerStates()
        self.end = 0

    def produce(self, records: bytearray | None, version: int) -> dict[str, Any]:
        """The fields of an answer that this room knows."""
        answer: dict[str, Any] = {"ErrorCode": "NONE", "BaseOffset": -1, "LogAppendTimeMs": -1, "RecordErrors": []}
        try:
            answer |= self._append(records, version)
        except KafkaError as error:
            answer["ErrorCode"] = error.code.name
        except RejectedRecords as rejected:
            answer["ErrorCode"] = rejected.error.code.name
            answer["RecordErrors"] = [{"BatchIndex": each.batch_index} for each in rejected.record_errors]
        return answer

    def _append(self, records: bytearray | None, version: int) -> dict[str, Any]:
        batch = validate(parse_produced(records, version), self.limits, NOW_MS, Origin.CLIENT)
        duplicate = self.states.duplicate_of(batch)
        if duplicate is not None:
            return {"BaseOffset": duplicate.first_offset, "LogAppendTimeMs": "<time>"}
        self.states.check(batch, Origin.CLIENT)
        batch.patch(self.end, 0)
        self.states.update(batch)
        self.end = batch.next_offset
        append_time = "<time>" if self.limits.timestamp_type is TimestampType.LOG_APPEND_TIME else -1
        return {"BaseOffset": batch.base_offset, "LogAppendTimeMs": append_time}


def records_of(what: Any) -> bytearray | None:
    if what is None:
        return None
    if isinstance(what, list):
        return bytearray().join(records_of(each) or b"" for each in what)
    return described(with_ids(what["batch"])) if what else bytearray()


def with_ids(batch: dict[str, Any]) -> dict[str, Any]:
    """`<producer id 1>` as a number."""
    named = batch.get("producer_id")
    return batch | {"producer_id": int(named[13:-1])} if isinstance(named, str) else batch


def produce_steps(case: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for step in case["steps"] if "request" in step and step["request"].get("api") == "Produce"]


def is_for_us(name: str, case: dict[str, Any]) -> bool:
    steps = produce_steps(case)
    answers = [answer for step in steps if isinstance(step["answer"], dict) for answer in answers_of(step)]
    return (
        name.startswith(("produce-", "idempotent-"))
        and name not in NOT_HERE
        and (name in OURS or ("informative" not in case and bool(answers)))
        and not any(answer["ErrorCode"] in ELSEWHERE for answer in answers)
    )


def answers_of(step: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for topic in step["answer"]["Responses"] for each in topic["PartitionResponses"]]


def play(case: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Our answer and Kafka's, for each partition of each request."""
    partitions: dict[tuple[str, int], Partition] = {}
    for step in case["steps"]:
        given = step.get("given", {})
        if "topic" in given:
            for number in range(given["partitions"]):
                partitions[given["topic"], number] = Partition(given.get("configs", {}))
        elif "produced to" in given:
            topic, _, number = given["produced to"].rpartition("-")
            assert (
                partitions[topic, int(number)].produce(records_of({"batch": given["batch"]}), 9)["ErrorCode"] == "NONE"
            )
        elif step in produce_steps(case):
            theirs = iter(answers_of(step)) if isinstance(step["answer"], dict) else iter(())
            for topic in step["request"]["body"]["TopicData"]:
                for data in topic["PartitionData"]:
                    partition = partitions[topic["Name"], data["Index"]]
                    ours = partition.produce(records_of(data["Records"]), step["request"]["version"])
                    yield ours, next(theirs, None)
        elif step.get("request", {}).get("api") == "ListOffsets":
            (end,) = (each["Offset"] for topic in step["answer"]["Topics"] for each in topic["Partitions"])
            yield {"Offset": partitions["topic1", 0].end}, {"Offset": end}


@pytest.mark.parametrize("name", [name for name, case in cases().items() if is_for_us(name, case) and name not in OURS])
def test_the_same_verdict_as_kafka(name: str) -> None:
    count = 0
    for ours, theirs in play(cases()[name]):
        assert theirs is not None
        # Old versions of the answer have fewer fields.
        assert {field: ours[field] for field in theirs if field in ours} == {f: theirs[f] for f in theirs if f in ours}
        count += 1
    assert count


@pytest.mark.parametrize("name", OURS)
def test_a_clear_verdict_where_kafka_has_none(name: str) -> None:
    assert [ours["ErrorCode"] for ours, _ in play(cases()[name]) if "ErrorCode" in ours] == OURS[name]


def test_enough_cases_are_played() -> None:
    assert sum(is_for_us(name, case) for name, case in cases().items()) >= 40
