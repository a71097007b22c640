"""Client quotas: describe and alter."""

from minikafka.protocol.message import Request, Response
from minikafka.protocol.schema import Bool, Float64, Int8, Int16, Int32, String, Struct


class QuotaFilterComponent(Struct):
    entity_type: String
    match_type: Int8
    match: String | None


class DescribeClientQuotasRequest(Request, api_key=48, versions=(0, 1), flexible=1):
    components: list[QuotaFilterComponent]
    strict: Bool


class QuotaEntity(Struct):
    entity_type: String
    entity_name: String | None


class QuotaValue(Struct):
    key: String
    value: Float64


class QuotaEntry(Struct):
    entity: list[QuotaEntity]
    values: list[QuotaValue]


class DescribeClientQuotasResponse(Response, api_key=48, versions=(0, 1), flexible=1):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    entries: list[QuotaEntry] | None = None


class QuotaOp(Struct):
    key: String
    value: Float64
    remove: Bool


class QuotaAlteration(Struct):
    entity: list[QuotaEntity]
    ops: list[QuotaOp]


class AlterClientQuotasRequest(Request, api_key=49, versions=(0, 1), flexible=1):
    entries: list[QuotaAlteration]
    validate_only: Bool


class QuotaAlterationResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    entity: list[QuotaEntity]


class AlterClientQuotasResponse(Response, api_key=49, versions=(0, 1), flexible=1):
    throttle_time_ms: Int32 = 0
    entries: list[QuotaAlterationResult]
