"""Answers in the recorded notation: field names in snake case, errors by name, records as lists of batches.

Left out are, as in the recordings, throttle times, error messages, and tagged fields that were not on the wire.
"""

from typing import Any, Final
from uuid import UUID

from minikafka.protocol.apis import api_named
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.message import Response
from minikafka.protocol.messages.api_versions import ApiVersionsResponse
from minikafka.protocol.messages.groups import ListGroupsResponse
from minikafka.protocol.messages.metadata import MetadataResponse
from minikafka.protocol.messages.topics import CreateTopicsResponse
from minikafka.protocol.messages.transactions import ListTransactionsResponse
from minikafka.protocol.schema import Field, Kind, Struct
from tests.compat.replay.batches import shown_batches
from tests.compat.replay.names import Names
from tests.protocol.recordings import snake

_LEFT_OUT: Final = {"throttle_time_ms", "error_message", "batch_index_error_message"}

_RECORDED_CONFIGS: Final = {"cleanup.policy", "min.insync.replicas", "retention.ms"}
_CORE_APIS: Final = {api_named(name).key for name in ("Produce", "Fetch", "ListOffsets", "Metadata", "ApiVersions")}
_API_VERSIONS: Final = api_named("ApiVersions").key


class AnswerReader:
    """Turns messages into what a recording would show of them."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def drop_what_others_have(self, answer: Response) -> None:
        """Of lists of everything in the cluster keep what belongs to this playing."""
        are_ours = self._names.are_ours
        if isinstance(answer, MetadataResponse):
            answer.topics = [each for each in answer.topics if are_ours(each.name or "")]
        elif isinstance(answer, ListGroupsResponse):
            answer.groups = [each for each in answer.groups if are_ours(each.group_id)]
        elif isinstance(answer, ListTransactionsResponse):
            states = answer.transaction_states
            answer.transaction_states = [each for each in states if are_ours(each.transactional_id)]

    def shown(self, struct: Struct, version: int) -> dict[str, Any]:
        fields = [f for f in type(struct).fields if f.exists(version) and f.name not in _LEFT_OUT]
        values = [(f, getattr(struct, f.name)) for f in fields]
        return {f.name: self._value(f, value, version) for f, value in values if not _is_unsent(f, value)}

    def _value(self, f: Field, value: Any, version: int) -> Any:
        if value is None:
            return None
        if f.is_list:
            return [self._single(f, each, version) for each in value]
        return self._single(f, value, version)

    def _single(self, f: Field, value: Any, version: int) -> Any:
        if isinstance(f.wire, type):
            return self.shown(value, version)
        if f.wire.kind is Kind.RECORDS:
            return shown_batches(value)
        if f.wire.kind is Kind.BYTES:
            return _shown_bytes(bytes(value))
        if f.wire.kind is Kind.STRING:
            return self._names.recorded(value)
        if f.wire.format == "16s":
            return str(UUID(bytes=value))
        return ErrorCode(value).name if f.name.endswith("error_code") else value


def _is_unsent(f: Field, value: Any) -> bool:
    return f.is_tagged and value == f.absent


def _shown_bytes(value: bytes) -> Any:
    text = value.decode(errors="replace")
    return text if text.isascii() and (text.isprintable() or not text) else {"hex": value.hex()}


def in_notation(told: Any) -> Any:
    """A recorded answer with its field names as ours are."""
    if isinstance(told, list):
        return [in_notation(each) for each in told]
    if isinstance(told, dict) and set(told) != {"hex"}:
        return {snake(key): in_notation(value) for key, value in told.items()}
    return told


def summarised(answer: Response, told: Any, shown: dict[str, Any]) -> Any:
    """The same summary of an answer that the recording gives instead of the answer itself."""
    if isinstance(told, list):
        return shown["topics"]
    if isinstance(answer, ApiVersionsResponse) and isinstance(told["api_keys"], dict):
        return {"error_code": shown["error_code"], "api_keys": _shown_apis(answer)}
    if "more than 20 configs" in told:
        (result,) = shown["results"]
        return {"error_code": result["error_code"], "more than 20 configs": len(result["configs"]) > 20}
    if isinstance(answer, CreateTopicsResponse) and "configs" in shown["topics"][0]:
        return {"topics": [_with_recorded_configs(topic) for topic in shown["topics"]]}
    if "has topics" in told:
        return {"dirs": len(shown["results"]), "has topics": any(each["topics"] for each in shown["results"])}
    return shown


def _with_recorded_configs(topic: dict[str, Any]) -> dict[str, Any]:
    """Of a created topic's configs only three were recorded."""
    configs = [each for each in topic["configs"] if each["name"] in _RECORDED_CONFIGS]
    return topic | {"configs": configs}


def _shown_apis(answer: ApiVersionsResponse) -> dict[str, Any]:
    versions = {row.api_key: [row.min_version, row.max_version] for row in answer.api_keys}
    return {"core client apis advertised": versions.keys() >= _CORE_APIS, "api_versions": versions.get(_API_VERSIONS)}
