"""Looking after a cluster: what an admin can ask for, in families.

admin     what users call; a family a module: topics, configs, partitions (leaders' business), groups, group_offsets,
          replicas, cluster_calls, transactions, quotas, scram, acls, tokens
asking    which broker to ask, and asking again            results    a value or an error for each thing asked about
"""

from minikafka.client.admin.acls import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType
from minikafka.client.admin.admin import Admin, AdminConfig
from minikafka.client.admin.cluster_calls import BrokerDescription, BrokerVersions, ClusterDescription, FeatureUpdate
from minikafka.client.admin.configs import (
    AlterOperation,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
)
from minikafka.client.admin.groups import GroupDescription, GroupListing, MemberDescription
from minikafka.client.admin.partitions import ActiveProducer, OffsetSpec, RecordsToDelete
from minikafka.client.admin.quotas import QUOTA_ANY, QUOTA_DEFAULT, QuotaEntity
from minikafka.client.admin.replicas import ElectionType, LogDirDescription, LogDirReplica, Reassignment, Replica
from minikafka.client.admin.results import Results
from minikafka.client.admin.scram import ScramCredential, ScramDeletion, ScramMechanism, ScramUpsertion
from minikafka.client.admin.tokens import DelegationToken, Principal
from minikafka.client.admin.topics import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicDescription,
)
from minikafka.client.admin.transactions import TransactionDescription, TransactionListing

__all__ = [
    "QUOTA_ANY",
    "QUOTA_DEFAULT",
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPermission",
    "ActiveProducer",
    "Admin",
    "AdminConfig",
    "AlterOperation",
    "BrokerDescription",
    "BrokerVersions",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "CreatedTopic",
    "DelegationToken",
    "ElectionType",
    "FeatureUpdate",
    "GroupDescription",
    "GroupListing",
    "LogDirDescription",
    "LogDirReplica",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "PartitionDescription",
    "PatternType",
    "Principal",
    "QuotaEntity",
    "Reassignment",
    "RecordsToDelete",
    "Replica",
    "ResourceType",
    "Results",
    "ScramCredential",
    "ScramDeletion",
    "ScramMechanism",
    "ScramUpsertion",
    "TopicDescription",
    "TransactionDescription",
    "TransactionListing",
]
