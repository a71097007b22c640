"""Access control lists: describe, create, delete.

- v1 adds pattern types; 3 (literal) is what v0 means.
"""

from minikafka.protocol.message import Request, Response
from minikafka.protocol.schema import Int8, Int16, Int32, String, Struct, field


class DescribeAclsRequest(Request, api_key=29, versions=(0, 3), flexible=2):
    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = field(default=3, since=1)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


class AclDescription(Struct):
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class DescribeAclsResource(Struct):
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field(default=3, since=1)
    acls: list[AclDescription]


class DescribeAclsResponse(Response, api_key=29, versions=(0, 3), flexible=2):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    resources: list[DescribeAclsResource] = field(factory=list)


class AclCreation(Struct):
    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = field(default=3, since=1)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class CreateAclsRequest(Request, api_key=30, versions=(0, 3), flexible=2):
    creations: list[AclCreation]


class AclCreationResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = None


class CreateAclsResponse(Response, api_key=30, versions=(0, 3), flexible=2):
    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult]


class DeleteAclsFilter(Struct):
    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = field(default=3, since=1)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


class DeleteAclsRequest(Request, api_key=31, versions=(0, 3), flexible=2):
    filters: list[DeleteAclsFilter]


class DeleteAclsMatchingAcl(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field(default=3, since=1)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class DeleteAclsFilterResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    matching_acls: list[DeleteAclsMatchingAcl]


class DeleteAclsResponse(Response, api_key=31, versions=(0, 3), flexible=2):
    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult]
