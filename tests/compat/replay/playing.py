"""Plays many cases at a time: most of them wait most of the time."""

import asyncio
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tests.compat.replay.cluster import Cluster
from tests.compat.replay.oddities import OddityPlayer
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


async def play_all(
    cases: Iterable[Case], cluster: Cluster, odd_player: type[Player] = OddityPlayer
) -> dict[str, Outcome]:
    """All of them, and how each went. Informative ones are played by `odd_player`.

    When a topic goes, Kafka's coordinators also let go of empty groups, which other cases look at. So cases that
    delete topics are played first.
    """
    players = {case.name: (odd_player if case.is_informative else Player)(case, cluster) for case in cases}
    deleting = {name: player for name, player in players.items() if player.case.deletes_topics}
    others = {name: player for name, player in players.items() if name not in deleting}
    return await _play_round(deleting) | await _play_round(others)


async def _play_round(players: dict[str, Player]) -> dict[str, Outcome]:
    turns = asyncio.Semaphore(AT_A_TIME)

    async def play(player: Player) -> Outcome:
        async with turns:
            return await play_one(player)

    outcomes = await asyncio.gather(*map(play, players.values()))
    return dict(zip(players, outcomes, strict=True))


async def play_one(player: Player) -> Outcome:
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
