"""Errors of groups: members, committed offsets, coordinators and share groups. The docstring is the message."""

from minikafka.protocol.errors.base import KafkaError, RetriableError
from minikafka.protocol.errors.codes import ErrorCode


class OffsetMetadataTooLargeError(KafkaError, code=ErrorCode.OFFSET_METADATA_TOO_LARGE):
    """The metadata of a committed offset is too long."""


class CoordinatorLoadInProgressError(RetriableError, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
    """The coordinator is still reading its state."""


class CoordinatorNotAvailableError(RetriableError, code=ErrorCode.COORDINATOR_NOT_AVAILABLE):
    """There is no coordinator at the moment."""


class NotCoordinatorError(RetriableError, code=ErrorCode.NOT_COORDINATOR):
    """The broker does not coordinate this group or transactional id."""


class IllegalGenerationError(KafkaError, code=ErrorCode.ILLEGAL_GENERATION):
    """The group is at another generation."""


class InconsistentGroupProtocolError(KafkaError, code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
    """The member shares no protocol with the rest of the group."""


class InvalidGroupIdError(KafkaError, code=ErrorCode.INVALID_GROUP_ID):
    """The group id cannot be used."""


class UnknownMemberIdError(KafkaError, code=ErrorCode.UNKNOWN_MEMBER_ID):
    """The group has no such member."""


class InvalidSessionTimeoutError(KafkaError, code=ErrorCode.INVALID_SESSION_TIMEOUT):
    """The session timeout is outside of what the broker allows."""


class RebalanceInProgressError(KafkaError, code=ErrorCode.REBALANCE_IN_PROGRESS):
    """The group is rebalancing; join again."""


class InvalidCommitOffsetSizeError(KafkaError, code=ErrorCode.INVALID_COMMIT_OFFSET_SIZE):
    """The committed offsets do not fit into one batch."""


class GroupAuthorizationFailedError(KafkaError, code=ErrorCode.GROUP_AUTHORIZATION_FAILED):
    """Not allowed to use this group."""


class NonEmptyGroupError(KafkaError, code=ErrorCode.NON_EMPTY_GROUP):
    """The group still has members."""


class GroupIdNotFoundError(KafkaError, code=ErrorCode.GROUP_ID_NOT_FOUND):
    """There is no such group."""


class MemberIdRequiredError(KafkaError, code=ErrorCode.MEMBER_ID_REQUIRED):
    """Join again with the member id of this answer."""


class GroupMaxSizeReachedError(KafkaError, code=ErrorCode.GROUP_MAX_SIZE_REACHED):
    """The group has as many members as the broker allows."""


class FencedInstanceIdError(KafkaError, code=ErrorCode.FENCED_INSTANCE_ID):
    """Another member has taken this group instance id."""


class GroupSubscribedToTopicError(KafkaError, code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC):
    """The group reads this topic, so its offsets cannot be deleted."""


class UnstableOffsetCommitError(RetriableError, code=ErrorCode.UNSTABLE_OFFSET_COMMIT):
    """Offsets wait for the end of a transaction."""


class FencedMemberEpochError(KafkaError, code=ErrorCode.FENCED_MEMBER_EPOCH):
    """The member's epoch is over; give up all partitions and join again."""


class UnreleasedInstanceIdError(KafkaError, code=ErrorCode.UNRELEASED_INSTANCE_ID):
    """The group instance id still belongs to another member."""


class UnsupportedAssignorError(KafkaError, code=ErrorCode.UNSUPPORTED_ASSIGNOR):
    """The group does not support this assignor."""


class StaleMemberEpochError(KafkaError, code=ErrorCode.STALE_MEMBER_EPOCH):
    """The member's epoch is old; heartbeat, then try again."""


class InvalidRecordStateError(KafkaError, code=ErrorCode.INVALID_RECORD_STATE):
    """The record is not in a state in which it can be acknowledged."""


class ShareSessionNotFoundError(RetriableError, code=ErrorCode.SHARE_SESSION_NOT_FOUND):
    """The broker does not know this share session."""


class InvalidShareSessionEpochError(RetriableError, code=ErrorCode.INVALID_SHARE_SESSION_EPOCH):
    """The share session is at another epoch."""


class FencedStateEpochError(KafkaError, code=ErrorCode.FENCED_STATE_EPOCH):
    """The share group's state is at another epoch."""
