"""The client library: producer, consumer and admin for asyncio, and synchronously in `minikafka.client.sync`.

May import `minikafka.protocol` and nothing else of ours, and needs no more than the light install, so
that a program which only talks to a cluster does not carry a broker with it.

    producer/, consumer/, admin/    the three that users call
    cluster, metadata, refresher    who leads what, kept up to date; coordinators, retries
    connections, connection,        one connection to each broker: versions, TLS, logging in
    handshake, sasl, versions
    config, options, serializers    what users set
    errors, structs, clock, shared  small things that all of them use

Every error is a `KafkaError`: of the class of its code if a broker has answered with it (`minikafka.protocol.errors`),
one of `minikafka.client.errors` otherwise.
"""

from minikafka.client.admin import Admin, NewPartitions, NewTopic
from minikafka.client.consumer import Consumer, ConsumerBatch, ConsumerRebalanceListener, ConsumerRecord
from minikafka.client.errors import (
    AuthenticationFailed,
    ClientClosed,
    ClientError,
    ConfigError,
    ConnectionFailed,
    DeliveryTimeout,
    IllegalState,
    NoBrokersAvailable,
    ProducerFailed,
    RecordTooLarge,
    RequestTimeout,
    SerializationFailed,
    TransactionFailed,
    WrongListener,
)
from minikafka.client.producer import BatchMetadata, Delivery, Producer, RecordMetadata
from minikafka.client.structs import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from minikafka.protocol.errors import KafkaError, RetriableError

__all__ = [
    "Admin",
    "AuthenticationFailed",
    "BatchMetadata",
    "ClientClosed",
    "ClientError",
    "ConfigError",
    "ConnectionFailed",
    "Consumer",
    "ConsumerBatch",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "Delivery",
    "DeliveryTimeout",
    "IllegalState",
    "KafkaError",
    "NewPartitions",
    "NewTopic",
    "NoBrokersAvailable",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "ProducerFailed",
    "RecordMetadata",
    "RecordTooLarge",
    "RequestTimeout",
    "RetriableError",
    "SerializationFailed",
    "TopicPartition",
    "TransactionFailed",
    "WrongListener",
]
