"""ApiVersions: the features that are finalized, and what becomes of clients that rely on one that is taken back."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from minikafka.broker.features import TRANSACTION_VERSION
from minikafka.broker.handlers import api_versions
from minikafka.broker.network.connection import Connection
from minikafka.protocol.control import FeatureLevel
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, FinalizedFeatureKey
from tests.broker.handlers.station import Station, station

ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.fixture
async def made() -> AsyncIterator[Station]:
    async with station(lambda context: [api_versions.route({}, context.metadata)]) as found:
        yield found


def finalize(made: Station, level: int, epoch: int) -> None:
    levels = [FeatureLevel(name=TRANSACTION_VERSION, level=level)] if level else []
    made.update_metadata(features=levels, features_epoch=epoch)


async def test_api_versions_tells_finalized_features(made: Station) -> None:
    answer = await made.ask(ASK, 4)
    assert (answer.finalized_features, answer.finalized_features_epoch) == ([], -1)
    finalize(made, 2, 5)
    answer = await made.ask(ASK, 4)
    assert answer.finalized_features_epoch == 5
    assert answer.finalized_features == [
        FinalizedFeatureKey(name=TRANSACTION_VERSION, max_version_level=2, min_version_level=2)
    ]
    assert [(each.name, each.min_version, each.max_version) for each in answer.supported_features] == [
        (TRANSACTION_VERSION, 0, 2)
    ]


async def test_api_versions_spares_older_clients_a_lowest_level_of_0(made: Station) -> None:
    """They would refuse the whole answer (KAFKA-17011); what is finalized they understand."""
    finalize(made, 2, 5)
    answer = await made.ask(ASK, 3)
    assert not answer.supported_features and answer.finalized_features


async def test_api_versions_disconnects_who_has_heard_of_a_feature_that_is_taken_back(
    made: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Connection] = []
    monkeypatch.setattr(Connection, "drain", lambda connection: ended.append(connection))
    early = made.another_connection()
    await made.ask(ASK, 4, early)
    finalize(made, 2, 5)
    await made.ask(ASK, 4)
    finalize(made, 2, 5)
    assert not ended
    finalize(made, 0, 6)
    assert ended == [made.connection]
    finalize(made, 2, 7)
    finalize(made, 0, 8)
    assert ended == [made.connection]
