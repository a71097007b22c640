"""ApiVersions: the table of what is served, as every client asks for it first.

A version that is not known never gets here: `dispatch` answers it in the oldest layout.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

_API_VERSIONS: Final = 18
_SOFTWARE_VERSION: Final = 3
_FEATURES_EPOCH: Final = 0
_software: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?").fullmatch


def route(table: Mapping[int, Route]) -> Route:
    """The row for ApiVersions, which tells what is in the table by the time it is asked."""

    def answer(call: Call) -> ApiVersionsResponse:
        request: ApiVersionsRequest = call.request
        if call.version >= _SOFTWARE_VERSION and not (
            _software(request.client_software_name) and _software(request.client_software_version)
        ):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        rows = [
            ApiVersion(api_key=each.api.key, min_version=each.api.versions[0], max_version=each.api.versions[1])
            for _, each in sorted(table.items())
            if each.is_advertised
        ]
        return ApiVersionsResponse(api_keys=rows, finalized_features_epoch=_FEATURES_EPOCH)

    return Route(APIS[_API_VERSIONS], answer, Operation.NONE, Resource.NONE)
