"""Every API by its key: the request, the response, and the versions that are declared.

What a broker really serves, and so advertises, is its dispatch table; this one only knows what can
be read and written.  The inter-broker APIs that travel as msgpack are in `control`.
"""

from typing import Final, NamedTuple

from minikafka.protocol.message import Request, Response
from minikafka.protocol.messages import (
    acls,
    api_versions,
    cluster,
    configs,
    consumer_group,
    fetch,
    groups,
    list_offsets,
    metadata,
    offsets,
    produce,
    quotas,
    replicas,
    sasl,
    topics,
    transactions,
)


class Api(NamedTuple):
    """One row: an API in all its versions."""

    key: int
    name: str
    request: type[Request]
    response: type[Response]

    @property
    def versions(self) -> tuple[int, int]:
        return self.request.versions

    def is_flexible(self, version: int) -> bool:
        return self.request.is_flexible(version)


def _api(request: type[Request], response: type[Response]) -> Api:
    assert request.api_key == response.api_key
    assert request.versions == response.versions
    assert request.flexible == response.flexible
    return Api(request.api_key, request.__name__.removesuffix("Request"), request, response)


_ROWS: Final = (
    _api(produce.ProduceRequest, produce.ProduceResponse),
    _api(fetch.FetchRequest, fetch.FetchResponse),
    _api(list_offsets.ListOffsetsRequest, list_offsets.ListOffsetsResponse),
    _api(metadata.MetadataRequest, metadata.MetadataResponse),
    _api(offsets.OffsetCommitRequest, offsets.OffsetCommitResponse),
    _api(offsets.OffsetFetchRequest, offsets.OffsetFetchResponse),
    _api(groups.FindCoordinatorRequest, groups.FindCoordinatorResponse),
    _api(groups.JoinGroupRequest, groups.JoinGroupResponse),
    _api(groups.HeartbeatRequest, groups.HeartbeatResponse),
    _api(groups.LeaveGroupRequest, groups.LeaveGroupResponse),
    _api(groups.SyncGroupRequest, groups.SyncGroupResponse),
    _api(groups.DescribeGroupsRequest, groups.DescribeGroupsResponse),
    _api(groups.ListGroupsRequest, groups.ListGroupsResponse),
    _api(sasl.SaslHandshakeRequest, sasl.SaslHandshakeResponse),
    _api(api_versions.ApiVersionsRequest, api_versions.ApiVersionsResponse),
    _api(topics.CreateTopicsRequest, topics.CreateTopicsResponse),
    _api(topics.DeleteTopicsRequest, topics.DeleteTopicsResponse),
    _api(topics.DeleteRecordsRequest, topics.DeleteRecordsResponse),
    _api(transactions.InitProducerIdRequest, transactions.InitProducerIdResponse),
    _api(list_offsets.OffsetForLeaderEpochRequest, list_offsets.OffsetForLeaderEpochResponse),
    _api(transactions.AddPartitionsToTxnRequest, transactions.AddPartitionsToTxnResponse),
    _api(transactions.AddOffsetsToTxnRequest, transactions.AddOffsetsToTxnResponse),
    _api(transactions.EndTxnRequest, transactions.EndTxnResponse),
    _api(transactions.WriteTxnMarkersRequest, transactions.WriteTxnMarkersResponse),
    _api(transactions.TxnOffsetCommitRequest, transactions.TxnOffsetCommitResponse),
    _api(acls.DescribeAclsRequest, acls.DescribeAclsResponse),
    _api(acls.CreateAclsRequest, acls.CreateAclsResponse),
    _api(acls.DeleteAclsRequest, acls.DeleteAclsResponse),
    _api(configs.DescribeConfigsRequest, configs.DescribeConfigsResponse),
    _api(configs.AlterConfigsRequest, configs.AlterConfigsResponse),
    _api(replicas.AlterReplicaLogDirsRequest, replicas.AlterReplicaLogDirsResponse),
    _api(replicas.DescribeLogDirsRequest, replicas.DescribeLogDirsResponse),
    _api(sasl.SaslAuthenticateRequest, sasl.SaslAuthenticateResponse),
    _api(topics.CreatePartitionsRequest, topics.CreatePartitionsResponse),
    _api(sasl.CreateDelegationTokenRequest, sasl.CreateDelegationTokenResponse),
    _api(sasl.RenewDelegationTokenRequest, sasl.RenewDelegationTokenResponse),
    _api(sasl.ExpireDelegationTokenRequest, sasl.ExpireDelegationTokenResponse),
    _api(sasl.DescribeDelegationTokenRequest, sasl.DescribeDelegationTokenResponse),
    _api(groups.DeleteGroupsRequest, groups.DeleteGroupsResponse),
    _api(replicas.ElectLeadersRequest, replicas.ElectLeadersResponse),
    _api(configs.IncrementalAlterConfigsRequest, configs.IncrementalAlterConfigsResponse),
    _api(replicas.AlterPartitionReassignmentsRequest, replicas.AlterPartitionReassignmentsResponse),
    _api(replicas.ListPartitionReassignmentsRequest, replicas.ListPartitionReassignmentsResponse),
    _api(offsets.OffsetDeleteRequest, offsets.OffsetDeleteResponse),
    _api(quotas.DescribeClientQuotasRequest, quotas.DescribeClientQuotasResponse),
    _api(quotas.AlterClientQuotasRequest, quotas.AlterClientQuotasResponse),
    _api(sasl.DescribeUserScramCredentialsRequest, sasl.DescribeUserScramCredentialsResponse),
    _api(sasl.AlterUserScramCredentialsRequest, sasl.AlterUserScramCredentialsResponse),
    _api(cluster.UpdateFeaturesRequest, cluster.UpdateFeaturesResponse),
    _api(cluster.EnvelopeRequest, cluster.EnvelopeResponse),
    _api(cluster.DescribeClusterRequest, cluster.DescribeClusterResponse),
    _api(transactions.DescribeProducersRequest, transactions.DescribeProducersResponse),
    _api(transactions.DescribeTransactionsRequest, transactions.DescribeTransactionsResponse),
    _api(transactions.ListTransactionsRequest, transactions.ListTransactionsResponse),
    _api(transactions.AllocateProducerIdsRequest, transactions.AllocateProducerIdsResponse),
    _api(consumer_group.ConsumerGroupHeartbeatRequest, consumer_group.ConsumerGroupHeartbeatResponse),
    _api(consumer_group.ConsumerGroupDescribeRequest, consumer_group.ConsumerGroupDescribeResponse),
)

APIS: Final[dict[int, Api]] = {row.key: row for row in sorted(_ROWS)}


def api_named(name: str) -> Api:
    """The API with Kafka's name for it, such as `Fetch`."""
    return next(row for row in _ROWS if row.name == name)
