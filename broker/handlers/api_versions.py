"""ApiVersions: the table of what is served, as every client asks for it first.

A version that is not known never gets here: `dispatch` answers it in the oldest layout.

Clients ask once for each connection. When a finalized feature is taken back, those who have heard of it are
disconnected, since they would rely on it for as long as they stay connected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from minikafka.broker.features import SUPPORTED
from minikafka.broker.metadata import Metadata
from minikafka.broker.network.connection import Connection
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_API_VERSIONS: Final = 18
_SOFTWARE_VERSION: Final = 3
_LOWEST_LEVEL_0_SINCE: Final = 4
_software: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?").fullmatch


def route(table: Mapping[int, Route], metadata: Metadata) -> Route:
    """The row for ApiVersions, which tells what is in the table by the time it is asked."""
    return Route(APIS[_API_VERSIONS], _ApiVersionsHandler(table, metadata), Operation.NONE, Resource.NONE)


class _ApiVersionsHandler:
    """See the module's description."""

    def __init__(self, table: Mapping[int, Route], metadata: Metadata) -> None:
        self._table = table
        self._metadata = metadata
        # In the order in which they were notified.
        self._notified: WeakKeyDictionary[Connection, None] = WeakKeyDictionary()
        metadata.on_features_lowered = self._disconnect

    def __call__(self, call: Call) -> ApiVersionsResponse:
        request: ApiVersionsRequest = call.request
        if call.version >= _SOFTWARE_VERSION and not (
            _software(request.client_software_name) and _software(request.client_software_version)
        ):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        rows = [
            ApiVersion(api_key=each.api.key, min_version=each.api.versions[0], max_version=each.api.versions[1])
            for _, each in sorted(self._table.items())
            if each.is_advertised
        ]
        features = self._metadata.features
        if features.levels and call.version >= _SOFTWARE_VERSION:
            self._notified[call.connection] = None
        return ApiVersionsResponse(
            api_keys=rows,
            supported_features=[
                SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.highest)
                for name, levels in SUPPORTED.items()
                # Clients of earlier versions take a lowest level of 0 for a mistake (KAFKA-17011).
                if levels.lowest or call.version >= _LOWEST_LEVEL_0_SINCE
            ],
            finalized_features_epoch=features.epoch,
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in features.levels.items()
            ],
        )

    def _disconnect(self) -> None:
        notified, self._notified = self._notified, WeakKeyDictionary()
        for connection in list(notified):
            connection.drain()
