"""The cluster as a whole: its brokers, its feature levels, requests forwarded on behalf of clients.

- DescribeCluster v1 can ask for brokers (1) or controllers (2).
"""

from minikafka.protocol.message import Request, Response
from minikafka.protocol.messages.common import OPERATIONS_UNKNOWN
from minikafka.protocol.schema import Bool, Bytes, Int8, Int16, Int32, String, Struct, field


class DescribeClusterRequest(Request, api_key=60, versions=(0, 1), flexible=0):
    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = field(default=1, since=1)


class DescribeClusterBroker(Struct):
    broker_id: Int32
    host: String
    port: Int32
    rack: String | None = None


class DescribeClusterResponse(Response, api_key=60, versions=(0, 1), flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Int8 = field(default=1, since=1)
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = field(factory=list)
    cluster_authorized_operations: Int32 = OPERATIONS_UNKNOWN


class FeatureUpdateKey(Struct):
    feature: String
    max_version_level: Int16
    allow_downgrade: Bool = field(default=False, until=0)
    upgrade_type: Int8 = field(default=1, since=1)


class UpdateFeaturesRequest(Request, api_key=57, versions=(0, 1), flexible=0):
    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey]
    validate_only: Bool = field(default=False, since=1)


class UpdatableFeatureResult(Struct):
    feature: String
    error_code: Int16 = 0
    error_message: String | None = None


class UpdateFeaturesResponse(Response, api_key=57, versions=(0, 1), flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    results: list[UpdatableFeatureResult] = field(factory=list)


class EnvelopeRequest(Request, api_key=58, versions=(0, 0), flexible=0):
    request_data: Bytes
    request_principal: Bytes | None
    client_host_address: Bytes


class EnvelopeResponse(Response, api_key=58, versions=(0, 0), flexible=0):
    response_data: Bytes | None = None
    error_code: Int16 = 0
