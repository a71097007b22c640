"""The cluster as a whole, users and rights, transactions; and how an admin finds whom to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from minikafka.client.admin import (
    QUOTA_ANY,
    QUOTA_DEFAULT,
    AclBinding,
    AclFilter,
    AclOperation,
    Admin,
    FeatureUpdate,
    NewTopic,
    Principal,
    QuotaEntity,
    ResourceType,
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from minikafka.client.errors import ClientClosed, ConfigError, NoBrokersAvailable
from minikafka.client.producer import Producer
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import (
    BrokerNotAvailableError,
    DelegationTokenAuthDisabledError,
    DelegationTokenRequestNotAllowedError,
    InvalidRequestError,
    KafkaError,
    ResourceNotFoundError,
    SecurityDisabledError,
    TransactionalIdNotFoundError,
    UnsupportedVersionError,
)
from tests.client.admin.waiting import until_partition
from tests.compat.running import Cluster, free_ports


async def test_the_cluster(admin: Admin, up_cluster: Cluster) -> None:
    found = await admin.describe_cluster()
    assert found.cluster_id and found.controller_id in up_cluster.broker_ids
    assert [(each.node_id, each.port) for each in found.brokers] == [
        (each.id, each.port) for each in up_cluster.brokers
    ]


async def test_what_brokers_serve(admin: Admin) -> None:
    versions = await admin.describe_api_versions()
    assert {*versions} == {1, 2, 3}
    assert versions[1].apis["ApiVersions"] == (0, 4)
    assert [*await admin.describe_api_versions([2])] == [2]
    with pytest.raises(BrokerNotAvailableError):
        await admin.describe_api_versions([99])


async def test_features(admin: Admin) -> None:
    with pytest.raises(KafkaError) as caught:
        await admin.update_features({"no.such.feature": FeatureUpdate(1)})
    assert not caught.value.retriable


async def test_quotas(admin: Admin, name: Callable[[], str]) -> None:
    client = name()
    one, rest = QuotaEntity(client_id=client), QuotaEntity(user=client, client_id=QUOTA_DEFAULT)
    await admin.alter_client_quotas({one: {"producer_byte_rate": 1e9, "consumer_byte_rate": 2e9}, rest: {}})
    await admin.alter_client_quotas({one: {"consumer_byte_rate": None}, rest: {"request_percentage": 200}})
    assert await admin.describe_client_quotas(one) == {one: {"producer_byte_rate": 1e9}}
    assert await admin.describe_client_quotas(rest) == {rest: {"request_percentage": 200}}
    every = await admin.describe_client_quotas(QuotaEntity(client_id=QUOTA_ANY), strict=True)
    assert one in every and rest not in every
    assert {one, rest} <= {*await admin.describe_client_quotas()}
    results = await admin.alter_client_quotas({one: {"no_such_rate": 1.0}}, validate_only=True, raise_errors=False)
    assert isinstance(results.errors[one], InvalidRequestError)
    await admin.alter_client_quotas({one: {"producer_byte_rate": None}, rest: {"request_percentage": None}})


async def test_scram_credentials(admin: Admin, name: Callable[[], str]) -> None:
    user, mechanism = name(), ScramMechanism.SCRAM_SHA_256
    new = ScramUpsertion(user, "secret", mechanism, 5000)
    assert "secret" not in repr(new)
    await admin.alter_user_scram_credentials([new])
    found = await admin.describe_user_scram_credentials([user])
    assert found[user] == (ScramCredential(mechanism, 5000),)
    assert user in await admin.describe_user_scram_credentials()
    await admin.alter_user_scram_credentials([ScramDeletion(user, mechanism)])
    with pytest.raises(ResourceNotFoundError):
        await admin.describe_user_scram_credentials([user])
    with pytest.raises(ConfigError):
        await admin.alter_user_scram_credentials([ScramUpsertion(user, "secret", mechanism, 0)])


async def test_rights_are_refused_where_there_are_none(admin: Admin) -> None:
    rule = AclBinding(ResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)
    with pytest.raises(SecurityDisabledError):
        await admin.describe_acls()
    with pytest.raises(SecurityDisabledError):
        await admin.create_acls([rule])
    results = await admin.delete_acls([AclFilter(principal="User:alice")], raise_errors=False)
    assert [type(error) for error in results.errors.values()] == [SecurityDisabledError]


async def test_delegation_tokens_are_refused_where_there_are_none(admin: Admin) -> None:
    refusals = (DelegationTokenAuthDisabledError, DelegationTokenRequestNotAllowedError)
    with pytest.raises(refusals):
        await admin.create_delegation_token(renewers=[Principal("alice")])
    with pytest.raises(refusals):
        await admin.renew_delegation_token(b"x")
    with pytest.raises(refusals):
        await admin.expire_delegation_token(b"x")
    with pytest.raises(refusals):
        await admin.describe_delegation_tokens([Principal("alice")])


async def has_transactions(admin: Admin) -> bool:
    return "ListTransactions" in (await admin.describe_api_versions([1]))[1].apis


async def test_transactions(admin: Admin, bootstrap: str, topic: str, name: Callable[[], str]) -> None:
    if not await has_transactions(admin):
        # One clear error of a broker that does without them, and no waiting.
        with pytest.raises(UnsupportedVersionError):
            await admin.list_transactions()
        return
    transactional_id, place = name(), TopicPartition(topic, 0)
    async with Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"x", partition=0)
        found = (await admin.describe_transactions([transactional_id]))[transactional_id]
        assert (found.state, found.partitions) == ("Ongoing", (place,))
        listed = await admin.list_transactions(states=["Ongoing"], producer_ids=[found.producer_id])
        assert [each.transactional_id for each in listed] == [transactional_id]
        (writer,) = (await admin.describe_producers([place]))[place]
        assert (writer.producer_id, writer.transaction_start_offset) == (found.producer_id, 0)
        await producer.abort_transaction()
    with pytest.raises(TransactionalIdNotFoundError):
        await admin.describe_transactions([name()])
    with pytest.raises(ConfigError, match="Sleeping"):
        await admin.list_transactions(states=["Sleeping"])


async def test_a_transaction_that_hangs_is_ended(
    admin: Admin, bootstrap: str, topic: str, name: Callable[[], str]
) -> None:
    if not await has_transactions(admin):
        with pytest.raises(UnsupportedVersionError):
            await admin.abort_transaction(TopicPartition(topic, 0), producer_id=1, producer_epoch=0)
        return
    place = TopicPartition(topic, 0)
    async with Producer(bootstrap_servers=bootstrap, transactional_id=name()) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"x", partition=0)
        (writer,) = (await admin.describe_producers([place]))[place]
        await admin.abort_transaction(
            place,
            producer_id=writer.producer_id,
            producer_epoch=writer.producer_epoch,
            coordinator_epoch=writer.coordinator_epoch,
        )
        (writer,) = (await admin.describe_producers([place]))[place]
        assert writer.transaction_start_offset is None
        await producer.abort_transaction()


# ------------------------------------------------------------------------------------------- whom to ask


async def test_another_broker_is_the_controller(admin: Admin, name: Callable[[], str]) -> None:
    """What the admin believes is out of date: it asks the wrong one, is told so, and finds the right one."""
    refresher = admin._ask.cluster._refresher
    right = (await admin.describe_cluster()).controller_id
    wrong = next(each for each in refresher.metadata.brokers if each != right)
    refresher.metadata = replace(refresher.metadata, controller_id=wrong)
    topic = name()
    await admin.create_topics([NewTopic(topic)])
    assert topic in await admin.list_topics()
    assert refresher.metadata.controller_id == right


async def test_another_broker_is_the_coordinator(admin: Admin, topic: str, name: Callable[[], str]) -> None:
    group = name()
    await admin.alter_consumer_group_offsets(group, {TopicPartition(topic, 0): 1})
    coordinators = admin._ask.cluster._coordinators
    ((key, right),) = [item for item in coordinators.items() if item[0][1] == group]
    wrong = next(each for each in (1, 2, 3) if each != right)
    for call in (
        lambda: admin.list_consumer_group_offsets(group),
        lambda: admin.describe_consumer_groups([group]),
        lambda: admin.alter_consumer_group_offsets(group, {TopicPartition(topic, 0): 2}),
        lambda: admin.delete_consumer_groups([group]),
    ):
        coordinators[key] = wrong
        await call()
        assert coordinators[key] == right


async def test_another_broker_leads(admin: Admin, name: Callable[[], str]) -> None:
    topic = name()
    await admin.create_topics([NewTopic(topic, replica_assignments={0: [1]})])
    place = TopicPartition(topic, 0)
    await admin.list_offsets({place: -1})
    await admin.alter_partition_reassignments({place: [2]})
    await until_partition(admin, place, lambda found: found.replicas == (2,))
    assert (await admin.list_offsets({place: -1}))[place].offset == 0


async def test_nobody_is_there() -> None:
    with pytest.raises(NoBrokersAvailable):
        async with Admin(bootstrap_servers=f"127.0.0.1:{free_ports(1)}"):
            pytest.fail("there is nobody")


async def test_an_admin_that_is_closed(bootstrap: str) -> None:
    admin = Admin.from_config({"bootstrap.servers": bootstrap, "client.id": "closed"})
    with pytest.raises(ClientClosed):
        await admin.list_topics()
    await admin.start()
    await admin.start()
    waiting = asyncio.create_task(admin.list_topics())
    await admin.close()
    await admin.stop()
    with pytest.raises(ClientClosed):
        await waiting
    with pytest.raises(ClientClosed):
        await admin.start()


async def test_nothing_is_left_of_an_admin(bootstrap: str) -> None:
    before = asyncio.all_tasks()
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.list_consumer_groups()
    assert asyncio.all_tasks() <= before


async def test_options_that_do_not_exist(bootstrap: str) -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        Admin(bootstrap_server=bootstrap)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        Admin.from_config({"bootstrap.server": bootstrap})


async def test_started_and_stopped_at_once(bootstrap: str) -> None:
    before = asyncio.all_tasks()
    admin = Admin(bootstrap_servers=bootstrap)
    await asyncio.gather(admin.start(), admin.start())
    await admin.list_topics()
    await admin.stop()
    other = Admin(bootstrap_servers=bootstrap)
    starting = asyncio.create_task(other.start())
    await asyncio.sleep(0)
    await other.stop()
    with pytest.raises(ClientClosed):
        await starting
    assert asyncio.all_tasks() == before
