"""ApiVersions: which requests, in which versions, this broker serves.

The first request on every connection, so it must be answerable to a client of any age: a version
that is not known gets the v0 body with error 35, and the response header is always v0 (`headers`).
"""

from typing import Self

from minikafka.protocol.errors import DecodeError, ErrorCode
from minikafka.protocol.message import Request, Response
from minikafka.protocol.schema import Bool, Int16, Int32, Int64, String, Struct, field


class ApiVersionsRequest(Request, api_key=18, versions=(0, 4), flexible=3):
    client_software_name: String = field(default="", since=3)
    client_software_version: String = field(default="", since=3)


class ApiVersion(Struct):
    api_key: Int16
    min_version: Int16
    max_version: Int16


class SupportedFeatureKey(Struct):
    name: String
    min_version: Int16
    max_version: Int16


class FinalizedFeatureKey(Struct):
    name: String
    max_version_level: Int16
    min_version_level: Int16


class ApiVersionsResponse(Response, api_key=18, versions=(0, 4), flexible=3):
    error_code: Int16 = 0
    api_keys: list[ApiVersion] = field(factory=list)
    throttle_time_ms: Int32 = field(default=0, since=1)
    supported_features: list[SupportedFeatureKey] = field(factory=list, since=3, tag=0)
    finalized_features_epoch: Int64 = field(default=-1, since=3, tag=1)
    finalized_features: list[FinalizedFeatureKey] = field(factory=list, since=3, tag=2)
    zk_migration_ready: Bool = field(default=False, since=3, tag=3)

    @classmethod
    def decode(cls, buf: bytes | bytearray, version: int, pos: int = 0) -> Self:
        """As any other; the refusal of an older broker, which comes in the layout of v0, is read too.

        The two cannot be confused: a count in v0 opens with a zero byte, which is null in a compact array, and the
        versions between have another four bytes.
        """
        try:
            return super().decode(buf, version, pos)
        except DecodeError:
            if int.from_bytes(buf[pos : pos + 2], "big") != ErrorCode.UNSUPPORTED_VERSION:
                raise
            return super().decode(buf, 0, pos)
