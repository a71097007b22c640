"""Plays many cases at a time: most of them wait most of the time."""

import asyncio
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tests.compat.replay.cluster import Cluster
from tests.compat.replay.player import Mismatch, Player
from tests.compat.replay.recording import Case

AT_A_TIME: Final = 16


@dataclass(frozen=True)
class Outcome:
    """`trouble` is empty if all answers were the recorded ones."""

    trouble: str
    seconds: float
    retries: list[str]
    steps_left_out: int


async def play_all(cases: Iterable[Case], cluster: Cluster) -> dict[str, Outcome]:
    """All of them, and how each went.

    When a topic goes, Kafka's coordinators also let go of empty groups, which other cases look at. So cases that
    delete topics are played first.
    """
    rounds: dict[bool, list[Case]] = {True: [], False: []}
    for case in cases:
        rounds[case.deletes_topics].append(case)
    return await _play_round(rounds[True], cluster) | await _play_round(rounds[False], cluster)


async def _play_round(cases: list[Case], cluster: Cluster) -> dict[str, Outcome]:
    turns = asyncio.Semaphore(AT_A_TIME)
    outcomes: dict[str, Outcome] = {}

    async def play(case: Case) -> None:
        async with turns:
            outcomes[case.name] = await play_one(case, cluster)

    async with asyncio.TaskGroup() as group:
        for case in cases:
            group.create_task(play(case))
    return outcomes


async def play_one(case: Case, cluster: Cluster) -> Outcome:
    player = Player(case, cluster)
    began = time.monotonic()
    trouble = ""
    try:
        await player.play()
    except Mismatch as mismatch:
        trouble = str(mismatch)
    except Exception:
        # Whatever else a broker's answer leads to is this case's trouble and must not end the others.
        trouble = traceback.format_exc()
    return Outcome(trouble, time.monotonic() - began, player.retries, player.steps_left_out)
