"""Mutants of the controller, of elections, and of what brokers accept from a controller."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_PROPOSALS: Final = "broker/controller/proposals.py"
_ELECTION: Final = "broker/controller/leader_election.py"
_LEADERS: Final = "tests/broker/controller/test_leader_election.py tests/broker/controller/test_leaders.py"
_CONTROLLER: Final = "tests/broker/controller"

MUTANTS: Final = (
    Mutant(
        8,
        "no-controller-epoch-in-multi",
        "broker/zookeeper/election.py",
        "coord.multi(Check(CONTROLLER_EPOCH, held.epoch_version), *ops)",
        "coord.multi(Check(CONTROLLER_EPOCH, -1), *ops)",
        "Every write of a controller checks the controller epoch in the same transaction.",
        "tests/broker/zookeeper/test_election.py",
    ),
    Mutant(
        10,
        "isr-member-epoch-unchecked",
        _PROPOSALS,
        "broker is None or broker.epoch != member.broker_epoch or not may_join",
        "broker is None or not may_join",
        "A replica is in the ISR only as the process that the leader has seen (KIP-903).",
        _LEADERS,
    ),
    Mutant(
        15,
        "partition-epoch-unchecked",
        _PROPOSALS,
        "if proposed.partition_epoch < partition.version:",
        "if False:",
        "A proposal made for an older state is refused.",
        _LEADERS,
    ),
    Mutant(
        17,
        "stale-controller-heard",
        "broker/handlers/control.py",
        "if request.controller_epoch < membership.controller_epoch:",
        "if False:",
        "A request of an earlier controller changes nothing.",
        "tests/broker/handlers tests/broker/replicas/test_partitions.py",
    ),
    Mutant(
        24,
        "session-loss-keeps-roles",
        "broker/node.py",
        "        membership.on_lost = partitions.drop_roles\n",
        "",
        "A broker leads nothing after its session has ended.",
        "tests/broker/zookeeper/test_registration.py",
    ),
    Mutant(
        44,
        "state-written-unconditionally",
        "broker/controller/writer.py",
        "Set(state_path(*each.name), state.encode(), each.version)",
        "Set(state_path(*each.name), state.encode())",
        "The state of a partition is written only over the version that was read.",
        _CONTROLLER,
    ),
    Mutant(
        57,
        "proposal-of-a-deposed-leader",
        _PROPOSALS,
        "if proposed.leader_epoch < state.leader_epoch:",
        "if False:",
        "A proposal of an older leader epoch is refused.",
        _LEADERS,
    ),
    Mutant(
        58,
        "proposal-of-another-broker",
        _PROPOSALS,
        "if broker_id != state.leader:",
        "if False:",
        "Only the leader proposes an ISR.",
        _LEADERS,
    ),
    Mutant(
        59,
        "proposal-for-another-topic-id",
        _PROPOSALS,
        "if topic.topic_id != proposed.topic_id:",
        "if False:",
        "A proposal for an earlier topic of the same name is refused (KIP-516).",
        _LEADERS,
    ),
    Mutant(
        60,
        "preferred-out-of-sync",
        _ELECTION,
        "if first not in state.isr or not may_lead(first):",
        "if not may_lead(first):",
        "A preferred election takes a member of the ISR only.",
        _LEADERS,
    ),
    Mutant(
        61,
        "epoch-not-raised",
        _ELECTION,
        "leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr",
        "leader=leader, leader_epoch=state.leader_epoch, isr=isr",
        "Every decision of the controller raises the leader epoch.",
        _LEADERS,
    ),
)
