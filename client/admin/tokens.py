"""Delegation tokens: create, renew, expire, describe. A cluster without them answers DELEGATION_TOKEN_AUTH_DISABLED."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minikafka.client.admin.asking import raise_for
from minikafka.client.admin.calls import Calls
from minikafka.protocol.message import Request
from minikafka.protocol.messages import sasl as wire


class Principal(NamedTuple):
    """Who: nearly always a user."""

    name: str
    kind: str = "User"

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token; its `hmac` is a password."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    hmac: bytes = field(repr=False)


class TokenCalls(Calls):
    """See the module's description."""

    async def create_delegation_token(
        self, *, owner: Principal | None = None, renewers: Iterable[Principal] = (), max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """A token for whoever is logged in, or for another owner; -1 leaves its lifetime to the broker."""
        allowed = tuple(renewers)
        request = wire.CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else owner.kind,
            owner_principal_name=None if owner is None else owner.name,
            renewers=[wire.DelegationTokenRenewer(principal_type=it.kind, principal_name=it.name) for it in allowed],
            max_lifetime_ms=max_lifetime_ms,
        )
        # Another owner can be named from version 3 on.
        answer: wire.CreateDelegationTokenResponse = await self._ask_token(request, 0 if owner is None else 3)
        return DelegationToken(
            answer.token_id,
            Principal(answer.principal_name, answer.principal_type),
            Principal(answer.token_requester_principal_name, answer.token_requester_principal_type),
            allowed,
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
            bytes(answer.hmac),
        )

    async def renew_delegation_token(self, hmac: bytes, *, renew_period_ms: int = -1) -> int:
        """Let a token live longer; until when, in ms since 1970."""
        request = wire.RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=renew_period_ms)
        answer: wire.RenewDelegationTokenResponse = await self._ask_token(request)
        return answer.expiry_timestamp_ms

    async def expire_delegation_token(self, hmac: bytes, *, expiry_time_period_ms: int = -1) -> int:
        """Let a token end in a while, or at once with -1; when, in ms since 1970."""
        request = wire.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=expiry_time_period_ms)
        answer: wire.ExpireDelegationTokenResponse = await self._ask_token(request)
        return answer.expiry_timestamp_ms

    async def describe_delegation_tokens(self, owners: Iterable[Principal] | None = None) -> list[DelegationToken]:
        """The tokens of some owners, or all that may be seen."""
        wanted = None
        if owners is not None:
            wanted = [
                wire.DescribeDelegationTokenOwner(principal_type=each.kind, principal_name=each.name) for each in owners
            ]
        request = wire.DescribeDelegationTokenRequest(owners=wanted)
        answer: wire.DescribeDelegationTokenResponse = await self._ask.ask_any(request)
        raise_for(answer.error_code)
        return [_token(each) for each in answer.tokens]

    async def _ask_token(self, request: Request, lowest: int = 0) -> Any:
        asker = self._ask

        async def ask(node_id: int) -> Any:
            answer = await asker.cluster.request(node_id, request, min_version=lowest)
            raise_for(answer.error_code)
            return answer

        return await asker.ask_controller(ask, what="the token", repeatable=False)


def _token(answer: wire.DescribedDelegationToken) -> DelegationToken:
    return DelegationToken(
        answer.token_id,
        Principal(answer.principal_name, answer.principal_type),
        Principal(answer.token_requester_principal_name, answer.token_requester_principal_type),
        tuple(Principal(each.principal_name, each.principal_type) for each in answer.renewers),
        answer.issue_timestamp,
        answer.expiry_timestamp,
        answer.max_timestamp,
        bytes(answer.hmac),
    )
