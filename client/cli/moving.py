"""Which brokers are to have which partitions: a plan that moves as little as an even spread allows.

Every broker is to have about the same number of replicas, and to lead about as many partitions as any other. Replicas
stay where they are as far as that goes; those that move go to the broker with the fewest, of another rack if there is
a choice. Pure: what is known goes in, the plan comes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from minikafka.client.structs import TopicPartition

Plan = dict[TopicPartition, tuple[int, ...]]


def make_plan(
    current: Mapping[TopicPartition, Sequence[int]], racks: Mapping[int, str | None], factor: int | None = None
) -> Plan:
    """The new replicas of each partition, the preferred leader first.

    `racks` has the brokers that may be used, by id. Without a factor, each partition keeps its number of replicas.
    """
    counts = {place: len(replicas) if factor is None else factor for place, replicas in current.items()}
    if any(not 1 <= count <= len(racks) for count in counts.values()):
        raise ValueError(f"{max(counts.values())} replicas do not fit on {len(racks)} brokers")
    spread = {place: [each for each in current[place] if each in racks][: counts[place]] for place in current}
    load: Counter[int] = Counter(dict.fromkeys(racks, 0))
    for replicas in spread.values():
        load.update(replicas)
    for place, replicas in spread.items():
        _fill(replicas, counts[place], racks, load)
    while _even_out(spread, racks, load):
        continue
    return _with_leaders(current, spread)


def _fill(replicas: list[int], count: int, racks: Mapping[int, str | None], load: Counter[int]) -> None:
    """Add what is missing: on other racks if there are any, then where there is least."""
    while len(replicas) < count:
        used = {racks[each] for each in replicas}
        free = [each for each in racks if each not in replicas]
        best = min(free, key=lambda each: (racks[each] is not None and racks[each] in used, load[each], each))
        replicas.append(best)
        load[best] += 1


def _even_out(spread: Mapping[TopicPartition, list[int]], racks: Mapping[int, str | None], load: Counter[int]) -> bool:
    """Move one replica from a broker that has more to one that has at least two fewer; False if none can be moved.

    Each move makes the sum of the squares of the loads smaller, so there is an end.
    """
    ordered = sorted(racks, key=lambda each: (load[each], each))
    for giver in reversed(ordered):
        for taker in ordered:
            if load[giver] - load[taker] < 2:
                break
            for replicas in spread.values():
                if giver in replicas and taker not in replicas and _keeps_racks(replicas, giver, taker, racks):
                    replicas[replicas.index(giver)] = taker
                    load[giver] -= 1
                    load[taker] += 1
                    return True
    return False


def _keeps_racks(replicas: Sequence[int], giver: int, taker: int, racks: Mapping[int, str | None]) -> bool:
    then = {racks[taker if each == giver else each] for each in replicas}
    return len(then) >= len({racks[each] for each in replicas})


def _with_leaders(current: Mapping[TopicPartition, Sequence[int]], spread: Mapping[TopicPartition, list[int]]) -> Plan:
    """The same with the preferred leader first: the one of now if it stays, unless others would have less to lead."""
    leaders = {place: _leader(current[place], replicas) for place, replicas in spread.items()}
    leads = Counter(leaders.values())
    is_changed = True
    while is_changed:
        is_changed = False
        for place, replicas in spread.items():
            taker = min(replicas, key=lambda each: (leads[each], replicas.index(each)))
            if leads[leaders[place]] - leads[taker] >= 2:
                leads[leaders[place]] -= 1
                leads[taker] += 1
                leaders[place] = taker
                is_changed = True
    return {
        place: (leaders[place], *(each for each in replicas if each != leaders[place]))
        for place, replicas in spread.items()
    }


def _leader(current: Sequence[int], replicas: Sequence[int]) -> int:
    return current[0] if current and current[0] in replicas else replicas[0]
