"""The cluster as a whole: its brokers, what they serve, its features."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import minikafka
from minikafka.client.admin.asking import raise_for, verdict
from minikafka.client.admin.calls import Calls
from minikafka.client.admin.results import Results
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import KafkaError, UnsupportedVersionError
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker, and where clients are told to find it."""

    node_id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster; `controller_id` is None while there is none."""

    cluster_id: str | None
    controller_id: int | None
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class BrokerVersions:
    """What a broker speaks: for each request the lowest and the highest version; and its features likewise."""

    apis: Mapping[str, tuple[int, int]]
    supported_features: Mapping[str, tuple[int, int]]
    finalized_features: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The level that a feature is to have."""

    max_version_level: int
    allow_downgrade: bool = False


class ClusterCalls(Calls):
    """See the module's description."""

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, its controller and its brokers."""
        try:
            answer: DescribeClusterResponse = await self._ask.ask_any(
                DescribeClusterRequest(include_cluster_authorized_operations=False)
            )
        except UnsupportedVersionError:
            return await self._describe_by_metadata()
        raise_for(answer.error_code, answer.error_message)
        brokers = [BrokerDescription(each.broker_id, each.host, each.port, each.rack) for each in answer.brokers]
        return _cluster(answer.cluster_id or None, answer.controller_id, brokers)

    async def _describe_by_metadata(self) -> ClusterDescription:
        """The same from brokers before 2.8."""
        answer: MetadataResponse = await self._ask.ask_any(MetadataRequest(topics=[], allow_auto_topic_creation=False))
        brokers = [BrokerDescription(each.node_id, each.host, each.port, each.rack) for each in answer.brokers]
        return _cluster(answer.cluster_id, answer.controller_id, brokers)

    async def describe_api_versions(
        self, broker_ids: Collection[int] | None = None, *, raise_errors: bool = True
    ) -> Results[int, BrokerVersions]:
        """What each broker serves, by Kafka's names of the requests."""
        asker = self._ask
        request = ApiVersionsRequest(client_software_name="minikafka", client_software_version=minikafka.__version__)

        async def ask(node_id: int, _: list[int]) -> Mapping[int, BrokerVersions | KafkaError]:
            answer: ApiVersionsResponse = await asker.request(node_id, request)
            return {node_id: verdict(answer.error_code) or _versions(answer)}

        nodes = (await asker.cluster.refresh()).brokers if broker_ids is None else broker_ids
        return (await asker.settle(nodes, asker.at_themselves, ask)).checked(raise_errors)

    async def update_features(
        self,
        updates: Mapping[str, FeatureUpdate],
        *,
        timeout_ms: int | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> Results[str, None]:
        """Move features of the cluster to other levels."""
        asker, wait_ms = self._ask, self._wait_ms(timeout_ms)

        async def ask(node_id: int, names: list[str]) -> Mapping[str, KafkaError | None]:
            request = UpdateFeaturesRequest(
                timeout_ms=wait_ms,
                feature_updates=[
                    FeatureUpdateKey(
                        feature=name,
                        max_version_level=updates[name].max_version_level,
                        allow_downgrade=updates[name].allow_downgrade,
                        upgrade_type=2 if updates[name].allow_downgrade else 1,
                    )
                    for name in names
                ],
                validate_only=validate_only,
            )
            answer: UpdateFeaturesResponse = await asker.request(node_id, request, wait_ms=wait_ms)
            raise_for(answer.error_code, answer.error_message)
            # Later versions answer for all at once.
            found = {each.feature: verdict(each.error_code, each.error_message) for each in answer.results}
            return {name: found.get(name) for name in names}

        results: Results[str, None] = await asker.settle(updates, asker.at_controller, ask)
        return results.checked(raise_errors)


def _cluster(cluster_id: str | None, controller_id: int, brokers: list[BrokerDescription]) -> ClusterDescription:
    ordered = tuple(sorted(brokers, key=lambda broker: broker.node_id))
    return ClusterDescription(cluster_id, controller_id if controller_id >= 0 else None, ordered)


def _versions(answer: ApiVersionsResponse) -> BrokerVersions:
    apis = {
        APIS[each.api_key].name if each.api_key in APIS else f"api {each.api_key}": (each.min_version, each.max_version)
        for each in answer.api_keys
    }
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    finalized = {each.name: (each.min_version_level, each.max_version_level) for each in answer.finalized_features}
    return BrokerVersions(apis, supported, finalized)
