"""One session with ZooKeeper, by kazoo: how it begins and ends, and how one request gets its answer.

Kazoo reads and writes on a thread of its own and opens a new session by itself when one is over. Two rules keep that
from being felt:
- What happens over there is posted to the loop in its order, and the loop knows nothing else. When the connection
  goes, everything in flight fails; requests that kazoo still holds may be sent later, but before any later one.
- An operation is sent only if kazoo is in the session that the loop knows of. So nothing is done in a new session
  before everybody has heard that the old one is over.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry

from minikafka.broker.zookeeper.coord import (
    AuthFailed,
    BadVersion,
    ConnectionLoss,
    CoordError,
    NoAuth,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Session,
    SessionExpired,
    SessionState,
    Unreachable,
    insist,
)
from minikafka.broker.zookeeper.session_desk import SessionDesk
from minikafka.broker.zookeeper.zk_handler import Handler

log: Final = logging.getLogger(__name__)

IN_FLIGHT_MAX: Final = 128
"""Well below the number of requests at which waking kazoo's thread runs out of room (see `zk_handler`): a limit."""

_CLOSE_SECONDS: Final = 2.0
_REVIVE_SECONDS: Final = 1.0

_STATES: Final = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}

# By ZooKeeper's number. Every error that leaves the outcome open is a ConnectionLoss, whatever it is called there.
_ERRORS: Final[dict[int, type[CoordError]]] = {
    -4: ConnectionLoss,
    -7: ConnectionLoss,  # operation timeout
    -101: NoNode,
    -102: NoAuth,
    -103: BadVersion,
    -108: NoChildrenForEphemerals,
    -110: NodeExists,
    -111: NotEmpty,
    -112: SessionExpired,
    -115: AuthFailed,
    -118: ConnectionLoss,  # session moved to another server
    -122: ConnectionLoss,  # request timeout
    -124: AuthFailed,  # session closed for lack of SASL
}

Send: TypeAlias = Callable[[Any], Any]
"""Given a kazoo client, sends a request by it and returns kazoo's promise of an answer."""


@dataclass(frozen=True, slots=True)
class ZkSecurity:
    """Who we are, and how the connection is protected. TLS is used if there is a file with trusted certificates."""

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    # Scheme and credentials, such as "digest" and "user:password".
    auth: Sequence[tuple[str, str]] = field(default=(), repr=False)
    # As pure-sasl takes them: mechanism, username, password.
    sasl: Mapping[str, str] | None = field(default=None, repr=False)

    def options(self) -> dict[str, Any]:
        """The same in kazoo's words."""
        if self.sasl is not None and importlib.util.find_spec("puresasl") is None:
            raise AuthFailed("to log in to ZooKeeper by SASL, install the package pure-sasl")
        return {
            "use_ssl": self.ca_file is not None,
            "ca": self.ca_file,
            "certfile": self.certificate_file,
            "keyfile": self.key_file,
            "keyfile_password": self.key_password,
            "check_hostname": self.ca_file is not None and self.check_hostname,
            "auth_data": list(self.auth),
            "sasl_options": None if self.sasl is None else dict(self.sasl),
        }


class ZkLink(SessionDesk):
    """See the module's description; `zk.ZkCoord` is one."""

    def __init__(
        self, hosts: Sequence[str], session_timeout_ms: int, security: ZkSecurity | None, in_flight_max: int
    ) -> None:
        super().__init__()
        self._hosts = hosts
        self._session_seconds = session_timeout_ms / 1000
        self._security = security or ZkSecurity()
        self._slots = asyncio.Semaphore(min(in_flight_max, IN_FLIGHT_MAX))
        self._in_flight: dict[Any, asyncio.Future[Any]] = {}
        self._handler = Handler(self._is_hanging)
        self._client = self._new_client()
        self._is_started = False
        self._is_closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._revival: asyncio.Task[None] | None = None
        # The loop is alive as long as this goes on.
        self._beat: asyncio.TimerHandle | None = None
        self._beat_seconds = 0.0

    def _new_client(self) -> Any:
        client = KazooClient(
            ",".join(self._hosts),
            timeout=self._session_seconds,
            handler=self._handler,
            connection_retry=KazooRetry(max_tries=-1, delay=0.01, backoff=2, max_delay=1.0),
            # Whether an operation may be repeated is for the caller to know.
            command_retry=KazooRetry(max_tries=0),
            logger=_kazoo_log(),
            **self._security.options(),
        )
        client.add_listener(partial(self._on_state, client))
        return client

    # Life

    async def start(self, timeout_seconds: float = 18.0) -> None:
        """Open a session and prove it by a round trip: kazoo calls itself connected before it has authenticated."""
        self._loop = asyncio.get_running_loop()
        self._keep_beating()
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._aside(self._client.start_async)
                await self.connected()
                await insist(self, self.prove)
        except BaseException as error:
            await self.close()
            if isinstance(error, TimeoutError):
                raise Unreachable(self._why_unreachable(timeout_seconds)) from None
            raise
        self._is_started = True

    async def prove(self) -> None:
        """Ask for something that only a session can answer."""
        await self.ask("/", lambda client: client.exists_async("/"))

    def _why_unreachable(self, seconds: float) -> str:
        attempts = self._handler.attempts
        each = [f"{host} ({attempts.get(host, 'its name cannot be resolved')})" for host in self._hosts]
        return f"no ZooKeeper within {seconds:g} s at {', '.join(each)}"

    async def close(self) -> None:
        self.end_closed()
        if self._is_closing:
            return
        self._is_closing = True
        if self._beat is not None:
            self._beat.cancel()
        if self._revival is not None:
            self._revival.cancel()
        self._fail_in_flight()
        stopping = asyncio.ensure_future(self._aside(partial(_stop, self._client)))
        await asyncio.wait([stopping], timeout=_CLOSE_SECONDS)
        if not stopping.done():
            # The server does not answer, and kazoo would wait for it as long as a session lasts.
            log.warning("ZooKeeper did not confirm the end of the session within %g s", _CLOSE_SECONDS)
            self._handler.hang_up()
            await asyncio.wait([stopping], timeout=_CLOSE_SECONDS)
        if not stopping.cancel() and (error := stopping.exception()) is not None:
            log.warning("kazoo could not be closed", exc_info=error)

    async def _aside(self, call: Callable[[], object]) -> None:
        """Wait for a blocking call on a thread of its own: one that is given up must not hold up the process."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def settle(error: Exception | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        def run() -> None:
            try:
                call()
            except Exception as error:
                _post(loop, settle, error)
            else:
                _post(loop, settle, None)

        threading.Thread(target=run, name="zookeeper-aside", daemon=True).start()
        await done

    # The session

    def _on_state(self, client: Any, state: str) -> None:
        """On kazoo's thread."""
        session_id = 0 if client.client_id is None else client.client_id[0]
        self.post(self._hear, client, _STATES[state], session_id, client.client_state)

    def _hear(self, client: Any, state: SessionState, session_id: int, detail: str) -> None:
        if client is not self._client or self._end is not None:
            return
        if state is not SessionState.CONNECTED:
            session_id = self._session.id
            self._fail_in_flight()
        log.log(
            logging.INFO if state is SessionState.CONNECTED else logging.WARNING,
            "ZooKeeper session %#x is %s",
            session_id & (1 << 64) - 1,
            state.value,
        )
        if detail == KeeperState.AUTH_FAILED and not self._is_started:
            self.end(AuthFailed(f"ZooKeeper at {', '.join(self._hosts)} refuses our credentials"))
            return
        self.announce(Session(state, session_id))
        if state is SessionState.LOST and detail in (KeeperState.AUTH_FAILED, KeeperState.CLOSED):
            # Kazoo has given up for good. What made it do so may pass, so we do not.
            log.error("the ZooKeeper client stopped (%s); trying again every %g s", detail, _REVIVE_SECONDS)
            self._revival = asyncio.get_running_loop().create_task(self._revive())

    async def _revive(self) -> None:
        await asyncio.sleep(_REVIVE_SECONDS)
        # Not the old client again: it still holds a request to close, and would send it in its next session.
        old, self._client = self._client, self._new_client()
        await self._aside(partial(_stop, old))
        await self._aside(self._client.start_async)

    def _keep_beating(self) -> None:
        self._beat_seconds = time.monotonic()
        assert self._loop is not None
        self._beat = self._loop.call_later(self._session_seconds / 4, self._keep_beating)

    def _is_hanging(self) -> bool:
        """On kazoo's thread."""
        return time.monotonic() - self._beat_seconds > self._session_seconds

    # One operation

    def post(self, call: Callable[..., object], *args: object) -> None:
        """On any thread: have the loop call this."""
        if self._loop is not None:
            _post(self._loop, call, *args)

    async def ask(self, path: str, send: Send) -> Any:
        """What kazoo answers; the path is for messages."""
        await self._slots.acquire()
        try:
            self.require_session()
            session = self._client.client_id
            if session is not None and session[0] != self._session.id:
                raise SessionExpired(f"{path}: the next session has begun already")
            result = send(self._client)
        except BaseException:
            self._slots.release()
            raise
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._in_flight[result] = answer
        result.rawlink(partial(self.post, self._settle, path))
        return await answer

    def _settle(self, path: str, result: Any) -> None:
        # Kazoo may settle a request a second time when it is closed in between.
        answer = self._in_flight.pop(result, None)
        if answer is None:
            return
        self._slots.release()
        if not answer.done():
            if result.exception is None:
                answer.set_result(result.value)
            else:
                answer.set_exception(translate(result.exception, path))

    def _fail_in_flight(self) -> None:
        """The slots stay taken until kazoo has let go of the requests."""
        for answer in list(self._in_flight.values()):
            if not answer.done():
                answer.set_exception(ConnectionLoss("the connection to ZooKeeper was lost before the answer came"))


def _kazoo_log() -> logging.Logger:
    """Kazoo reports every attempt to connect; the session's states, which we log, say enough."""
    logger = log.getChild("kazoo")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)
    return logger


def _stop(client: Any) -> None:
    client.stop()
    client.close()


def _post(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: object) -> None:
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        # The loop is closed: nobody is there to hear.
        return


def translate(error: BaseException, path: str) -> CoordError:
    """Kazoo's error as one of ours. One without a number is kazoo's own trouble with the connection."""
    ours = _ERRORS.get(getattr(error, "code", -4))
    return ours(path) if ours is not None else CoordError(f"{path}: {type(error).__name__} {error}".rstrip())
