"""Keeping a reassignment from taking all of the network: replication quotas, set before and taken away afterwards.

Kafka has the rates as configs of brokers, and the replicas to which they apply as configs of topics: those that copy
from (leaders) and those that are copied to (followers).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from minikafka.client.admin import Admin, ConfigResource
from minikafka.client.structs import TopicPartition

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"


def throttled_replicas(
    current: Mapping[TopicPartition, Sequence[int]], target: Mapping[TopicPartition, Sequence[int]]
) -> dict[str, dict[str, str]]:
    """The configs of each topic: its present replicas as those that copy from, the new ones as those that copy to."""
    configs: dict[str, dict[str, list[str]]] = {}
    for place, replicas in target.items():
        lists = configs.setdefault(place.topic, {LEADERS: [], FOLLOWERS: []})
        lists[LEADERS] += [f"{place.partition}:{broker}" for broker in current[place]]
        lists[FOLLOWERS] += [f"{place.partition}:{broker}" for broker in replicas if broker not in current[place]]
    return {topic: {key: ",".join(each) for key, each in lists.items()} for topic, lists in configs.items()}


async def set_throttle(
    admin: Admin,
    brokers: Iterable[int],
    current: Mapping[TopicPartition, Sequence[int]],
    target: Mapping[TopicPartition, Sequence[int]],
    rate: int,
) -> None:
    rates: dict[str, str | None] = dict.fromkeys(RATES, str(rate))
    changes: dict[ConfigResource, Mapping[str, str | None]] = {
        ConfigResource.broker(broker): rates for broker in brokers
    }
    for topic, configs in throttled_replicas(current, target).items():
        changes[ConfigResource.topic(topic)] = configs
    await admin.incremental_alter_configs(changes)


async def clear_throttle(admin: Admin, brokers: Iterable[int], topics: Iterable[str]) -> bool:
    """Take all of it away; whether there was any. Rates hold for a broker, whichever topics they were set for."""
    resources = [*map(ConfigResource.broker, brokers), *map(ConfigResource.topic, topics)]
    keys = {*RATES, LEADERS, FOLLOWERS}
    found = await admin.describe_configs(resources)
    changes: dict[ConfigResource, Mapping[str, str | None]] = {}
    for resource, configs in found.items():
        theirs = [key for key in keys if key in configs and not configs[key].is_default and configs[key].value]
        if theirs:
            changes[resource] = dict.fromkeys(theirs)
    if changes:
        await admin.incremental_alter_configs(changes)
    return bool(changes)
