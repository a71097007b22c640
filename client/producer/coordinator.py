"""Asking a coordinator, and noticing when it is not the coordinator any more."""

from __future__ import annotations

from typing import Any, Final

from minikafka.client.cluster import Cluster, CoordinatorKind
from minikafka.client.errors import ClientError
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.message import Request

_GONE: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


async def ask_coordinator(
    cluster: Cluster, kind: CoordinatorKind, key: str, request: Request, *, max_version: int | None = None
) -> Any:
    """The coordinator's answer. One that cannot be reached, or that says it is none, is looked for anew next time."""
    node_id = await cluster.coordinator(kind, key)
    try:
        answer = await cluster.request(node_id, request, purpose="coordinator", max_version=max_version)
    except ClientError:
        cluster.invalidate_coordinator(kind, key)
        raise
    if getattr(answer, "error_code", 0) in _GONE:
        cluster.invalidate_coordinator(kind, key)
    return answer
