"""Authentication: SaslHandshake, SaslAuthenticate, delegation tokens, SCRAM credentials.

- SaslHandshake is never flexible; after its v0 raw tokens follow without any header.
- CreateDelegationToken v3 and DescribeDelegationToken v3 tell who asked for a token.
"""

from minikafka.protocol.message import Request, Response
from minikafka.protocol.schema import Bytes, Int8, Int16, Int32, Int64, String, Struct, field


class SaslHandshakeRequest(Request, api_key=17, versions=(0, 1)):
    mechanism: String


class SaslHandshakeResponse(Response, api_key=17, versions=(0, 1)):
    error_code: Int16 = 0
    mechanisms: list[String] = field(factory=list)


class SaslAuthenticateRequest(Request, api_key=36, versions=(0, 2), flexible=2):
    auth_bytes: Bytes = field(secret=True)


class SaslAuthenticateResponse(Response, api_key=36, versions=(0, 2), flexible=2):
    error_code: Int16 = 0
    error_message: String | None = None
    auth_bytes: Bytes = field(default=b"", secret=True)
    session_lifetime_ms: Int64 = field(default=0, since=1)


class DelegationTokenRenewer(Struct):
    principal_type: String
    principal_name: String


class CreateDelegationTokenRequest(Request, api_key=38, versions=(0, 3), flexible=2):
    owner_principal_type: String | None = field(default=None, since=3)
    owner_principal_name: String | None = field(default=None, since=3)
    renewers: list[DelegationTokenRenewer]
    max_lifetime_ms: Int64


class CreateDelegationTokenResponse(Response, api_key=38, versions=(0, 3), flexible=2):
    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: String = field(default="", since=3)
    token_requester_principal_name: String = field(default="", since=3)
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = field(default=b"", secret=True)
    throttle_time_ms: Int32 = 0


class RenewDelegationTokenRequest(Request, api_key=39, versions=(0, 2), flexible=2):
    hmac: Bytes = field(secret=True)
    renew_period_ms: Int64


class RenewDelegationTokenResponse(Response, api_key=39, versions=(0, 2), flexible=2):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


class ExpireDelegationTokenRequest(Request, api_key=40, versions=(0, 2), flexible=2):
    hmac: Bytes = field(secret=True)
    expiry_time_period_ms: Int64


class ExpireDelegationTokenResponse(Response, api_key=40, versions=(0, 2), flexible=2):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


class DescribeDelegationTokenOwner(Struct):
    principal_type: String
    principal_name: String


class DescribeDelegationTokenRequest(Request, api_key=41, versions=(0, 3), flexible=2):
    owners: list[DescribeDelegationTokenOwner] | None


class DescribedDelegationToken(Struct):
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = field(default="", since=3)
    token_requester_principal_name: String = field(default="", since=3)
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: String
    hmac: Bytes = field(secret=True)
    renewers: list[DelegationTokenRenewer]


class DescribeDelegationTokenResponse(Response, api_key=41, versions=(0, 3), flexible=2):
    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken] = field(factory=list)
    throttle_time_ms: Int32 = 0


class ScramUserName(Struct):
    name: String


class DescribeUserScramCredentialsRequest(Request, api_key=50, versions=(0, 0), flexible=0):
    users: list[ScramUserName] | None


class ScramCredentialInfo(Struct):
    mechanism: Int8
    iterations: Int32


class DescribeUserScramCredentialsResult(Struct):
    user: String
    error_code: Int16 = 0
    error_message: String | None = None
    credential_infos: list[ScramCredentialInfo]


class DescribeUserScramCredentialsResponse(Response, api_key=50, versions=(0, 0), flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    results: list[DescribeUserScramCredentialsResult] = field(factory=list)


class ScramCredentialDeletion(Struct):
    name: String
    mechanism: Int8


class ScramCredentialUpsertion(Struct):
    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes = field(secret=True)
    salted_password: Bytes = field(secret=True)


class AlterUserScramCredentialsRequest(Request, api_key=51, versions=(0, 0), flexible=0):
    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


class AlterUserScramCredentialsResult(Struct):
    user: String
    error_code: Int16 = 0
    error_message: String | None = None


class AlterUserScramCredentialsResponse(Response, api_key=51, versions=(0, 0), flexible=0):
    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult]
