"""One broker as a process: from the command's arguments to an exit code.

    0   stopped when it was told to
    1   something it needs is not there, or has failed
    2   the configuration is wrong, or names what belongs to another broker

The first SIGTERM, SIGINT or SIGHUP stops it in good order, a second SIGTERM or SIGINT at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, NamedTuple

from minikafka.broker.allocator import keep_freed_memory
from minikafka.broker.clock import SystemClock
from minikafka.broker.config.broker import BrokerConfig
from minikafka.broker.config.errors import ConfigError
from minikafka.broker.config.load import load
from minikafka.broker.fd_limit import fd_shortage, raise_fd_limit
from minikafka.broker.http import HttpServer
from minikafka.broker.lifeline import Lifeline
from minikafka.broker.logs import Format, set_up
from minikafka.broker.network.net import TcpNet
from minikafka.broker.node import Broker, BrokerFault
from minikafka.broker.pages import Pages
from minikafka.broker.watchdog import Watchdog, collections_counted
from minikafka.broker.work import LoopWork
from minikafka.broker.zookeeper.coord import CoordError
from minikafka.broker.zookeeper.registration import DuplicateBroker
from minikafka.storage.dir_identity import NotOurs
from minikafka.storage.errors import StorageError

log: Final = logging.getLogger(__name__)

FAILED: Final = 1
MISCONFIGURED: Final = 2

_LOOK_SECONDS: Final = 0.5

# Requests make little garbage that needs the collector, so it may look for it more rarely.
_COLLECT_AFTER: Final = (10_000, 20, 20)


class Arguments(NamedTuple):
    """Of `minikafka broker`."""

    path: str | None
    sets: Sequence[str]
    log_level: str
    log_format: Format


def run(arguments: Arguments) -> int:
    """Be a broker until told to stop; returns the exit code."""
    writer = set_up(arguments.log_level, arguments.log_format)
    lifeline = Lifeline.of_environment(os.environ)
    try:
        loaded = load(arguments.path, os.environ, arguments.sets)
        for warning in loaded.warnings:
            log.warning("%s", warning)
        fd_limit = raise_fd_limit()
        keep_freed_memory()
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(loaded.config, lifeline, fd_limit))
        return 0
    except (ConfigError, NotOurs, DuplicateBroker) as error:
        return _fail(str(error), MISCONFIGURED, arguments.log_format, lifeline)
    except (CoordError, StorageError, OSError, BrokerFault) as error:
        return _fail(str(error), FAILED, arguments.log_format, lifeline)
    finally:
        writer.close()


def _fail(reason: str, code: int, form: Format, lifeline: Lifeline | None) -> int:
    """Say why in one line, to whoever started us."""
    line = " ".join(reason.split())
    if lifeline is not None:
        lifeline.tell(failed=line, code=code)
    elif form == "json":
        log.critical("%s", line)
    else:
        print(f"minikafka broker: {line}", file=sys.stderr)
    return code


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


async def _serve(config: BrokerConfig, lifeline: Lifeline | None, fd_limit: int) -> None:
    told = _stop_on_signals()
    if lifeline is not None:
        lifeline.watch(told.set)
    broker = Broker(config, fd_limit=fd_limit)
    with collections_counted(broker.statistics.loop):
        async with _observed(broker, config) as pages:
            if not await _start(broker, told, 1 if lifeline is None else lifeline.brokers):
                return
            # What is there now stays, so the collector need not look through it again and again.
            gc.freeze()
            gc.set_threshold(*_COLLECT_AFTER)
            if lifeline is not None:
                lifeline.tell(ready=True)
            _warn_of_shortage(broker, fd_limit)
            try:
                await _until_told(broker, told)
                log.info("stopping")
            finally:
                pages.is_stopping = True
                await broker.stop()


@contextlib.asynccontextmanager
async def _observed(broker: Broker, config: BrokerConfig) -> AsyncIterator[Pages]:
    """The watchdog and the HTTP port, which are there from before the broker starts until after it has stopped."""
    work = LoopWork()
    watchdog = Watchdog(SystemClock(), broker.statistics)
    pages = Pages(broker, watchdog.recent, work)
    http = HttpServer(pages.table(), TcpNet(), work)
    try:
        work.spawn(watchdog.run(), "watchdog")
        if config.minikafka_http_port >= 0:
            host = config.listeners[0].host
            port = await http.start(host, config.minikafka_http_port)
            log.info("health and metrics are at http://%s:%d", host or "*", port)
        yield pages
    finally:
        http.stop()
        await work.stop()


async def _start(broker: Broker, told: asyncio.Event, brokers: int) -> bool:
    """Whether it came up; it does not if it is told to stop before."""

    async def start() -> None:
        await broker.start()
        try:
            await broker.metadata.wait_until(lambda: len(broker.metadata.brokers) >= brokers)
        except asyncio.CancelledError:
            await broker.stop()
            raise

    starting = asyncio.ensure_future(start())
    waiting = asyncio.ensure_future(told.wait())
    await asyncio.wait([starting, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if starting.done():
        starting.result()
        return True
    log.info("stopping before it was ready")
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    return False


async def _until_told(broker: Broker, told: asyncio.Event) -> None:
    """Until told to stop; BrokerFault if it cannot go on, StorageError if it has no disk left, as in Kafka."""
    assert broker.context is not None
    log_dirs = broker.context.partitions.log_dirs
    while not told.is_set():
        broker.check()
        if not log_dirs.online:
            raise StorageError("no log directory is left: " + "; ".join(each.failure or "" for each in log_dirs.dirs))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(told.wait(), _LOOK_SECONDS)


def _warn_of_shortage(broker: Broker, fd_limit: int) -> None:
    assert broker.context is not None
    segments = sum(len(each.log.segments) for each in broker.context.partitions.all.values())
    shortage = fd_shortage(fd_limit, broker.config.broker.max_connections, segments)
    if shortage is not None:
        log.warning("%s", shortage)


def _stop_on_signals() -> asyncio.Event:
    """Set by the first signal; a second SIGTERM or SIGINT has the effect it would have on any program.

    A terminal that is closed may send SIGHUP twice, so that one insists on nothing. Under nohup it is ignored and stays
    so, as in Kafka's JVM.
    """
    told = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        if told.is_set() and number != signal.SIGHUP:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        told.set()

    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
    return told
