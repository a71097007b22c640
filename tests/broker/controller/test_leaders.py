"""What brokers ask of the controller, and log directories that fail."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from minikafka.broker.config_watch import refresh_topics
from minikafka.broker.controller.state import Partition
from minikafka.broker.network.net import TcpNet
from minikafka.broker.network.peer import Peer
from minikafka.broker.topic_admin import Plan
from minikafka.broker.zookeeper.config_nodes import topic_entity
from minikafka.broker.zookeeper.config_store import write_config
from minikafka.broker.zookeeper.topic_nodes import LOG_DIR_EVENT_PREFIX, NO_LEADER, StateNode, encode_log_dir_event
from minikafka.protocol.control import (
    AlteredPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    IsrMember,
    ProposedPartition,
    RemainingPartition,
)
from minikafka.protocol.errors import ErrorCode
from tests.broker.controller.fakes import FakeCluster, running
from tests.broker.eventually import eventually
from tests.broker.zookeeper.worlds import World


@pytest.fixture
async def cluster(world: World) -> AsyncIterator[FakeCluster]:
    """Broker 1 is the controller; it leads t-0, and 2 leads t-1."""
    async with running(world, 3) as made:
        await made[1].create("t", {0: [1, 2, 3], 1: [2, 3, 1]})
        for broker in made.brokers.values():
            await broker.until_led({("t", 0): 1, ("t", 1): 2})
        yield made


def known(cluster: FakeCluster, index: int) -> Partition:
    found = cluster[1].task.controller.cluster.partition(("t", index))
    assert found is not None
    return found


def proposal(cluster: FakeCluster, index: int, *isr: int, **changed: object) -> ProposedPartition:
    partition = known(cluster, index)
    assert partition.state is not None
    fields = {
        "topic": "t",
        "topic_id": partition.topic.topic_id,
        "partition": index,
        "leader_epoch": partition.state.leader_epoch,
        "partition_epoch": partition.version,
        "isr": [IsrMember(broker_id=each, broker_epoch=cluster[each].epoch) for each in isr],
    }
    return ProposedPartition(**{**fields, **changed})  # type: ignore[arg-type]


async def propose(cluster: FakeCluster, broker_id: int, *proposed: ProposedPartition) -> list[AlteredPartition]:
    """Ask as a broker does, over the network."""
    request = AlterPartitionRequest(
        broker_id=broker_id, broker_epoch=cluster[broker_id].epoch, partitions=list(proposed)
    )
    answer = await ask(cluster, request)
    assert answer.error_code == ErrorCode.NONE
    return answer.partitions


async def ask(cluster: FakeCluster, request: AlterPartitionRequest, of: int = 1) -> AlterPartitionResponse:
    peer = await Peer.connect(TcpNet(), "127.0.0.1", cluster[of].port, client_id="tests", timeout_seconds=10)
    try:
        return await peer.ask_control(request, AlterPartitionResponse)
    finally:
        peer.close()


# Proposals


async def test_an_isr_shrinks_and_grows(cluster: FakeCluster) -> None:
    (answer,) = await propose(cluster, 1, proposal(cluster, 0, 1, 3))
    assert (answer.error_code, answer.isr, answer.leader_epoch, answer.partition_epoch) == (0, [1, 3], 0, 1)
    assert await cluster[2].state("t", 0) == StateNode(1, 0, (1, 3), 1)
    for broker in cluster.brokers.values():
        await broker.until_isr("t", 0, [1, 3])
    (answer,) = await propose(cluster, 1, proposal(cluster, 0, 1, 3, 2))
    assert (answer.isr, answer.partition_epoch) == ([1, 3, 2], 2)


async def test_the_same_again(cluster: FakeCluster) -> None:
    """The answer was lost: it is given again, and nothing is written."""
    proposed = proposal(cluster, 0, 1, 3)
    (first,) = await propose(cluster, 1, proposed)
    (second,) = await propose(cluster, 1, proposed)
    assert first == second
    assert known(cluster, 0).version == 1


async def test_several_at_once(cluster: FakeCluster) -> None:
    await cluster[1].create("u", {index: [1, 2] for index in range(120)})
    await cluster[1].until_led({("u", index): 1 for index in range(120)})
    partitions = cluster[1].task.controller.cluster.topics["u"].partitions
    members = [IsrMember(broker_id=1, broker_epoch=cluster[1].epoch)]
    answers = await propose(
        cluster,
        1,
        *(
            ProposedPartition(
                topic="u",
                topic_id=each.topic.topic_id,
                partition=index,
                leader_epoch=0,
                partition_epoch=0 if index != 7 else 1,
                isr=members,
            )
            for index, each in partitions.items()
        ),
    )
    assert {each.partition: each.error_code for each in answers if each.error_code} == {7: ErrorCode.NOT_CONTROLLER}
    assert all(each.isr == [1] for each in answers if not each.error_code)
    assert (await cluster[2].state("u", 119)).isr == (1,)


@pytest.mark.parametrize(
    ("isr", "changed", "error"),
    [
        ((1, 2), {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2), {"partition_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ((1, 2), {"topic_id": bytes(16)}, ErrorCode.UNKNOWN_TOPIC_ID),
        ((1, 2), {"topic": "x"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((1, 2), {"partition": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((2, 3), {}, ErrorCode.INVALID_REQUEST),
        ((1, 1), {}, ErrorCode.INVALID_REQUEST),
        ((), {}, ErrorCode.INVALID_REQUEST),
        ((1,), {"is_recovering": True}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_may_not_be(
    cluster: FakeCluster, isr: tuple[int, ...], changed: dict[str, object], error: ErrorCode
) -> None:
    (answer,) = await propose(cluster, 1, proposal(cluster, 0, *isr, **changed))
    assert ErrorCode(answer.error_code) == error
    assert await cluster[1].state("t", 0) == StateNode(1, 0, (1, 2, 3), 1)


async def test_only_the_leader_may_ask(cluster: FakeCluster) -> None:
    (answer,) = await propose(cluster, 2, proposal(cluster, 0, 1, 2))
    assert answer.error_code == ErrorCode.INVALID_REQUEST


async def test_a_replica_that_was_restarted_may_not_slip_in(cluster: FakeCluster) -> None:
    """Its leader has seen it before it lost its last records."""
    await propose(cluster, 1, proposal(cluster, 0, 1, 3))
    before = cluster[2].epoch
    await cluster.world.expire(cluster[2].coord)
    await cluster[2].coord.connected()
    await cluster[2].register()
    await cluster[1].until_epoch(cluster[2].epoch)
    old = [IsrMember(broker_id=1, broker_epoch=cluster[1].epoch), IsrMember(broker_id=2, broker_epoch=before)]
    (answer,) = await propose(cluster, 1, proposal(cluster, 0, isr=old))
    assert answer.error_code == ErrorCode.INELIGIBLE_REPLICA
    (answer,) = await propose(cluster, 1, proposal(cluster, 0, 1, 3, 2))
    assert answer.error_code == ErrorCode.NONE


async def test_whoever_is_not_registered_may_not_ask(cluster: FakeCluster) -> None:
    for broker_id, epoch in ((1, cluster[1].epoch - 1), (9, 1)):
        request = AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch, partitions=[])
        assert (await ask(cluster, request)).error_code == ErrorCode.STALE_BROKER_EPOCH


async def test_whoever_is_not_the_controller_says_so(cluster: FakeCluster) -> None:
    request = AlterPartitionRequest(broker_id=2, broker_epoch=cluster[2].epoch, partitions=[])
    assert (await ask(cluster, request, of=2)).error_code == ErrorCode.NOT_CONTROLLER


async def test_a_state_that_somebody_else_has_written(cluster: FakeCluster) -> None:
    """It is taken over, and the proposal is judged by it."""
    proposed = proposal(cluster, 0, 1, 3)
    other = StateNode(2, 4, (2, 3), 1)
    await cluster[2].coord.set("/brokers/topics/t/partitions/0/state", other.encode())
    (answer,) = await propose(cluster, 1, proposed)
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert known(cluster, 0).state == other
    assert await cluster[1].state("t", 0) == other


# Controlled shutdown


async def shut_down(cluster: FakeCluster, broker_id: int) -> ControlledShutdownResponse:
    request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=cluster[broker_id].epoch)
    return await cluster[1].task.controller.controlled_shutdown(request)


async def test_a_broker_is_about_to_stop(cluster: FakeCluster) -> None:
    await cluster[1].create("single", {0: [2]})
    await cluster[1].until_led({("single", 0): 2})
    answer = await shut_down(cluster, 2)
    assert answer == ControlledShutdownResponse(remaining=[])
    await cluster[3].until_led({("t", 0): 1, ("t", 1): 3, ("single", 0): 2})
    assert await cluster[1].state("t", 0) == StateNode(1, 1, (1, 3), 1)
    assert await cluster[1].state("t", 1) == StateNode(3, 1, (3, 1), 1)
    await eventually(lambda: set(cluster[2].roles) == {("single", 0)})
    assert cluster[2].stopped == {("t", 0): False, ("t", 1): False}
    # It may not come back into the ISR by being quick.
    (refused,) = await propose(cluster, 1, proposal(cluster, 0, 1, 3, 2))
    assert refused.error_code == ErrorCode.INELIGIBLE_REPLICA


async def test_two_brokers_are_about_to_stop(cluster: FakeCluster) -> None:
    await shut_down(cluster, 2)
    assert await shut_down(cluster, 3) == ControlledShutdownResponse(remaining=[])
    await cluster[1].until_led({("t", 0): 1, ("t", 1): 1})
    # Nobody is left to take over, and nobody will come: there is no point in waiting.
    assert await shut_down(cluster, 1) == ControlledShutdownResponse(remaining=[])


async def test_what_nobody_can_take_over_yet_is_told(cluster: FakeCluster) -> None:
    await cluster[3].stop()
    await cluster[1].until(lambda: 3 not in cluster[1].metadata.brokers)
    await propose(cluster, 1, proposal(cluster, 0, 1))
    answer = await shut_down(cluster, 1)
    assert answer.remaining == [RemainingPartition(topic="t", partition=0)]


async def test_a_broker_that_stopped_leads_again_when_it_is_back(cluster: FakeCluster) -> None:
    await shut_down(cluster, 3)
    await cluster[3].stop()
    await cluster[2].until(lambda: 3 not in cluster[2].metadata.brokers)
    again = await cluster.add(3)
    await again.until_led({("t", 0): 1, ("t", 1): 2})
    await propose(cluster, 2, proposal(cluster, 1, 2, 3))
    await shut_down(cluster, 2)
    await again.until_led({("t", 1): 3})


async def test_the_wrong_epoch_stops_nobody(cluster: FakeCluster) -> None:
    peer = await Peer.connect(TcpNet(), "127.0.0.1", cluster[1].port, client_id="tests", timeout_seconds=10)
    for broker_id, error in ((2, ErrorCode.STALE_BROKER_EPOCH), (9, ErrorCode.BROKER_NOT_AVAILABLE)):
        request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=1)
        assert (await peer.ask_control(request, ControlledShutdownResponse)).error_code == error
    peer.close()
    assert not cluster[1].task.controller.cluster.shutting_down


# Log directories and unclean elections


async def test_a_log_directory_fails(cluster: FakeCluster) -> None:
    cluster[2].broken = {("t", 1)}
    await cluster[2].coord.create(LOG_DIR_EVENT_PREFIX, encode_log_dir_event(2), sequence=True)
    await cluster[1].until_led({("t", 0): 1, ("t", 1): 3})
    assert await cluster[1].state("t", 1) == StateNode(3, 1, (3, 1), 1)
    assert await cluster[1].state("t", 0) == StateNode(1, 0, (1, 2, 3), 1)
    assert await cluster[1].coord.children("/log_dir_event_notification") == []
    state = cluster[1].metadata.partition("t", 1)
    assert state is not None and state.offline_replicas == [2]
    (answer,) = await propose(cluster, 3, proposal(cluster, 1, 3, 1, 2))
    assert answer.error_code == ErrorCode.INELIGIBLE_REPLICA


async def test_a_log_directory_is_back(cluster: FakeCluster) -> None:
    await cluster[1].create("single", {0: [2]})
    await cluster[1].until_led({("single", 0): 2})
    cluster[2].broken = {("single", 0)}
    await cluster[2].coord.create(LOG_DIR_EVENT_PREFIX, encode_log_dir_event(2), sequence=True)
    await cluster[1].until_led({("single", 0): NO_LEADER})
    cluster[2].broken = set()
    await cluster[2].coord.create(LOG_DIR_EVENT_PREFIX, encode_log_dir_event(2), sequence=True)
    await cluster[1].until_led({("single", 0): 2})


async def test_an_unclean_election_of_a_topic_that_the_controller_has_not_seen(cluster: FakeCluster) -> None:
    """Its configs were written with it, and nobody was told of them."""
    plan = Plan("u", {0: (2, 3)}, {"unclean.leader.election.enable": "true"})
    await cluster[2].admin.create(plan)
    await cluster[2].until_led({("u", 0): 2})
    await cluster[3].stop()
    await cluster[2].until_isr("u", 0, [2])
    again = await cluster.add(3)
    await again.until_led({("u", 0): 2})
    await cluster[2].stop()
    await again.until_led({("u", 0): 3})
    assert (await again.state("u")).is_recovering


async def test_an_unclean_election(cluster: FakeCluster) -> None:
    await propose(cluster, 2, proposal(cluster, 1, 2))
    await cluster[2].stop()
    await cluster[1].until_led({("t", 1): NO_LEADER})
    assert await cluster[1].state("t", 1) == StateNode(NO_LEADER, 1, (2,), 1, last_leader=2)
    # Only now somebody decides that being available is worth more.
    await write_config(cluster[1].coord, topic_entity("t"), {"unclean.leader.election.enable": "true"})
    await refresh_topics(cluster[1].coord, cluster[1].config, ["t"])
    await cluster[1].until_led({("t", 1): 3})
    assert await cluster[1].state("t", 1) == StateNode(3, 2, (3,), 1, is_recovering=True, unclean_epoch=2)
    (answer,) = await propose(cluster, 3, proposal(cluster, 1, 3))
    assert (answer.error_code, answer.is_recovering) == (ErrorCode.NONE, False)
    assert await cluster[1].state("t", 1) == StateNode(3, 2, (3,), 1, unclean_epoch=2)
