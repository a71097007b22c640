"""DescribeUserScramCredentials, AlterUserScramCredentials: who has a credential, and giving and taking them.

- Describing tells mechanisms and iterations, never the credential. No list, or an empty one, asks for all users.
- Altering is the controller's business. All that a request says about a user is done, or nothing of it; the first thing
  that is wrong is the answer.
- No credential and no salted password appears in a log or a message.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.handlers.patience import Patience
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.broker.scram_credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    Mechanism,
    credential,
    iterations_of,
)
from minikafka.broker.zookeeper.config_nodes import NO_NODES, desanitize, user_entity
from minikafka.broker.zookeeper.config_store import change_config, in_batches, names_below, read_config
from minikafka.broker.zookeeper.coord import insist
from minikafka.broker.zookeeper.json_node import BadNode
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import (
    DuplicateResourceError,
    KafkaError,
    NotControllerError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
)
from minikafka.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialInfo,
    ScramCredentialUpsertion,
)

log: Final = logging.getLogger(__name__)

Alteration = ScramCredentialDeletion | ScramCredentialUpsertion

_USERS: Final = "/config/users"
_MECHANISMS: Final = frozenset(map(int, Mechanism))


def routes(context: Context) -> list[Route]:
    handlers = ScramHandlers(context)
    return [
        Route(APIS[50], handlers.describe, Operation.DESCRIBE, Resource.CLUSTER),
        Route(APIS[51], handlers.alter, Operation.ALTER, Resource.CLUSTER),
    ]


class ScramHandlers:
    """See the module's description."""

    def __init__(self, context: Context) -> None:
        self._context = context
        # On a connection, a request sees what those before it did.
        self._changes = asyncio.Lock()

    # ---------------------------------------------------------------------------------------------- describing

    async def describe(self, call: Call) -> DescribeUserScramCredentialsResponse:
        request: DescribeUserScramCredentialsRequest = call.request
        patience, response = Patience(self._context), DescribeUserScramCredentialsResponse()
        try:
            async with self._changes:
                if request.users:
                    counts = Counter(each.name for each in request.users)
                    response.results = await in_batches(list(counts.items()), partial(self._describe_one, patience))
                else:
                    response.results = await patience.ask(self._describe_all)
        except KafkaError as error:
            response.error_code, response.error_message = error.code, error.message
        return response

    async def _describe_all(self) -> list[DescribeUserScramCredentialsResult]:
        coord = self._context.coord
        nodes = await insist(coord, lambda: names_below(coord, _USERS))
        users = [user for user in map(desanitize, nodes) if user is not None]
        described = zip(users, await in_batches(users, self._iterations), strict=True)
        return [_described(user, iterations) for user, iterations in described if iterations]

    async def _describe_one(self, patience: Patience, named: tuple[str, int]) -> DescribeUserScramCredentialsResult:
        user, count = named
        try:
            if count > 1:
                raise DuplicateResourceError(f"user {user!r} is there twice")
            iterations = {} if user in NO_NODES else await patience.ask(partial(self._iterations, user))
            if not iterations:
                raise ResourceNotFoundError(f"user {user!r} has no credentials")
            return _described(user, iterations)
        except KafkaError as error:
            return DescribeUserScramCredentialsResult(
                user=user, error_code=error.code, error_message=error.message, credential_infos=[]
            )

    async def _iterations(self, user: str) -> Mapping[Mechanism, int]:
        coord = self._context.coord
        try:
            return iterations_of((await insist(coord, lambda: read_config(coord, user_entity(user)))).texts)
        except BadNode as error:
            log.warning("%s; it is passed over", error)
            return {}

    # ------------------------------------------------------------------------------------------------ altering

    async def alter(self, call: Call) -> AlterUserScramCredentialsResponse:
        request: AlterUserScramCredentialsRequest = call.request
        alterations: list[Alteration] = [*request.deletions, *request.upsertions]
        wanted: dict[str, list[Alteration]] = {}
        for each in alterations:
            wanted.setdefault(each.name, []).append(each)
        patience = Patience(self._context)
        async with self._changes:
            results = await in_batches(list(wanted.items()), partial(self._alter_one, patience))
        return AlterUserScramCredentialsResponse(results=results)

    async def _alter_one(
        self, patience: Patience, wanted: tuple[str, list[Alteration]]
    ) -> AlterUserScramCredentialsResult:
        user, alterations = wanted
        result = AlterUserScramCredentialsResult(user=user)
        try:
            if self._context.metadata.controller_id != self._context.broker_id:
                raise NotControllerError
            _check(user, alterations)
            decide = _Decision(alterations)
            await patience.ask(lambda: change_config(self._context.coord, user_entity(user), decide))
            log.info("the credentials of user %r have changed", user)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        return result


def _described(user: str, iterations: Mapping[Mechanism, int]) -> DescribeUserScramCredentialsResult:
    infos = [ScramCredentialInfo(mechanism=mechanism, iterations=count) for mechanism, count in iterations.items()]
    return DescribeUserScramCredentialsResult(user=user, credential_infos=infos)


def _check(user: str, alterations: list[Alteration]) -> None:
    """Raise what is wrong without looking at what is stored."""
    if user in NO_NODES:
        raise UnacceptableCredentialError("this cannot be the name of a user")
    for each in alterations:
        if each.mechanism not in _MECHANISMS:
            raise UnsupportedSaslMechanismError(f"there is no mechanism of number {each.mechanism}")
        if isinstance(each, ScramCredentialUpsertion):
            if not ITERATIONS_MIN <= each.iterations <= ITERATIONS_MAX:
                raise UnacceptableCredentialError(f"iterations have to be from {ITERATIONS_MIN} to {ITERATIONS_MAX}")
            if not each.salted_password:
                raise UnacceptableCredentialError("there is no salted password")
    if len({each.mechanism for each in alterations}) < len(alterations):
        raise DuplicateResourceError("a credential can be altered only once at a time")


class _Decision:
    """What becomes of a user's configs. Asked again after a lost answer, it may find its own work done."""

    def __init__(self, alterations: list[Alteration]) -> None:
        self._alterations = alterations
        self._seen: set[str] = set()

    def __call__(self, stored: Mapping[str, str]) -> dict[str, str]:
        texts = dict(stored)
        self._seen.update(texts)
        for each in self._alterations:
            mechanism = Mechanism(each.mechanism)
            if isinstance(each, ScramCredentialUpsertion):
                texts[mechanism.key] = credential(mechanism, each.salt, each.salted_password, each.iterations)
            elif mechanism.key not in self._seen:
                raise ResourceNotFoundError(f"there is no credential for {mechanism.key}")
            else:
                texts.pop(mechanism.key, None)
        return texts
