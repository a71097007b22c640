"""The credentials by which users log in with SCRAM: describe, set, delete.

A password is never sent: it is salted and hashed here, as the mechanism prescribes.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from minikafka.client.admin.asking import raise_for, verdict
from minikafka.client.admin.calls import Calls
from minikafka.client.admin.results import Results
from minikafka.client.errors import ConfigError
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages import sasl as wire

ITERATIONS: Final = 4096
"""What RFC 5802 asks for at least, and Kafka's default; a hash that is stolen costs an attacker in proportion."""

_SALT_BYTES: Final = 24


class ScramMechanism(IntEnum):
    """By the numbers of the protocol."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def hash_name(self) -> str:
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()

    def __str__(self) -> str:
        return self.name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A credential that a user has; what it is made of is not told."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A user's new password for one mechanism."""

    user: str
    password: str = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
    iterations: int = ITERATIONS


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """A credential to take away."""

    user: str
    mechanism: ScramMechanism


class ScramCalls(Calls):
    """See the module's description."""

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, raise_errors: bool = True
    ) -> Results[str, tuple[ScramCredential, ...]]:
        """The credentials of users, or of all that have any."""
        names = None if users is None else [wire.ScramUserName(name=name) for name in users]
        request = wire.DescribeUserScramCredentialsRequest(users=names)
        answer: wire.DescribeUserScramCredentialsResponse = await self._ask.ask_any(request)
        raise_for(answer.error_code, answer.error_message)
        outcomes = {
            each.user: verdict(each.error_code, each.error_message)
            or tuple(ScramCredential(ScramMechanism(info.mechanism), info.iterations) for info in each.credential_infos)
            for each in answer.results
        }
        return Results(outcomes).checked(raise_errors)

    async def alter_user_scram_credentials(
        self, alterations: Iterable[ScramUpsertion | ScramDeletion], *, raise_errors: bool = True
    ) -> Results[str, None]:
        """Set and delete credentials; each user's alterations succeed or fail together."""
        asker = self._ask
        by_user: dict[str, list[ScramUpsertion | ScramDeletion]] = {}
        for each in alterations:
            by_user.setdefault(each.user, []).append(each)

        async def ask(node_id: int, users: list[str]) -> Mapping[str, KafkaError | None]:
            wanted = [each for user in users for each in by_user[user]]
            request = wire.AlterUserScramCredentialsRequest(
                deletions=[_deletion(each) for each in wanted if isinstance(each, ScramDeletion)],
                upsertions=[_upsertion(each) for each in wanted if isinstance(each, ScramUpsertion)],
            )
            answer: wire.AlterUserScramCredentialsResponse = await asker.request(node_id, request)
            return {each.user: verdict(each.error_code, each.error_message) for each in answer.results}

        results: Results[str, None] = await asker.settle(by_user, asker.at_controller, ask)
        return results.checked(raise_errors)


def _deletion(wanted: ScramDeletion) -> wire.ScramCredentialDeletion:
    return wire.ScramCredentialDeletion(name=wanted.user, mechanism=wanted.mechanism)


def _upsertion(wanted: ScramUpsertion) -> wire.ScramCredentialUpsertion:
    if wanted.iterations < 1:
        raise ConfigError(f"a credential needs 1 or more iterations, not {wanted.iterations}")
    salt = secrets.token_bytes(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(wanted.mechanism.hash_name, wanted.password.encode(), salt, wanted.iterations)
    return wire.ScramCredentialUpsertion(
        name=wanted.user,
        mechanism=wanted.mechanism,
        iterations=wanted.iterations,
        salt=salt,
        salted_password=salted,
    )
