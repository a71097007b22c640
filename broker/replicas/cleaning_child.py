"""The process that compacts logs for a broker: plans on stdin, what came of them on stdout, see `cleaning_wire`.

It ends when the broker closes the pipe, and with the broker however that ends. Whatever it was writing then counts for
nothing and is removed before the log is cleaned the next time. It runs at low priority and imports no more than it
needs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO, Final

from minikafka.broker.replicas.cleaning_wire import LENGTH, Message, decode, encode, group_message, read_plan
from minikafka.storage.cleaning import CompactionStopped, Uncleanable, clean
from minikafka.storage.disk import Disk, RealDisk
from minikafka.storage.errors import CorruptLog, StorageError

NICENESS: Final = 10

_PR_SET_PDEATHSIG: Final = 1


def main(broker_pid: int, source: BinaryIO, sink: BinaryIO) -> None:
    """Clean one log after the other until there is nobody left to do it for."""
    _settle(broker_pid)
    disk = RealDisk()
    while (message := _read(source)) is not None:
        for answer in _answers(disk, message):
            sink.write(encode(answer))
            sink.flush()
            if "group" in answer and _read(source) is None:
                return


def _settle(broker_pid: int) -> None:
    # Ctrl-C goes to the whole group, and it is the broker's matter to stop this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    # In the middle of a group nobody looks at the pipe. Elsewhere than on Linux it is looked at after the group.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != broker_pid:
        sys.exit("the broker is gone")


def _read(source: BinaryIO) -> Message | None:
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    return decode(source.read(LENGTH.unpack(head)[0]))


def _answers(disk: Disk, message: Message) -> Iterator[Message]:
    try:
        for group in clean(disk, read_plan(message)):
            yield group_message(group)
    except CompactionStopped as error:
        yield {"error": "stopped", "text": str(error)}
    except Uncleanable as error:
        yield {"error": "uncleanable", "text": str(error)}
    except CorruptLog as error:
        yield {"error": "corrupt", "text": error.reason, "path": error.path, "position": error.position}
    except StorageError as error:
        yield {"error": "storage", "text": str(error)}
    else:
        yield {"done": True}


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
