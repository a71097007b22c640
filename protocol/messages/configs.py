"""Configuration of topics and brokers: describe, replace (AlterConfigs), change (IncrementalAlterConfigs).

- DescribeConfigs v1 names the source of each value and its synonyms, v3 types and documentation.
"""

from minikafka.protocol.message import Request, Response
from minikafka.protocol.schema import Bool, Int8, Int16, Int32, String, Struct, field


class DescribeConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configuration_keys: list[String] | None


class DescribeConfigsRequest(Request, api_key=32, versions=(0, 4), flexible=4):
    resources: list[DescribeConfigsResource]
    include_synonyms: Bool = field(default=False, since=1)
    include_documentation: Bool = field(default=False, since=3)


class DescribeConfigsSynonym(Struct):
    name: String
    value: String | None
    source: Int8


class DescribeConfigsResourceResult(Struct):
    name: String
    value: String | None
    read_only: Bool
    is_default: Bool = field(default=False, until=0)
    config_source: Int8 = field(default=-1, since=1)
    is_sensitive: Bool
    synonyms: list[DescribeConfigsSynonym] = field(factory=list, since=1)
    config_type: Int8 = field(default=0, since=3)
    documentation: String | None = field(default=None, since=3)


class DescribeConfigsResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String
    configs: list[DescribeConfigsResourceResult]


class DescribeConfigsResponse(Response, api_key=32, versions=(0, 4), flexible=4):
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult]


class AlterableConfig(Struct):
    name: String
    value: String | None


class AlterConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig]


class AlterConfigsRequest(Request, api_key=33, versions=(0, 2), flexible=2):
    resources: list[AlterConfigsResource]
    validate_only: Bool


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String


class AlterConfigsResponse(Response, api_key=33, versions=(0, 2), flexible=2):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]


class IncrementalAlterableConfig(Struct):
    name: String
    config_operation: Int8
    value: String | None


class IncrementalAlterConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configs: list[IncrementalAlterableConfig]


class IncrementalAlterConfigsRequest(Request, api_key=44, versions=(0, 1), flexible=1):
    resources: list[IncrementalAlterConfigsResource]
    validate_only: Bool


class IncrementalAlterConfigsResponse(Response, api_key=44, versions=(0, 1), flexible=1):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
