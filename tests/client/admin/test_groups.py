"""Groups and what they have committed, with members in them and without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from minikafka.client.admin import Admin
from minikafka.client.producer import Producer
from minikafka.client.structs import OffsetAndMetadata, TopicPartition
from minikafka.protocol.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    NonEmptyGroupError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from tests.client.consumer.reading import open_consumer, take


async def test_a_group_with_a_member(admin: Admin, bootstrap: str, topic: str, name: Callable[[], str]) -> None:
    group, place = name(), TopicPartition(topic, 0)
    async with Producer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, b"x")
    async with open_consumer(bootstrap, topic, group_id=group, client_id="reader", group_instance_id="first") as it:
        await take(it, 1)
        await it.commit()
        found = (await admin.describe_consumer_groups([group]))[group]
        assert (found.state, found.protocol_type, found.protocol) == ("Stable", "consumer", "sticky")
        (member,) = found.members
        assert (member.client_id, member.group_instance_id, member.assignment) == ("reader", "first", (place,))
        (listed,) = [each for each in await admin.list_consumer_groups() if each.group_id == group]
        assert (listed.state, listed.coordinator) == ("Stable", found.coordinator)
        assert await admin.list_consumer_group_offsets(group) == {place: OffsetAndMetadata(1, "", 0)}
        with pytest.raises(NonEmptyGroupError):
            await admin.delete_consumer_groups([group])
        with pytest.raises(GroupSubscribedToTopicError):
            await admin.delete_consumer_group_offsets(group, [place])
        results = await admin.remove_members(group, group_instance_ids=["first", "second"], raise_errors=False)
        assert {*results.done} == {"first"} and {*results.errors} == {"second"}
        assert isinstance(results.errors["second"], UnknownMemberIdError)


async def test_offsets_without_a_member(admin: Admin, topic: str, name: Callable[[], str]) -> None:
    group, place, nowhere = name(), TopicPartition(topic, 0), TopicPartition(topic, 7)
    results = await admin.alter_consumer_group_offsets(
        group, {place: OffsetAndMetadata(5, "note"), nowhere: 1}, raise_errors=False
    )
    assert {*results.done} == {place}
    assert isinstance(results.errors[nowhere], UnknownTopicOrPartitionError)
    assert await admin.list_consumer_group_offsets(group) == {place: OffsetAndMetadata(5, "note")}
    assert await admin.list_consumer_group_offsets(group, partitions=[place, nowhere]) == {
        place: OffsetAndMetadata(5, "note")
    }
    assert await admin.list_consumer_group_offsets(group, partitions=[]) == {}
    await admin.delete_consumer_group_offsets(group, [place])
    assert await admin.list_consumer_group_offsets(group) == {}


async def test_a_group_is_deleted(admin: Admin, topic: str, name: Callable[[], str]) -> None:
    group, missing = name(), name()
    await admin.alter_consumer_group_offsets(group, {TopicPartition(topic, 0): 0})
    results = await admin.delete_consumer_groups([group, missing], raise_errors=False)
    assert {*results.done} == {group}
    assert isinstance(results.errors[missing], GroupIdNotFoundError)
    assert group not in {each.group_id for each in await admin.list_consumer_groups()}


async def test_a_group_that_is_not_there(admin: Admin, name: Callable[[], str]) -> None:
    group = name()
    assert await admin.list_consumer_group_offsets(group) == {}
    found = (await admin.describe_consumer_groups([group]))[group]
    assert (found.state, found.members) == ("Dead", ())


async def test_groups_by_their_state(admin: Admin, topic: str, name: Callable[[], str]) -> None:
    group = name()
    await admin.alter_consumer_group_offsets(group, {TopicPartition(topic, 0): 0})
    assert group in {each.group_id for each in await admin.list_consumer_groups(states=["Empty"])}
    assert group not in {each.group_id for each in await admin.list_consumer_groups(states=["Stable"])}


async def test_many_groups_at_once(admin: Admin, topic: str, name: Callable[[], str]) -> None:
    groups = [name() for _ in range(10)]
    commits = (admin.alter_consumer_group_offsets(group, {TopicPartition(topic, 0): 3}) for group in groups)
    await asyncio.gather(*commits)
    found = await admin.describe_consumer_groups(groups)
    assert [*found] == groups
    assert {each.state for each in found.values()} == {"Empty"}


async def test_admin_finds_coordinators(admin: Admin, topic: str, name: Callable[[], str]) -> None:
    group = name()
    await admin.alter_consumer_group_offsets(group, {TopicPartition(topic, 0): 5})
    (listing,) = [listing for listing in await admin.list_consumer_groups() if listing.group_id == group]
    assert await admin.find_coordinator(group) == listing.coordinator
    brokers = {broker.node_id for broker in (await admin.describe_cluster()).brokers}
    assert await admin.find_coordinator("some id", 1) in brokers
