"""Fetching from one leader all that is followed there: a request at a time, as a session.

A request names only what has changed since the last one, and the answer only what has news, so that a broker with
thousands of quiet partitions exchanges next to nothing. Where a partition comes to be followed while the leader has
nothing to say, a second request goes out, upon which the leader answers the first.

What has come is written and taken over before the next request goes out: it says that we have it. With `fsync` it has
to be on disk by then. After every wait a partition may have got another leader; whatever came for it then is thrown
away.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final, NamedTuple

from minikafka.broker.context import Context
from minikafka.broker.network.net import Net
from minikafka.broker.network.peer import Asked, Peer, PeerGone
from minikafka.broker.replication.controller_link import inter_broker_address
from minikafka.broker.replication.ends import EARLIEST, LATEST, ask_offset
from minikafka.broker.replication.following import CannotFollow, Following
from minikafka.protocol.errors import CorruptRecord, ErrorCode, KafkaError
from minikafka.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from minikafka.storage.durability import Durability

log: Final = logging.getLogger(__name__)

FETCH_VERSION: Final = 17
_SESSION_EPOCH_MAX: Final = (1 << 31) - 1
_DELAY_MS: Final = 10
_DOUBLINGS_MAX: Final = 16

# The leader is behind, or we are: the controller is about to tell one of us.
_LATER: Final = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)

Key = tuple[bytes, int]


class _Session(NamedTuple):
    """What the leader remembers of us."""

    id: int = 0
    epoch: int = 0


class _Sent(NamedTuple):
    """A request on its way."""

    number: int
    asked: Asked


class Fetcher:
    """See the module's description."""

    def __init__(self, leader_id: int, context: Context, net: Net) -> None:
        self.leader_id = leader_id
        self._context = context
        self._net = net
        self._peer: Peer | None = None
        self._session = _Session()
        self._broker_epoch = -1
        self._number = 0
        self._followed: dict[Key, Following] = {}
        # What the next request has to look at, what it has to leave out for a while, and what the leader's session
        # still has and nobody wants any more. All others it has as they are.
        self._stale: dict[Key, None] = {}
        self._delayed: dict[Key, int] = {}
        self._forgotten: dict[Key, None] = {}
        # Where what we have has to be on disk before the leader hears of it, and is not known to be.
        self._is_strict = context.partitions.flusher.durability is Durability.FSYNC
        self._unsynced: dict[Key, Following] = {}
        self._news = asyncio.Event()
        self._interruptible: Asked | None = None

    @property
    def is_idle(self) -> bool:
        return not self._followed

    @property
    def followed(self) -> list[Following]:
        return list(self._followed.values())

    def add(self, following: Following) -> None:
        key = following.key
        self._forgotten.pop(key, None)
        self._delayed.pop(key, None)
        self._followed[key] = following
        self._stale[key] = None
        if self._is_strict and not following.is_on_disk:
            self._unsynced[key] = following
        self._on_news()

    def _on_news(self) -> None:
        self._news.set()
        if self._interruptible is not None:
            self._interruptible.interrupt()

    def remove(self, following: Following) -> None:
        key = following.key
        if self._followed.get(key) is following:
            del self._followed[key]
            self._leave_out(key)

    def _leave_out(self, key: Key) -> None:
        self._stale.pop(key, None)
        self._delayed.pop(key, None)
        self._forgotten[key] = None

    async def run(self) -> None:
        """Fetch until cancelled."""
        try:
            while True:
                try:
                    await self._round()
                except PeerGone as error:
                    log.info("broker %d cannot be fetched from: %s", self.leader_id, error)
                    self._reset()
                    await self._back_off()
        finally:
            self._reset()

    def _reset(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.close()
        self._begin_session()

    def _begin_session(self) -> None:
        """What the leader knows of the last one does not count any more, if it knows of it at all."""
        self._session = _Session()
        self._forgotten.clear()

    async def _back_off(self) -> None:
        """Pause, but not when something has come to be followed there: then its leader is back."""
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._context.config.broker.replica_fetch_backoff_ms / 1000):
                await self._news.wait()

    # ------------------------------------------------------------------------------------------------- asking

    async def _round(self) -> None:
        self._take_up_delayed()
        if len(self._delayed) == len(self._followed):
            self._news.clear()
            await self._news.wait()
            return
        if self._unsynced:
            await self._sync()
        peer = await self._connected()
        await self._tell_who_we_are()
        await self._exchange(peer)

    async def _tell_who_we_are(self) -> None:
        """Name everything once in each of our registrations: the leader lets in only whom it knows to be alive."""
        broker_epoch = await self._context.membership.wait_registered()
        if broker_epoch != self._broker_epoch:
            self._broker_epoch = broker_epoch
            self._begin_session()

    def _take_up_delayed(self) -> None:
        now_ms = self._context.clock.monotonic_ms()
        for key in [key for key, until_ms in self._delayed.items() if until_ms <= now_ms]:
            del self._delayed[key]
            # Or one request would both name it and have the leader forget it.
            self._forgotten.pop(key, None)
            self._stale[key] = None

    def _hold_back(self) -> None:
        """Leave out for a while what is throttled and not in sync, if more than enough has come of late."""
        throttle = self._context.partitions.follower_throttle
        wait_ms = throttle.wait_ms
        if wait_ms:
            named = self._stale if self._session.id else self._followed.keys() - self._delayed.keys()
            for following in [self._followed[key] for key in named]:
                if following.is_behind and throttle.holds(following.partition):
                    self._pause(following, wait_ms)

    async def _exchange(self, peer: Peer) -> None:
        """One request and its answer, or more if there is news."""
        asking = [self._send(peer)]
        try:
            while asking:
                answer = await self._answer(asking[0])
                if answer is None:
                    asking.append(self._send(peer))
                    continue
                sent = asking.pop(0)
                if answer.error_code:
                    log.info("broker %d: a new session, %s", self.leader_id, ErrorCode(answer.error_code).name)
                    self._begin_session()
                    return
                if answer.session_id != self._session.id:
                    # The leader has opened one, or has closed one that was empty.
                    self._session = _Session(answer.session_id, 1)
                await self._take_all(answer, sent.number)
        finally:
            for each in asking:
                each.asked.give_up()

    async def _answer(self, sent: _Sent) -> FetchResponse | None:
        """None if there is another partition to follow before the leader has anything to say."""
        asked = sent.asked
        if self._session.id and sent.number == self._number:
            if self._news.is_set():
                return None
            self._interruptible = asked
        try:
            answer: FetchResponse | None = await asked.answer
            return answer
        finally:
            self._interruptible = None

    def _send(self, peer: Peer) -> _Sent:
        self._news.clear()
        self._take_up_delayed()
        self._hold_back()
        self._number += 1
        request = self._request()
        if self._session.id:
            self._session = _Session(self._session.id, self._session.epoch % _SESSION_EPOCH_MAX + 1)
        return _Sent(self._number, peer.send(request, FETCH_VERSION))

    def _request(self) -> FetchRequest:
        config = self._context.config.broker
        topics: dict[bytes, FetchTopic] = {}
        is_full = self._session.id == 0
        if is_full:
            self._session = _Session()
        named = [each for each in self._followed if each not in self._delayed] if is_full else list(self._stale)
        self._stale.clear()
        for key in named:
            if key in self._unsynced:
                self._stale[key] = None
                continue
            following = self._followed[key]
            wanted = following.wanted(config.replica_fetch_max_bytes)
            if is_full or following.asked is None or not _is_same(wanted, following.asked):
                following.asked, following.asked_in = wanted, self._number
                topics.setdefault(key[0], FetchTopic(topic_id=key[0], partitions=[])).partitions.append(wanted)
        forgotten: dict[bytes, ForgottenTopic] = {}
        for topic_id, index in self._forgotten:
            forgotten.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[])).partitions.append(index)
        self._forgotten.clear()
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self._context.broker_id, replica_epoch=self._broker_epoch),
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=self._session.id,
            session_epoch=self._session.epoch,
            topics=list(topics.values()),
            forgotten_topics_data=[] if is_full else list(forgotten.values()),
        )

    async def _connected(self) -> Peer:
        if self._peer is None or not self._peer.is_open:
            # The leader may have been restarted since.
            self._begin_session()
            config = self._context.config.broker
            metadata = self._context.metadata
            # After a start we hear of our roles before we hear of the other brokers.
            backoff_seconds = config.replica_fetch_backoff_ms / 1000
            if not await metadata.wait_until(lambda: self.leader_id in metadata.brokers, backoff_seconds):
                raise PeerGone(f"broker {self.leader_id} is not alive")
            broker = metadata.brokers[self.leader_id]
            host, port = inter_broker_address(broker, config)
            timeout_seconds = config.replica_socket_timeout_ms / 1000
            client_id = f"follower-{self._context.broker_id}"
            self._peer = await Peer.connect(self._net, host, port, client_id=client_id, timeout_seconds=timeout_seconds)
        return self._peer

    # ------------------------------------------------------------------------------------------------- taking

    async def _take_all(self, answer: FetchResponse, number: int) -> None:
        for topic in answer.responses:
            for part in topic.partitions:
                key = (topic.topic_id, part.partition_index)
                following = self._followed.get(key)
                if following is None or not following.is_current or following.asked is None:
                    continue
                if following.asked_in > number:
                    # This is about what it was before: another epoch of the leader.
                    continue
                self._stale[key] = None
                try:
                    if await self._take(following, following.asked, part) and self._is_strict:
                        self._unsynced[key] = following
                except CannotFollow as error:
                    log.error("%s; it is not followed any more", error)
                    following.is_failed = True
                    self.remove(following)
                except (CorruptRecord, KafkaError) as error:
                    log.warning("%s: what broker %d sent is not taken, %s", following.partition, self.leader_id, error)
                    self._delay(following)
        if self._unsynced:
            await self._sync()

    async def _take(self, following: Following, asked: FetchPartition, part: FetchablePartitionResponse) -> bool:
        """Whether something was written."""
        partition = following.partition
        if part.error_code:
            await self._on_error(following, part.error_code)
            return False
        if part.diverging_epoch is not None:
            await following.cut_at(part.diverging_epoch)
            return False
        if asked.fetch_offset != partition.log.log_end_offset:
            return False
        if part.records:
            await following.begin_earlier(part.records)
        has_written = bool(part.records) and partition.append_fetched(part.records or b"", following.leader_epoch)
        following.failures = 0
        following.leader_high_watermark = part.high_watermark
        throttle = self._context.partitions.follower_throttle
        if has_written and throttle.holds(partition):
            throttle.record(len(part.records or b""))
        if following.is_current:
            partition.follow_offsets(part.high_watermark, part.log_start_offset)
        return has_written

    async def _on_error(self, following: Following, code: int) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._on_out_of_range(following)
        elif code == ErrorCode.FENCED_LEADER_EPOCH:
            # There is a newer epoch, which the controller will tell us.
            self.remove(following)
        else:
            if code not in _LATER:
                log.warning("%s: broker %d says %s", following.partition, self.leader_id, ErrorCode(code).name)
            self._delay(following)

    def _delay(self, following: Following) -> None:
        """Leave it out of the requests for a while, longer each time: mostly somebody has not been told yet."""
        if self._followed.get(following.key) is not following:
            # It was given up while the leader was asked about it.
            return
        delay_ms = min(_DELAY_MS << following.failures, self._context.config.broker.replica_fetch_backoff_ms)
        following.failures = min(following.failures + 1, _DOUBLINGS_MAX)
        self._pause(following, delay_ms)

    def _pause(self, following: Following, delay_ms: int) -> None:
        following.asked = None
        self._leave_out(following.key)
        self._delayed[following.key] = self._context.clock.monotonic_ms() + delay_ms
        # A little later than that, so that its time has surely come.
        asyncio.get_running_loop().call_later((delay_ms + 1) / 1000, self._on_news)

    async def _on_out_of_range(self, following: Following) -> None:
        """Our log ends after the leader's, or before its start."""
        end_offset = await ask_offset(await self._connected(), following, LATEST)
        if end_offset is not None and following.is_current:
            if end_offset < following.partition.log.log_end_offset:
                await following.cut_to_end(end_offset)
                return
            start_offset = await ask_offset(await self._connected(), following, EARLIEST)
            if start_offset is not None and following.is_current:
                if start_offset > following.partition.log.log_end_offset:
                    following.start_over_at(start_offset)
                return
        self._delay(following)

    async def _sync(self) -> None:
        flusher = self._context.partitions.flusher
        logs = [each.partition.log for each in self._unsynced.values() if each.is_current]
        await asyncio.gather(*(flusher.wait_synced(each, each.log_end_offset) for each in logs))
        for key, each in list(self._unsynced.items()):
            if not each.is_current or each.is_on_disk:
                del self._unsynced[key]


def _is_same(wanted: FetchPartition, asked: FetchPartition) -> bool:
    return (
        wanted.fetch_offset == asked.fetch_offset
        and wanted.current_leader_epoch == asked.current_leader_epoch
        and wanted.last_fetched_epoch == asked.last_fetched_epoch
        and wanted.log_start_offset == asked.log_start_offset
    )
