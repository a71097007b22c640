"""The rules of numbering and of transactions, row by row."""

from __future__ import annotations

import pytest

from minikafka.client.cluster import Cluster
from minikafka.client.errors import IllegalState
from minikafka.client.producer.batch import Batch
from minikafka.client.producer.config import ProducerConfig
from minikafka.client.producer.identity import Identities
from minikafka.client.producer.queues import PartitionQueue
from minikafka.client.producer.sender import Sender
from minikafka.client.producer.sequences import (
    EPOCH_MAX,
    Identity,
    Mode,
    Numbering,
    Verdict,
    add_to_sequence,
    judge,
    judge_error,
)
from minikafka.client.producer.transaction_states import TRANSITIONS, Event, State, next_state
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import ErrorCode, InvalidTopicError, NetworkError

PLAIN, IDEMPOTENT, TRANSACTIONAL = Mode.PLAIN, Mode.IDEMPOTENT, Mode.TRANSACTIONAL


@pytest.mark.parametrize(
    ("code", "is_oldest", "records", "plain", "idempotent", "transactional"),
    [
        (ErrorCode.NONE, True, 1, Verdict.DELIVERED, Verdict.DELIVERED, Verdict.DELIVERED),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, True, 1, Verdict.DELIVERED, Verdict.DELIVERED, Verdict.DELIVERED),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True, 1, Verdict.RETRY, Verdict.RETRY, Verdict.RETRY),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, True, 1, Verdict.RETRY, Verdict.RETRY, Verdict.RETRY),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, True, 1, Verdict.FAIL, Verdict.LEAVE_EPOCH, Verdict.ABORT),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, False, 1, Verdict.RETRY, Verdict.RETRY, Verdict.RETRY),
        (ErrorCode.UNKNOWN_PRODUCER_ID, True, 1, Verdict.FAIL, Verdict.LEAVE_EPOCH, Verdict.ABORT),
        (ErrorCode.INVALID_PRODUCER_EPOCH, False, 1, Verdict.FAIL, Verdict.LEAVE_EPOCH, Verdict.ABORT),
        (ErrorCode.MESSAGE_TOO_LARGE, True, 2, Verdict.SPLIT, Verdict.SPLIT, Verdict.SPLIT),
        (ErrorCode.MESSAGE_TOO_LARGE, True, 1, Verdict.FAIL, Verdict.FAIL, Verdict.ABORT),
        (ErrorCode.INVALID_RECORD, True, 5, Verdict.FAIL, Verdict.FAIL, Verdict.ABORT),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, True, 1, Verdict.FAIL, Verdict.FAIL, Verdict.ABORT),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, True, 1, Verdict.FAIL, Verdict.FATAL, Verdict.FATAL),
        (ErrorCode.PRODUCER_FENCED, True, 1, Verdict.FAIL, Verdict.FATAL, Verdict.FATAL),
        (12345, True, 1, Verdict.FAIL, Verdict.FAIL, Verdict.ABORT),
    ],
)
def test_verdicts(
    code: int, is_oldest: bool, records: int, plain: Verdict, idempotent: Verdict, transactional: Verdict
) -> None:
    found = [judge(code, mode, is_oldest=is_oldest, records=records) for mode in (PLAIN, IDEMPOTENT, TRANSACTIONAL)]
    assert found == [plain, idempotent, transactional]


def test_every_code_has_a_verdict_in_every_mode() -> None:
    for code in ErrorCode:
        for mode in Mode:
            for is_oldest in (True, False):
                assert isinstance(judge(code, mode, is_oldest=is_oldest, records=1), Verdict)


def test_without_an_answer() -> None:
    assert judge_error(NetworkError(), IDEMPOTENT) is Verdict.RETRY
    assert judge_error(InvalidTopicError(), TRANSACTIONAL) is Verdict.ABORT


def test_numbers_go_on_and_around() -> None:
    numbering = Numbering()
    numbering.adopt(Identity(7, 0))
    assert [numbering.take(3), numbering.take(5), numbering.take(1)] == [0, 3, 8]
    numbering.adopt(Identity(7, 0))
    assert numbering.take(1) == 9
    numbering.adopt(Identity(7, 1))
    assert numbering.take(1) == 0
    assert add_to_sequence((1 << 31) - 2, 3) == 1


def test_epochs_end() -> None:
    assert Identity(7, 3).bumped() == Identity(7, 4)
    assert Identity(7, EPOCH_MAX).bumped() is None


def queue_of(batches: int) -> tuple[PartitionQueue, list[Batch]]:
    queue = PartitionQueue(TopicPartition("t", 0))
    made = [queue.new_batch(0, 0) for _ in range(batches)]
    queue.close_open()
    return queue, made


def test_a_queue_sends_in_order_and_only_to_one_node_at_a_time() -> None:
    queue, made = queue_of(3)
    assert queue.is_sendable(0, 1, 5)
    assert [queue.take(1), queue.take(1)] == made[:2]
    assert not queue.is_sendable(0, 2, 5)
    assert not queue.is_sendable(0, 1, 2)
    assert queue.is_oldest(made[0]) and not queue.is_oldest(made[1])


def test_what_failed_waits_for_the_rest_and_goes_first() -> None:
    queue, (first, second, third) = queue_of(3)
    queue.take(1), queue.take(1)
    queue.in_flight.remove(second)
    queue.failed.append(second)
    queue.requeue_failed()
    assert not queue.is_sendable(0, 1, 5)
    assert queue.is_oldest(first)
    queue.in_flight.remove(first)
    queue.failed.append(first)
    queue.requeue_failed()
    assert [*queue] == [first, second, third] == [queue.take(1) for _ in range(3)]


async def test_a_partition_with_batches_in_flight_stays_in_its_epoch() -> None:
    config = ProducerConfig()
    cluster = Cluster(config)
    identities = Identities(cluster, config)
    identities.current = Identity(7, 0)
    sender = Sender(cluster, config, identities)
    queue, made = queue_of(3)
    for batch in made:
        batch.extend(5, [b"x"], None, 10)
    sender._prepare(queue, 1)
    identities.bump()
    second = sender._prepare(queue, 1)
    assert second is not None
    assert (second.identity, second.sequence) == (Identity(7, 0), 1)
    queue.in_flight.clear()
    third = sender._prepare(queue, 1)
    assert third is not None
    assert (third.identity, third.sequence) == (Identity(7, 1), 0)
    await cluster.close()


def test_halves_keep_their_place_and_their_numbers() -> None:
    queue, (first, second) = queue_of(2)
    first.extend(5, [b"a", b"b"], None, 10)
    first.extend(6, [b"c"], [b"k"], 10)
    first.identity, first.sequence = Identity(7, 0), 4
    queue.take(1), queue.take(1)
    queue.in_flight.clear()
    queue.failed.append(second)
    left, right = queue.replace_by_halves(first)
    queue.requeue_failed()
    assert [*queue] == [left, right, second]
    assert [(half.sequence, half.values, half.keys, half.runs) for half in (left, right)] == [
        (4, [b"a"], [None], [(5, 0)]),
        (5, [b"b", b"c"], [None, b"k"], [(5, 0), (6, 1)]),
    ]


def test_transactions_only_do_what_is_in_the_table() -> None:
    for state in State:
        for event in Event:
            if (state, event) in TRANSITIONS:
                assert next_state(state, event) is TRANSITIONS[state, event]
            else:
                with pytest.raises(IllegalState, match=state.value):
                    next_state(state, event)


def test_a_transaction_can_always_be_ended() -> None:
    """From every state but the last, some way leads back to having no transaction."""
    reachable = {State.READY}
    while True:
        more = {state for (state, _), after in TRANSITIONS.items() if after in reachable} | reachable
        if more == reachable:
            break
        reachable = more
    assert reachable == {*State} - {State.FATAL}
