"""The elected controller: one task that takes events in the order they come, and finishes each before the next.

Events are changes in ZooKeeper, requests of brokers and clients, and what brokers answered. An event changes states in
ZooKeeper first, then what is known here, then tells the brokers. What is decided depends on what holds at that time,
not on what has happened: the same event twice changes nothing, and a controller that finds things half done goes on
where they stand.

It ends when it finds that it is not the controller any more, or when it is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from minikafka.broker.controller import leader_election as election
from minikafka.broker.controller.channel import Heard, Sender
from minikafka.broker.controller.channels import Channels
from minikafka.broker.controller.deletion import Deletions
from minikafka.broker.controller.events import Events
from minikafka.broker.controller.features import Features
from minikafka.broker.controller.leaders import Leaders
from minikafka.broker.controller.loading import read_brokers, read_log_dir_events, read_topic_names, read_topics
from minikafka.broker.controller.reassignment import Reassignments
from minikafka.broker.controller.state import Cluster, Name, Partition
from minikafka.broker.controller.writer import Writer, chunks
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.network.net import Net
from minikafka.broker.statistics import ControllerStatistics
from minikafka.broker.work import Work
from minikafka.broker.zookeeper.coord import Coord, Waker
from minikafka.broker.zookeeper.election import ControllerFenced, Controllership
from minikafka.broker.zookeeper.topic_nodes import (
    DELETE_TOPICS,
    LOG_DIR_EVENTS,
    NO_LEADER,
    TOPICS,
    Assignment,
    StateNode,
    delete_topic_path,
    topic_path,
)
from minikafka.broker.zookeeper.znodes import BROKER_IDS
from minikafka.protocol.control import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from minikafka.protocol.errors import ErrorCode, KafkaError

log: Final = logging.getLogger(__name__)

_LET_GO_SECONDS: Final = 1.0
"""A broker that stops does not wait any longer for one that does not answer."""

_SERVING_SECONDS: Final = 1.0
"""How long the rest of the cluster may have to wait to hear of a new partition until its replicas are ready."""

_STARTED_AT_ONCE: Final = 200
"""Partitions whose first states are made in one turn of the loop: a few milliseconds."""

_BALANCE_SECONDS: Final = 5.0


class Controller:
    """See the module's description."""

    def __init__(
        self,
        broker_id: int,
        held: Controllership,
        coord: Coord,
        net: Net,
        work: Work,
        config: LiveConfig,
        statistics: ControllerStatistics,
    ) -> None:
        self.cluster = Cluster()
        self.cluster.min_isr = lambda topic: config.topic(topic).min_insync_replicas
        self.epoch = held.epoch
        self._work = work
        self._config = config
        self._coord = coord
        self._writer = Writer(coord, held)
        self._waker = Waker()
        self._events = Events(statistics)
        self._tasks: list[asyncio.Task[None]] = []
        sender = Sender(
            controller_id=broker_id,
            controller_epoch=held.epoch,
            cluster=self.cluster,
            net=net,
            listener=lambda: config.broker.inter_broker_listener_name,
            timeout_seconds=lambda: config.broker.controller_socket_timeout_ms / 1000,
            on_roles=lambda heard: self._events.post(partial(self._on_roles, heard)),
            on_stopped=lambda heard: self._events.post(partial(self._on_stopped, heard)),
            on_fenced=lambda: self._events.post(self._on_fenced),
        )
        self._channels = Channels(sender, work)
        self._leaders = Leaders(self.cluster, self._writer, self._channels, config, statistics)
        self._features = Features(self.cluster, self._writer)
        self._deletions = Deletions(self.cluster, self._writer, self._channels)
        self._reassignments = Reassignments(self.cluster, self._writer, self._channels, self._leaders)

    # ------------------------------------------------------------------------------------- asked from outside

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """A leader proposes another ISR."""
        return await self._events.ask(partial(self._alter_partition, request))

    async def _alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        answer = await self._leaders.alter(request)
        altered = [self.cluster.partition((each.topic, each.partition)) for each in answer.partitions]
        if any(each is not None and each.assignment.is_reassigned for each in altered):
            # New replicas may have caught up.
            self._events.post(self._reassignments.go_on)
        return answer

    async def controlled_shutdown(self, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
        """A broker is about to stop; it is let go when those who lead in its place know of it.

        It may be this very broker, and nobody would be told before there is another controller.
        """
        answer = await self._events.ask(partial(self._leaders.let_go, request))
        await self._channels.wait_told(_LET_GO_SECONDS)
        return answer

    async def elect(self, names: Iterable[Name] | None, *, unclean: bool) -> dict[Name, KafkaError | None]:
        """Elect leaders for partitions, all of them for None; for each what is wrong, None if it was done."""
        return await self._events.ask(partial(self._leaders.elect, names, unclean=unclean))

    async def reassign(self, wanted: Mapping[Name, Sequence[int] | None]) -> dict[Name, KafkaError]:
        """Move partitions to other replicas, or for None back; those that cannot be, and why."""
        return await self._events.ask(partial(self._reassignments.begin, wanted))

    async def reassignments(self) -> list[tuple[Name, Assignment]]:
        """What is being moved."""
        await self._events.ask(self._is_loaded)
        return [(each.name, each.assignment) for each in self._reassignments.under_way()]

    async def wait_deleted(self, topic: str) -> None:
        """Until a topic is gone with all its nodes, or is known to have to wait for a broker that is down."""
        # Its turn comes when everything is loaded.
        await self._events.ask(self._is_loaded)
        await self._deletions.wait_gone(topic)

    def has_topic(self, topic: str) -> bool:
        return topic in self.cluster.topics and not self.is_deleted(topic)

    def is_deleted(self, topic: str) -> bool:
        """Whether the deletion of a topic was asked for."""
        found = self.cluster.topics.get(topic)
        return found is not None and found.is_deleted

    def config_changed(self, topic: str | None) -> None:
        """A topic that may now be led by any replica need not wait any longer, nor one that needs fewer in sync."""
        concerned = (each for each in self.cluster.partitions() if topic in (None, each.topic.name))
        if any(each.leader == NO_LEADER or (each.state is not None and each.state.elr) for each in concerned):
            self._events.post(self._leaders.repair)

    # ------------------------------------------------------------------------------------------------ the task

    async def run(self) -> None:
        """Take over, then take events until it is over."""
        try:
            await self._take_over()
            self._tasks.append(self._work.spawn(self._listen(), "changes for the controller"))
            self._tasks.append(self._work.spawn(self._keep_balance(), "balance of leaders"))
            while True:
                await self._events.take()
        except ControllerFenced as over:
            log.info("not the controller any more: %s", over)
        finally:
            self._coord.forget(self._waker)
            self._channels.close()
            self._events.close()
            self._deletions.close()
            for task in self._tasks:
                task.cancel()

    async def _listen(self) -> None:
        while True:
            self._events.post(partial(self._on_changes, await self._waker.wait()))

    async def _keep_balance(self) -> None:
        """Now and then, and first when those that were restarted together are back."""
        seconds: float = _BALANCE_SECONDS
        while True:
            await asyncio.sleep(seconds)
            if self._config.broker.auto_leader_rebalance_enable:
                self._events.post(self._leaders.balance)
            seconds = max(1, self._config.broker.leader_imbalance_check_interval_seconds)

    async def _is_loaded(self) -> bool:
        return True

    async def _take_over(self) -> None:
        """Read everything, the wakers first, and bring it in order."""
        await self._writer.read(self._coord.sync)
        self.cluster.brokers = await read_brokers(self._writer, self._waker)
        names = await read_topic_names(self._writer, TOPICS, self._waker)
        await self._read_topics(names)
        await self._writer.adopt_states(self.cluster.partitions())
        log.info(
            "epoch %d: %d brokers, %d topics, %d partitions",
            *(self.epoch, len(self.cluster.brokers), len(self.cluster.topics), len(list(self.cluster.partitions()))),
        )
        await self._features.settle(self.cluster.brokers)
        await self._begin_deletions()
        await self._leaders.repair()
        await self._reassignments.resume()
        # Only now, so that every broker is told all at once and once.
        self._channels.follow_brokers()
        await self._start_partitions()
        await self._on_log_dirs()
        await self._reassignments.go_on()
        await self._deletions.go_on()

    # ----------------------------------------------------------------------------------- changes in ZooKeeper

    async def _on_changes(self, paths: list[str]) -> None:
        """Read again what has changed."""
        if any(path.startswith(BROKER_IDS) for path in paths):
            await self._on_brokers()
        if TOPICS in paths:
            await self._on_topics()
        if names := [path.removeprefix(f"{TOPICS}/") for path in paths if path.startswith(f"{TOPICS}/")]:
            await self._on_topic_nodes(names)
        if DELETE_TOPICS in paths:
            await self._begin_deletions()
            await self._deletions.go_on()
        if LOG_DIR_EVENTS in paths:
            await self._on_log_dirs()

    async def _on_brokers(self) -> None:
        """Brokers came and went. One that is there under another epoch did both, one after the other."""
        before, found = self.cluster.brokers, await read_brokers(self._writer, self._waker)
        if found == before:
            return
        gone = [each for each in before.values() if found.get(each.broker_id, each).epoch != each.epoch]
        gone += [each for each in before.values() if each.broker_id not in found]
        came = [each for each in found.values() if before.get(each.broker_id, each).epoch != each.epoch]
        came += [each for each in found.values() if each.broker_id not in before]
        log.info("brokers gone: %s, come: %s", [each.broker_id for each in gone], [each.broker_id for each in came])
        if gone:
            for each in gone:
                self.cluster.forget_broker(each.broker_id)
                self._deletions.on_broker_gone(each.broker_id)
            self._channels.follow_brokers()
            await self._leaders.repair()
        await self._features.settle(found)
        self.cluster.brokers = found
        self._channels.follow_brokers()
        self._channels.tell_metadata()
        if came:
            await self._leaders.repair()
            await self._start_partitions()
        await self._reassignments.go_on()
        await self._deletions.go_on()

    async def _on_topics(self) -> None:
        """Topics came and went."""
        names = await read_topic_names(self._writer, TOPICS, self._waker)
        gone = self.cluster.topics.keys() - set(names)
        for name in gone:
            self._coord.forget(self._waker, topic_path(name))
        self._forget_topics(gone)
        self.cluster.damaged &= set(names)
        await self._read_topics(name for name in names if name not in self.cluster.topics)
        await self._start_partitions()

    async def _on_topic_nodes(self, names: Iterable[str]) -> None:
        """Topics may have got more partitions, or a node that makes sense again."""
        await self._read_topics(name for name in names if name in self.cluster.topics or name in self.cluster.damaged)
        await self._start_partitions()

    async def _read_topics(self, names: Iterable[str]) -> None:
        """Take over what the nodes of topics say; what was known of one that makes no sense any more holds on."""
        for name, node, version in await read_topics(self._writer, self._waker, names):
            known = self.cluster.topics.get(name)
            if node is not None:
                if known is not None and known.topic_id != node.topic_id:
                    # A topic of this name, but another one: somebody else has removed the first.
                    self._forget_topics([name])
                self.cluster.put_topic(name, node, version)
                self.cluster.damaged.discard(name)
            elif known is None:
                self.cluster.damaged.add(name)

    def _forget_topics(self, names: Iterable[str]) -> None:
        gone = list(names)
        for name in gone:
            self.cluster.topics.pop(name)
            self._deletions.forget(name)
        if gone:
            self._channels.tell_metadata(deleted=gone)

    async def _begin_deletions(self) -> None:
        wanted = await read_topic_names(self._writer, DELETE_TOPICS, self._waker)
        if any(name not in self.cluster.topics for name in wanted):
            # It may have been made and unmade before we looked.
            await self._on_topics()
        is_allowed = self._config.broker.delete_topic_enable
        self._deletions.begin(
            self.cluster.topics[name] for name in wanted if is_allowed and name in self.cluster.topics
        )
        for name in wanted:
            if not is_allowed or name not in self.cluster.topics:
                await self._writer.delete_tree(delete_topic_path(name))

    async def _on_log_dirs(self) -> None:
        """Brokers that lost a directory are told all their roles, and answer which of them they cannot play."""
        events = await read_log_dir_events(self._writer, self._waker)
        for broker_id in events.brokers:
            self._channels.tell_roles_to(broker_id, self.cluster.partitions_on(broker_id))
        for path in events.paths:
            await self._writer.delete_tree(path)

    # -------------------------------------------------------------------------------------- answers of brokers

    async def _on_roles(self, heard: Heard) -> None:
        """A broker has taken its roles, but for those whose log directory failed."""
        broker = self.cluster.brokers.get(heard.broker_id)
        if broker is None or broker.epoch != heard.broker_epoch:
            return
        before = self.cluster.broken.get(heard.broker_id, set())
        broken = {name for name, code in heard.codes.items() if code == ErrorCode.KAFKA_STORAGE_ERROR}
        after = {name for name in before if heard.codes.get(name) != ErrorCode.NONE} | broken
        if after != before:
            log.warning("broker %d cannot use %d replicas", heard.broker_id, len(after))
            self.cluster.broken[heard.broker_id] = after
            await self._leaders.repair()

    async def _on_stopped(self, heard: Heard) -> None:
        self._deletions.on_stopped(heard)
        await self._deletions.go_on()

    async def _on_fenced(self) -> None:
        raise ControllerFenced(f"a broker knows a newer controller than epoch {self.epoch}")

    # ---------------------------------------------------------------------------------------------- partitions

    async def _start_partitions(self) -> None:
        """Give new partitions a leader, as far as they have a live replica.

        Some at a time: each write lets the loop get on with its other work. Replicas begin at once, and the cluster
        hears of all at the end, so that a new topic is seen with all its partitions.
        """
        new, started, heard = [each for each in self.cluster.partitions() if each.version < 0], [], []
        for some in chunks(new, _STARTED_AT_ONCE):
            changes = [(each, state) for each in some if (state := self._first_state(each)) is not None]
            if not changes:
                await asyncio.sleep(0)
                continue
            existing = dict.fromkeys(await self._writer.create_states(changes))
            if existing:
                # Somebody made them before, so there may be logs of them.
                await self._leaders.repair(existing)
                self._channels.tell_roles(existing)
            made = [each for each, _ in changes if each.state is not None]
            heard += self._channels.tell_roles([each for each in made if each not in existing], is_new=True)
            started += made
        if started:
            self._work.spawn(self._announce(started, heard), "announcing partitions")

    def _first_state(self, partition: Partition) -> StateNode | None:
        is_online = partial(self.cluster.is_online, partition.name)
        state = election.first_state(partition.assignment, is_online, self.epoch)
        return None if state is None else self.cluster.completed(partition, state)

    async def _announce(self, partitions: list[Partition], heard: list[asyncio.Future[None]]) -> None:
        """Tell everybody of new partitions when their replicas are ready."""
        if heard:
            await asyncio.wait(heard, timeout=_SERVING_SECONDS)
        self._channels.tell_metadata(partitions)
