"""Which topics a consumer group reads: the one thing that a coordinator looks up in what members tell each other."""

from __future__ import annotations

from typing import Final

from minikafka.broker.coordinators.groups.group import Group
from minikafka.protocol.errors import DecodeError
from minikafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

CONSUMER: Final = "consumer"
"""The protocol type of consumers; what others say is theirs alone."""


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """All topics that members have subscribed to; None if that cannot be known."""
    if group.protocol_type != CONSUMER:
        return None
    topics: set[str] = set()
    for member in group.members:
        try:
            topics.update(ConsumerProtocolSubscription.parse(member.metadata(group.protocol_name)).topics)
        except DecodeError:
            return None
    return frozenset(topics)
