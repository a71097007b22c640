"""Errors of brokers, controllers, elections and quorums among themselves. The docstring is the message."""

from minikafka.protocol.errors.base import InvalidMetadataError, KafkaError, RetriableError
from minikafka.protocol.errors.codes import ErrorCode


class BrokerNotAvailableError(KafkaError, code=ErrorCode.BROKER_NOT_AVAILABLE):
    """The broker is not there."""


class StaleControllerEpochError(KafkaError, code=ErrorCode.STALE_CONTROLLER_EPOCH):
    """A newer controller has taken over."""


class NotControllerError(RetriableError, code=ErrorCode.NOT_CONTROLLER):
    """The broker is not the controller."""


class StaleBrokerEpochError(KafkaError, code=ErrorCode.STALE_BROKER_EPOCH):
    """The broker has registered anew since."""


class PreferredLeaderNotAvailableError(InvalidMetadataError, code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE):
    """The preferred replica cannot lead now."""


class EligibleLeadersNotAvailableError(InvalidMetadataError, code=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE):
    """No replica that may lead is alive."""


class ElectionNotNeededError(InvalidMetadataError, code=ErrorCode.ELECTION_NOT_NEEDED):
    """The partition has the leader it should have."""


class InconsistentVoterSetError(KafkaError, code=ErrorCode.INCONSISTENT_VOTER_SET):
    """Sender and receiver disagree on the voters of the quorum."""


class SnapshotNotFoundError(KafkaError, code=ErrorCode.SNAPSHOT_NOT_FOUND):
    """There is no such snapshot."""


class PositionOutOfRangeError(KafkaError, code=ErrorCode.POSITION_OUT_OF_RANGE):
    """The position lies outside of the snapshot."""


class DuplicateBrokerRegistrationError(KafkaError, code=ErrorCode.DUPLICATE_BROKER_REGISTRATION):
    """Another broker has this id."""


class BrokerIdNotRegisteredError(KafkaError, code=ErrorCode.BROKER_ID_NOT_REGISTERED):
    """No broker of this id is registered."""


class InconsistentClusterIdError(KafkaError, code=ErrorCode.INCONSISTENT_CLUSTER_ID):
    """The request is meant for another cluster."""


class IneligibleReplicaError(KafkaError, code=ErrorCode.INELIGIBLE_REPLICA):
    """The new ISR has a replica that may not be in it."""


class NewLeaderElectedError(KafkaError, code=ErrorCode.NEW_LEADER_ELECTED):
    """The change was made, and with it the leader changed."""


class MismatchedEndpointTypeError(KafkaError, code=ErrorCode.MISMATCHED_ENDPOINT_TYPE):
    """The request went to the wrong kind of endpoint."""


class UnsupportedEndpointTypeError(KafkaError, code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE):
    """This kind of endpoint is not supported."""


class UnknownControllerIdError(KafkaError, code=ErrorCode.UNKNOWN_CONTROLLER_ID):
    """There is no controller of this id."""


class InvalidRegistrationError(KafkaError, code=ErrorCode.INVALID_REGISTRATION):
    """The controller refused the broker's registration."""


class InvalidVoterKeyError(KafkaError, code=ErrorCode.INVALID_VOTER_KEY):
    """The voter's key is not that of the receiver."""


class DuplicateVoterError(KafkaError, code=ErrorCode.DUPLICATE_VOTER):
    """The voter is in the quorum already."""


class VoterNotFoundError(KafkaError, code=ErrorCode.VOTER_NOT_FOUND):
    """The voter is not in the quorum."""
