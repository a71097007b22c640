"""Reading: the consumer, its place in a group, and what it fetches ahead.

consumer, calls                       what users see
core                                  the parts put together
delivery, records                     handing out records, lists of them, or columns
assigned, partition, positions        where each partition is read, and finding out where that is
fetcher, broker_fetch, sessions,      fetching ahead with bounded memory
fetched, memory
member, membership, heartbeats,       the group: a state machine, and what it does
leader, rebalance, commits, assignors
handed_out, program_commits           in which generation the program commits what it was given
pacing                                letting the event loop run
"""

from minikafka.client.consumer.config import ConsumerConfig
from minikafka.client.consumer.consumer import Consumer
from minikafka.client.consumer.metrics import ConsumerMetrics
from minikafka.client.consumer.records import ConsumerBatch, ConsumerRecord
from minikafka.client.consumer.subscription import ConsumerRebalanceListener

__all__ = [
    "Consumer",
    "ConsumerBatch",
    "ConsumerConfig",
    "ConsumerMetrics",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
]
