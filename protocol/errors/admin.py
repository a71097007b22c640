"""Errors of topic and config changes, of security, quotas and telemetry. The docstring is the message."""

from minikafka.protocol.errors.base import KafkaError, RetriableError
from minikafka.protocol.errors.codes import ErrorCode


class InvalidTopicError(KafkaError, code=ErrorCode.INVALID_TOPIC_EXCEPTION):
    """The topic's name cannot be used, or the topic does not allow this."""


class TopicAuthorizationFailedError(KafkaError, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED):
    """Not allowed to use this topic."""


class ClusterAuthorizationFailedError(KafkaError, code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
    """Not allowed to do this on the cluster."""


class UnsupportedSaslMechanismError(KafkaError, code=ErrorCode.UNSUPPORTED_SASL_MECHANISM):
    """The broker does not offer this SASL mechanism."""


class IllegalSaslStateError(KafkaError, code=ErrorCode.ILLEGAL_SASL_STATE):
    """The request does not fit where the SASL exchange stands."""


class UnsupportedVersionError(KafkaError, code=ErrorCode.UNSUPPORTED_VERSION):
    """The broker does not speak this version of the request."""


class TopicAlreadyExistsError(KafkaError, code=ErrorCode.TOPIC_ALREADY_EXISTS):
    """A topic of this name exists."""


class InvalidPartitionsError(KafkaError, code=ErrorCode.INVALID_PARTITIONS):
    """The number of partitions cannot be used."""


class InvalidReplicationFactorError(KafkaError, code=ErrorCode.INVALID_REPLICATION_FACTOR):
    """The replication factor is below 1 or above the number of brokers."""


class InvalidReplicaAssignmentError(KafkaError, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT):
    """The assignment of replicas cannot be used."""


class InvalidConfigError(KafkaError, code=ErrorCode.INVALID_CONFIG):
    """A config key or value cannot be used."""


class InvalidRequestError(KafkaError, code=ErrorCode.INVALID_REQUEST):
    """The request contradicts itself or its version."""


class PolicyViolationError(KafkaError, code=ErrorCode.POLICY_VIOLATION):
    """A policy of the cluster forbids this."""


class SecurityDisabledError(KafkaError, code=ErrorCode.SECURITY_DISABLED):
    """The cluster runs without this security feature."""


class OperationNotAttemptedError(KafkaError, code=ErrorCode.OPERATION_NOT_ATTEMPTED):
    """Not tried, because an earlier part of the request failed."""


class SaslAuthenticationFailedError(KafkaError, code=ErrorCode.SASL_AUTHENTICATION_FAILED):
    """The credentials were not accepted."""


class ReassignmentInProgressError(KafkaError, code=ErrorCode.REASSIGNMENT_IN_PROGRESS):
    """The partition is being reassigned."""


class DelegationTokenAuthDisabledError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED):
    """The cluster runs without delegation tokens."""


class DelegationTokenNotFoundError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND):
    """There is no such delegation token."""


class DelegationTokenOwnerMismatchError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH):
    """The delegation token belongs to another principal."""


class DelegationTokenRequestNotAllowedError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED):
    """Delegation tokens cannot be asked for over this kind of connection."""


class DelegationTokenAuthorizationFailedError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED):
    """Not allowed to use this delegation token."""


class DelegationTokenExpiredError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_EXPIRED):
    """The delegation token is past its time."""


class InvalidPrincipalTypeError(KafkaError, code=ErrorCode.INVALID_PRINCIPAL_TYPE):
    """The type of a principal is not supported."""


class TopicDeletionDisabledError(KafkaError, code=ErrorCode.TOPIC_DELETION_DISABLED):
    """The cluster does not allow topics to be deleted."""


class NoReassignmentInProgressError(KafkaError, code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS):
    """The partition is not being reassigned."""


class ThrottlingQuotaExceededError(RetriableError, code=ErrorCode.THROTTLING_QUOTA_EXCEEDED):
    """A quota is used up; try again later."""


class ResourceNotFoundError(KafkaError, code=ErrorCode.RESOURCE_NOT_FOUND):
    """The request names something that does not exist."""


class DuplicateResourceError(KafkaError, code=ErrorCode.DUPLICATE_RESOURCE):
    """The request names the same thing twice."""


class UnacceptableCredentialError(KafkaError, code=ErrorCode.UNACCEPTABLE_CREDENTIAL):
    """The credential is too weak or malformed."""


class InvalidUpdateVersionError(KafkaError, code=ErrorCode.INVALID_UPDATE_VERSION):
    """The feature cannot go to this version."""


class FeatureUpdateFailedError(KafkaError, code=ErrorCode.FEATURE_UPDATE_FAILED):
    """The features could not be updated."""


class PrincipalDeserializationFailureError(KafkaError, code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE):
    """The principal of a forwarded request cannot be read."""


class UnknownSubscriptionIdError(KafkaError, code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID):
    """The telemetry subscription is unknown or out of date."""


class TelemetryTooLargeError(KafkaError, code=ErrorCode.TELEMETRY_TOO_LARGE):
    """The telemetry is larger than the broker takes."""
