"""Who is the controller, and how its writes stay those of one controller at a time.

One transaction makes the ephemeral `/controller` and raises `/controller_epoch`, so every controller has an epoch of
its own and no epoch has two. Every later write of a controller checks, in the same transaction, that the epoch's node
still has the version that its own election gave it. A controller that was replaced without having noticed can
therefore change nothing, in whatever session it asks.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from minikafka.broker.zookeeper.coord import (
    Check,
    Coord,
    CoordError,
    Create,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    OpResult,
    Set,
    Stat,
    Waker,
    insist,
)
from minikafka.broker.zookeeper.znodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    decode_controller,
    decode_epoch,
    encode_controller,
    encode_epoch,
)

log: Final = logging.getLogger(__name__)

_NO_EPOCH: Final = 0


class ControllerFenced(CoordError):
    """Another controller was elected since; nothing was written."""


class Controllership(NamedTuple):
    """What the winner of an election holds: its epoch, and the version that the epoch's node has because of it."""

    epoch: int
    epoch_version: int


async def elect(coord: Coord, broker_id: int, now_ms: int) -> Controllership | None:
    """Become the controller; None if another broker is, or was elected just now."""
    return await insist(coord, lambda: _stand(coord, broker_id, now_ms))


async def _stand(coord: Coord, broker_id: int, now_ms: int) -> Controllership | None:
    before, stat = await _read_epoch(coord)
    epoch = before + 1
    try:
        await coord.multi(
            Create(CONTROLLER, encode_controller(broker_id, now_ms), ephemeral=True),
            Set(CONTROLLER_EPOCH, encode_epoch(epoch), stat.version),
        )
    except MultiFailed as failed:
        # It may be our own election that is in the way, won with the answer lost.
        won = await _claim(coord)
        log.info("broker %d is %s: %s", broker_id, "not elected" if won is None else "elected already", failed)
        return won
    log.info("broker %d is elected controller with epoch %d", broker_id, epoch)
    return Controllership(epoch, stat.version + 1)


async def _claim(coord: Coord) -> Controllership | None:
    """What we hold if `/controller` is of our session: the two nodes then were written by the same transaction."""
    controller = await coord.exists(CONTROLLER)
    epoch, stat = await _read_epoch(coord)
    if controller is None or controller.ephemeral_owner != coord.session.id or controller.czxid != stat.mzxid:
        return None
    return Controllership(epoch, stat.version)


async def _read_epoch(coord: Coord) -> tuple[int, Stat]:
    try:
        data, stat = await coord.get(CONTROLLER_EPOCH)
    except NoNode:
        try:
            return _NO_EPOCH, (await coord.create(CONTROLLER_EPOCH, encode_epoch(_NO_EPOCH))).stat
        except NodeExists:
            data, stat = await coord.get(CONTROLLER_EPOCH)
    return decode_epoch(data), stat


async def find_controller(coord: Coord, waker: Waker | None = None) -> int | None:
    """The broker id of the controller, None if there is none; the waker tells when to ask again."""
    try:
        data, _ = await coord.get(CONTROLLER, waker)
    except NoNode:
        return None
    return decode_controller(data)


async def write_fenced(coord: Coord, held: Controllership, *ops: Op) -> tuple[OpResult, ...]:
    """Do all of them as the controller, or none; ControllerFenced if we are not any more.

    A ConnectionLoss leaves open whether they were done: read before going on. MultiFailed counts from the first of
    `ops`. Many small writes are best sent in some dozens per call: that is ten times faster than one by one.
    """
    try:
        results = await coord.multi(Check(CONTROLLER_EPOCH, held.epoch_version), *ops)
    except MultiFailed as failed:
        if failed.index == 0:
            raise ControllerFenced(f"epoch {held.epoch} is not the controller's any more: {failed.cause!r}") from None
        raise MultiFailed(failed.index - 1, failed.op, failed.cause) from None
    return results[1:]


async def resign(coord: Coord, held: Controllership) -> None:
    """Give up being the controller, if we are, so that another broker can be elected at once."""
    try:
        await insist(coord, lambda: write_fenced(coord, held, Delete(CONTROLLER)))
    except ControllerFenced:
        return
    except MultiFailed as failed:
        if not isinstance(failed.cause, NoNode):
            raise
