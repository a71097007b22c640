"""UpdateFeatures: no feature has a level that could be changed; the controller finalizes what all brokers support.

- Only the controller answers. Every feature is refused by itself; none at all is fine.
- v0 has a flag for going back to a lower level, v1 names the kind of change.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.features import SUPPORTED
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode, NotControllerError
from minikafka.protocol.messages.cluster import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_UPGRADE: Final = 1
_UPGRADE_TYPES: Final = (1, 2, 3)


def routes(context: Context) -> list[Route]:
    def update(call: Call) -> UpdateFeaturesResponse:
        request: UpdateFeaturesRequest = call.request
        if context.metadata.controller_id != context.broker_id:
            refused = NotControllerError()
            return UpdateFeaturesResponse(error_code=refused.code, error_message=refused.message)
        wanted = {each.feature: each for each in request.feature_updates}
        return UpdateFeaturesResponse(results=[_refused(each, call.version) for each in wanted.values()])

    return [Route(APIS[57], update, Operation.ALTER, Resource.CLUSTER)]


def _refused(update: FeatureUpdateKey, version: int) -> UpdatableFeatureResult:
    return UpdatableFeatureResult(
        feature=update.feature, error_code=ErrorCode.INVALID_REQUEST, error_message=_reason(update, version)
    )


def _reason(update: FeatureUpdateKey, version: int) -> str:
    is_upgrade = not update.allow_downgrade if version == 0 else update.upgrade_type == _UPGRADE
    if not update.feature:
        return "the name of a feature is missing"
    if version > 0 and update.upgrade_type not in _UPGRADE_TYPES:
        return f"there is no change of type {update.upgrade_type}"
    if update.max_version_level < 1 and is_upgrade:
        return "a level below 1 deletes a feature, which is no upgrade"
    if update.feature in SUPPORTED:
        return "its level is the highest that all live brokers support"
    return "there is no such feature"
