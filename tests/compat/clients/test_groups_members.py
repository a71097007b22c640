"""Groups of real clients: members come, go and die, and every partition belongs to one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState

from tests.compat.clients.confluent import Confluent, ConfluentAdmin, result
from tests.compat.clients.member import COOPERATIVE
from tests.compat.clients.members import SETTLE_S, GroupOfProcesses, double_owners
from tests.compat.clients.model import Record, eventually
from tests.compat.clients.topics import Topics
from tests.compat.running import Cluster

PARTITIONS = 6

pytestmark = [pytest.mark.needs("java"), pytest.mark.timeout(150)]


@pytest.fixture
def topic(topics: Topics) -> str:
    return topics.make(PARTITIONS)


@pytest.fixture(params=["confluent", "kafka-python", "aiokafka"])
def group(
    request: pytest.FixtureRequest, up_cluster: Cluster, topic: str, tmp_path: Path
) -> Iterator[GroupOfProcesses]:
    made = GroupOfProcesses(request.param, up_cluster.bootstrap, f"group of {topic}", topic, tmp_path)
    yield made
    made.close()


@pytest.fixture(params=["confluent", "kafka-python"])
def cooperative_group(
    request: pytest.FixtureRequest, up_cluster: Cluster, topic: str, tmp_path: Path
) -> Iterator[GroupOfProcesses]:
    """aiokafka has no assignor for it."""
    made = GroupOfProcesses(request.param, up_cluster.bootstrap, f"group of {topic}", topic, tmp_path)
    yield made
    made.close()


def owned_by_coordinator(keeper: ConfluentAdmin, group: str) -> list[int]:
    """The partitions of all members, as the coordinator has them while the group is stable."""
    found = result(keeper.client.describe_consumer_groups([group])[group])
    if found.state != ConsumerGroupState.STABLE:
        return []
    return sorted(each.partition for member in found.members for each in member.assignment.topic_partitions)


def produce(confluent: Confluent, topic: str, first: int, count: int) -> list[str]:
    values = [str(number) for number in range(first, first + count)]
    for partition in range(PARTITIONS):
        confluent.produce(topic, [Record(value.encode()) for value in values[partition::PARTITIONS]], partition)
    return values


def test_two_owners_are_found() -> None:
    one, two, none = frozenset({1, 2}), frozenset({2, 3}), frozenset[int]()
    assert double_owners([[(1.0, one), (3.0, none)], [(4.0, two)]]) == []
    assert double_owners([[(1.0, one), (3.0, none)], [(2.0, two)]]) == [(2.0, 2)]


def test_members_come_go_and_die(group: GroupOfProcesses, keeper: ConfluentAdmin) -> None:
    first, second = group.add(), group.add()
    group.wait_owned(PARTITIONS, [first, second])
    others = [group.add() for _ in range(3)]
    group.wait_owned(PARTITIONS, [first, second, *others])
    assert owned_by_coordinator(keeper, group.group) == list(range(PARTITIONS))
    first.leave()
    group.wait_owned(PARTITIONS, [second, *others])
    second.kill()
    others[0].kill()
    group.wait_owned(PARTITIONS, others[1:])
    assert owned_by_coordinator(keeper, group.group) == list(range(PARTITIONS))
    # Whoever was killed has nothing any more, and all others give up what they have before anybody gets it.
    assert group.double_owners() == []


def test_others_go_on_where_one_has_stopped(
    group: GroupOfProcesses, confluent: Confluent, topic: str, keeper: ConfluentAdmin
) -> None:
    values = produce(confluent, topic, 0, 60)
    first = group.add()
    eventually(lambda: sorted(group.read(), key=int), lambda read: read == values, SETTLE_S)
    first.leave()
    values += produce(confluent, topic, 60, 60)
    group.add()
    group.add()
    eventually(lambda: sorted(group.read(), key=int), lambda read: read == values, SETTLE_S)


def test_nothing_is_left_out_when_one_is_killed(group: GroupOfProcesses, confluent: Confluent, topic: str) -> None:
    victim, other = group.add(), group.add()
    group.wait_owned(PARTITIONS, [victim, other])
    values = produce(confluent, topic, 0, 300)
    eventually(lambda: victim.read, bool, SETTLE_S)
    victim.kill()
    eventually(lambda: set(group.read()), lambda read: read == set(values), SETTLE_S)
    again = [value for value, count in Counter(group.read()).items() if count > 1]
    # What it had read and not committed yet is read again, and nothing else.
    assert set(again) <= {value for _, _, value in victim.read}


def test_static_member_comes_back_without_a_rebalance(group: GroupOfProcesses) -> None:
    here, away = group.add("--instance", "a"), group.add("--instance", "b")
    group.wait_owned(PARTITIONS, [here, away])
    before, owned = len(here.assignments), away.owned
    away.kill()
    back = group.add("--instance", "b")
    eventually(lambda: back.owned, lambda now: now == owned, SETTLE_S)
    assert len(here.assignments) == before


def test_cooperative_members_keep_what_they_have(cooperative_group: GroupOfProcesses) -> None:
    group = cooperative_group
    options = ("--assignor", COOPERATIVE)
    first = group.add(*options)
    group.wait_owned(PARTITIONS, [first])
    second, third = group.add(*options), group.add(*options)
    group.wait_owned(PARTITIONS, [first, second, third])
    kept = frozenset.intersection(*first.assignments)
    assert kept == first.owned, "what it has in the end it had all the time"
    third.leave()
    group.wait_owned(PARTITIONS, [first, second])
    assert first.owned >= kept
    assert group.double_owners() == []
