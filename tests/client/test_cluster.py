"""The cluster: found, kept fresh, waited for, and left without a trace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from minikafka.client.clock import Backoff
from minikafka.client.cluster import Cluster, CoordinatorKind
from minikafka.client.config import ClientConfig
from minikafka.client.errors import (
    AuthenticationFailed,
    ClientClosed,
    ConnectionFailed,
    NoBrokersAvailable,
    RequestTimeout,
    WrongListener,
)
from minikafka.client.metadata import Metadata
from minikafka.protocol.errors import (
    CoordinatorNotAvailableError,
    ErrorCode,
    InvalidTopicError,
    KafkaError,
    LeaderNotAvailableError,
    NotCoordinatorError,
    UnknownTopicOrPartitionError,
)
from minikafka.protocol.messages.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.broker.eventually import eventually
from tests.client.peer import HangUp, Peer
from tests.client.test_connection import ASK, LOGIN, with_login
from tests.compat.running import Cluster as Running
from tests.compat.running import free_ports


@pytest.fixture(autouse=True)
async def no_task_left() -> AsyncIterator[None]:
    """pytest-asyncio cancels what is left; here it is a fault."""
    before = len(asyncio.all_tasks())
    yield
    assert len(asyncio.all_tasks()) == before


def cluster_of(peer: Peer, **options: Any) -> Cluster:
    return Cluster(
        ClientConfig(bootstrap_servers=peer.bootstrap, retry_backoff_ms=1, reconnect_backoff_ms=1, **options)
    )


async def test_a_real_cluster(up_cluster: Running, topic: str) -> None:
    async with Cluster(ClientConfig(bootstrap_servers=up_cluster.bootstrap)) as cluster:
        assert {*cluster.metadata.brokers} == up_cluster.broker_ids
        assert cluster.partitions(topic) is None
        assert cluster.leader(topic, 0) is None
        await cluster.wait_metadata([topic])
        assert cluster.partitions(topic) == (0,)
        assert cluster.leader(topic, 0) in up_cluster.broker_ids
        assert cluster.leader_epoch(topic, 0) >= 0
        assert cluster.leader(topic, 1) is None
        assert await cluster.controller() in up_cluster.broker_ids
        for kind in (CoordinatorKind.GROUP,):
            node_id = await cluster.coordinator(kind, "somebody")
            assert node_id in up_cluster.broker_ids
            answer: MetadataResponse = await cluster.request(node_id, ASK, purpose="of its own")
            assert {broker.node_id for broker in answer.brokers} == up_cluster.broker_ids
        with pytest.raises(InvalidTopicError, match="bad name"):
            await cluster.wait_metadata(["bad name!"])
        cluster.want_all_topics()
        await cluster.refresh()
        assert topic in cluster.metadata.topics


async def test_a_topic_that_does_not_exist_is_waited_for_so_long(up_cluster: Running) -> None:
    config = ClientConfig(bootstrap_servers=up_cluster.bootstrap, allow_auto_create_topics=False)
    async with Cluster(config) as cluster:
        with pytest.raises(UnknownTopicOrPartitionError, match="nothing-of-this-name"):
            await cluster.wait_metadata(["nothing-of-this-name"], timeout_ms=300)
        assert "nothing-of-this-name" not in cluster.metadata.topics


async def test_nobody_is_there() -> None:
    port = free_ports(2)
    servers = f"127.0.0.1:{port},127.0.0.1:{port + 1}"
    with pytest.raises(NoBrokersAvailable, match="Connection refused") as failure:
        async with Cluster(ClientConfig(bootstrap_servers=servers)):
            pass
    assert str(port + 1) in str(failure.value)


async def test_one_of_several_is_there() -> None:
    async with Peer() as peer:
        config = ClientConfig(bootstrap_servers=f"127.0.0.1:{free_ports(1)},{peer.bootstrap}")
        async with Cluster(config, rng=Random(1)) as cluster:
            assert cluster.metadata.cluster_id == "peer"


async def test_a_listener_of_another_kind(bootstrap: str) -> None:
    for options in ({"security_protocol": "SSL"}, LOGIN):
        with pytest.raises(WrongListener):
            async with Cluster(ClientConfig(bootstrap_servers=bootstrap, **options)):  # type: ignore[arg-type]
                pass


async def test_a_login_that_is_refused_is_not_tried_elsewhere() -> None:
    async with Peer() as peer:
        with_login(peer, error_code=ErrorCode.SASL_AUTHENTICATION_FAILED)
        with pytest.raises(AuthenticationFailed):
            async with cluster_of(peer, **LOGIN):
                pass
        assert peer.connections == 1


async def test_a_login_that_runs_out_is_made_again_on_another_connection() -> None:
    async with Peer() as peer:
        with_login(peer, lifetime_ms=60)
        async with cluster_of(peer, **LOGIN) as cluster:
            for _ in range(3):
                await cluster.request(1, ASK)
                await asyncio.sleep(0.06)
        assert len(peer.asked(SaslHandshakeRequest)) == len(peer.asked(SaslAuthenticateRequest)) > 1


async def test_metadata_is_fetched_again_when_it_is_old() -> None:
    async with Peer() as peer, cluster_of(peer, metadata_max_age_ms=20) as cluster:
        seen: list[Metadata] = []
        forget = cluster.on_metadata(seen.append)
        await eventually(lambda: len(seen) > 2, 5)
        forget()
        peer.leader_epoch = 3
        await cluster.wait_metadata(["t"])
        assert cluster.leader_epoch("t", 0) == 3


async def test_one_fetch_serves_all_who_ask() -> None:
    async with Peer() as peer, cluster_of(peer) as cluster:
        before = len(peer.asked(MetadataRequest))
        await asyncio.gather(*(cluster.refresh() for _ in range(50)))
        assert len(peer.asked(MetadataRequest)) == before + 1


async def test_a_cancelled_one_does_not_take_the_fetch_from_others() -> None:
    async with Peer() as peer, cluster_of(peer) as cluster:
        first, second = (asyncio.ensure_future(cluster.refresh()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await second


async def test_many_requests_share_a_connection_and_purposes_do_not() -> None:
    async with Peer() as peer, cluster_of(peer) as cluster:
        await asyncio.gather(*(cluster.request(1, ASK) for _ in range(20)))
        assert peer.connections == 1
        await asyncio.gather(*(cluster.request(1, ASK, purpose="group") for _ in range(20)))
        assert peer.connections == 2


async def test_a_broker_that_is_not_known() -> None:
    async with Peer() as peer, cluster_of(peer) as cluster:
        with pytest.raises(LeaderNotAvailableError, match="broker 9"):
            await cluster.request(9, ASK)


async def test_a_connection_that_broke_is_made_again() -> None:
    async with Peer() as peer, cluster_of(peer) as cluster:
        usual = peer.answers[MetadataRequest]

        def hang_up(_: object) -> None:
            peer.answers[MetadataRequest] = usual
            raise HangUp

        peer.answers[MetadataRequest] = hang_up
        with pytest.raises(ConnectionFailed) as failure:
            await cluster.request(1, ASK)
        assert failure.value.retriable and failure.value.refresh_metadata
        await cluster.request(1, ASK)


async def test_the_coordinator_is_remembered_until_it_is_not_one() -> None:
    async with Peer() as peer, cluster_of(peer) as cluster:
        for _ in range(3):
            assert await cluster.coordinator(CoordinatorKind.GROUP, "g") == 1
        assert len(peer.asked(FindCoordinatorRequest)) == 1
        cluster.invalidate_coordinator(CoordinatorKind.GROUP, "g")
        await cluster.coordinator(CoordinatorKind.GROUP, "g")
        assert len(peer.asked(FindCoordinatorRequest)) == 2


@pytest.mark.parametrize("version", [1, 3, 4])
async def test_a_coordinator_that_is_not_there_yet_is_waited_for(version: int) -> None:
    async with Peer() as peer:
        peer.served[FindCoordinatorRequest.api_key] = (0, version)
        usual = peer.answers[FindCoordinatorRequest]

        def not_yet(request: FindCoordinatorRequest) -> Any:
            if len(peer.asked(FindCoordinatorRequest)) > 2:
                return usual(request)
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            found = [Coordinator(key="g", node_id=-1, host="", port=-1, error_code=code)]
            return FindCoordinatorResponse(error_code=code, coordinators=found if version > 3 else [])

        peer.answers[FindCoordinatorRequest] = not_yet
        async with cluster_of(peer) as cluster:
            assert await cluster.coordinator(CoordinatorKind.TRANSACTION, "g") == 1
            cluster.invalidate_coordinator(CoordinatorKind.TRANSACTION, "g")
            peer.answers[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(
                error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
                coordinators=[Coordinator(key="g", node_id=-1, host="", port=-1, error_code=15)],
            )
            with pytest.raises(CoordinatorNotAvailableError):
                await cluster.coordinator(CoordinatorKind.TRANSACTION, "g", timeout_ms=30)


async def test_retry() -> None:
    async with Peer() as peer, cluster_of(peer) as cluster:
        calls: list[int] = []

        async def attempt() -> int:
            calls.append(len(calls))
            if len(calls) < 4:
                raise NotCoordinatorError
            return len(calls)

        assert await cluster.retry(attempt) == 4

        async def refuse() -> None:
            calls.append(0)
            raise InvalidTopicError

        before = len(calls)
        with pytest.raises(InvalidTopicError):
            await cluster.retry(refuse)
        assert len(calls) == before + 1

        async def hang() -> None:
            await asyncio.sleep(60)

        with pytest.raises(RequestTimeout, match="not done within 20 ms"):
            await cluster.retry(hang, timeout_ms=20)


async def test_closing_ends_every_wait() -> None:
    async with Peer() as peer:
        cluster = cluster_of(peer)
        await cluster.start()
        peer.answers[MetadataRequest] = lambda _: None
        peer.answers[FindCoordinatorRequest] = lambda _: None

        async def outcome(call: Any) -> type[BaseException] | None:
            try:
                await call
            except KafkaError as error:
                return type(error)
            return None

        waiting = [
            asyncio.ensure_future(outcome(call))
            for call in (
                cluster.request(1, ASK),
                cluster.refresh(),
                cluster.wait_metadata(["t"]),
                cluster.coordinator(CoordinatorKind.GROUP, "g"),
            )
        ]
        await asyncio.sleep(0.02)
        await asyncio.wait_for(cluster.close(), 5)
        assert await asyncio.wait_for(asyncio.gather(*waiting), 5) == [ClientClosed] * 4
        for call in (cluster.request(1, ASK), cluster.refresh(), cluster.request_any(ASK), cluster.start()):
            assert await outcome(call) is ClientClosed
        await cluster.close()


def test_backoff_doubles_to_a_limit_with_jitter() -> None:
    backoff = Backoff(100, 1_000, Random(1))
    for failures, middle in ((0, 0), (1, 100), (2, 200), (4, 800), (5, 1_000), (10_000, 1_000)):
        delays = [backoff.delay_ms(failures) for _ in range(100)]
        assert 0.8 * middle <= min(delays) <= middle <= max(delays) <= 1.2 * middle
