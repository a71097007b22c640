"""What a cluster without security and without features answers: ACLs, tokens, SASL, UpdateFeatures."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from minikafka.broker.context import Context
from minikafka.broker.handlers import acls, features, sasl, tokens
from minikafka.broker.network.dispatch import Route
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from minikafka.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from minikafka.protocol.messages.sasl import CreateDelegationTokenRequest, SaslAuthenticateRequest
from tests.broker.handlers.recorded import agrees, names_of, play
from tests.broker.handlers.station import Station, station
from tests.protocol.recordings import cases


def routes(context: Context) -> list[Route]:
    return [row for family in (acls, features, sasl, tokens) for row in family.routes(context)]


@pytest.fixture
async def broker() -> AsyncIterator[Station]:
    async with station(routes) as made:
        yield made


@pytest.mark.parametrize("name", names_of("sasl-handshake", "delegation-tokens", "update-features"))
async def test_as_recorded(broker: Station, name: str) -> None:
    for step in cases()[name]["steps"]:
        _, shown = await play(broker, step)
        assert agrees(step["answer"], shown), shown


@pytest.mark.parametrize("version", range(4))
async def test_acls(broker: Station, version: int) -> None:
    anything = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    if version == 0:
        anything.pattern_type_filter = 3
    answer = await broker.ask(anything, version)
    assert (answer.error_code, answer.resources) == (ErrorCode.SECURITY_DISABLED, [])
    made = AclCreation(
        resource_type=99, resource_name="t", principal="nobody", host="*", operation=3, permission_type=3
    )
    answer = await broker.ask(CreateAclsRequest(creations=[made, made]), version)
    assert [each.error_code for each in answer.results] == [ErrorCode.SECURITY_DISABLED] * 2
    assert (await broker.ask(CreateAclsRequest(creations=[]), version)).results == []
    unwanted = DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter="t",
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    answer = await broker.ask(DeleteAclsRequest(filters=[unwanted, unwanted]), version)
    assert [(each.error_code, each.matching_acls) for each in answer.filter_results] == [
        (ErrorCode.SECURITY_DISABLED, [])
    ] * 2


@pytest.mark.parametrize("version", range(3))
async def test_authentication_is_out_of_place(broker: Station, version: int) -> None:
    answer = await broker.ask(SaslAuthenticateRequest(auth_bytes=b"\0user\0hunter2"), version)
    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.ILLEGAL_SASL_STATE, b"")
    assert answer.error_message and "hunter2" not in answer.error_message


@pytest.mark.parametrize(
    ("owner", "version", "told"),
    [
        (None, 2, ("ANONYMOUS", "")),
        (None, 3, ("ANONYMOUS", "ANONYMOUS")),
        ("bob", 3, ("bob", "ANONYMOUS")),
        ("bob", 2, ("ANONYMOUS", "")),
    ],
)
async def test_whose_token_it_would_be(broker: Station, owner: str | None, version: int, told: tuple[str, str]) -> None:
    request = CreateDelegationTokenRequest(
        renewers=[],
        max_lifetime_ms=-1,
        owner_principal_type=None if owner is None else "User",
        owner_principal_name=owner,
    )
    answer = await broker.ask(request, version)
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert (answer.principal_name, answer.token_requester_principal_name) == told


async def update(broker: Station, version: int, *updates: FeatureUpdateKey) -> list[tuple[str, str]]:
    answer = await broker.ask(UpdateFeaturesRequest(feature_updates=list(updates)), version)
    assert answer.error_code == ErrorCode.NONE
    return [(each.feature, ErrorCode(each.error_code).name) for each in answer.results]


async def test_features(broker: Station) -> None:
    wrong = "INVALID_REQUEST"
    one, other = FeatureUpdateKey(feature="x", max_version_level=2), FeatureUpdateKey(feature="", max_version_level=1)
    assert await update(broker, 1, one, other, one) == [("x", wrong), ("", wrong)]
    assert await update(broker, 0, FeatureUpdateKey(feature="x", max_version_level=0, allow_downgrade=True)) == [
        ("x", wrong)
    ]
    assert await update(broker, 1, FeatureUpdateKey(feature="x", max_version_level=0)) == [("x", wrong)]
    assert await update(broker, 1, FeatureUpdateKey(feature="x", max_version_level=1, upgrade_type=9)) == [("x", wrong)]


async def test_features_are_the_controllers_business(broker: Station) -> None:
    broker.update_metadata(controller_id=2)
    for version in (0, 1):
        answer = await broker.ask(UpdateFeaturesRequest(feature_updates=[]), version)
        assert (answer.error_code, answer.results) == (ErrorCode.NOT_CONTROLLER, [])
