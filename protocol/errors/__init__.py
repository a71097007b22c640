"""Every error of the protocol in one place: what to catch, and `error_for` to make an exception of a code.

The classes live in `base` (the kinds of errors) and, one class per code, in `data`, `groups`, `admin` and `cluster`.
"""

from minikafka.protocol.errors.admin import *  # noqa: F403
from minikafka.protocol.errors.base import *  # noqa: F403
from minikafka.protocol.errors.base import CLASS_BY_CODE, KafkaError
from minikafka.protocol.errors.cluster import *  # noqa: F403
from minikafka.protocol.errors.codes import *  # noqa: F403
from minikafka.protocol.errors.data import *  # noqa: F403
from minikafka.protocol.errors.data import UnknownServerError
from minikafka.protocol.errors.groups import *  # noqa: F403


def error_for(code: int, message: str | None = None) -> KafkaError:
    """The exception for a code of an answer; a code that is not known here becomes an UnknownServerError."""
    if code == 0:
        raise ValueError("code 0 is success, not an error")
    known = CLASS_BY_CODE.get(code)
    if known is not None:
        return known(message)
    error = UnknownServerError(message or f"the broker answered with error code {code}")
    error.wire_code = code
    return error
