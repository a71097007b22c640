"""Sending records: batching, retries, idempotence, transactions.

producer      what users call                     config, partitioners, metrics   what they set and see
batch_calls   the same, for many records          builder                         a batch that its program fills
checks        what `send` is given                topics                          what is known of topics
accumulator   records into batches, and room      batch, queues                   records of a batch, a partition
sender, lane  what is sent when and where         sequences                       numbering, as pure rules
watch         tasks that may not end unseen
identity, transactions, coordinator               transaction_states              the same for transactions
"""

from minikafka.client.producer.batch import BatchDelivery, BatchMetadata, Delivery, RecordMetadata
from minikafka.client.producer.builder import BatchBuilder
from minikafka.client.producer.config import ProducerConfig
from minikafka.client.producer.metrics import ProducerMetrics
from minikafka.client.producer.producer import Producer

__all__ = [
    "BatchBuilder",
    "BatchDelivery",
    "BatchMetadata",
    "Delivery",
    "Producer",
    "ProducerConfig",
    "ProducerMetrics",
    "RecordMetadata",
]
