"""Plays one case: sends its requests to the brokers it names, in its order, and compares what comes."""

import asyncio
import re
import time
import zlib
from dataclasses import dataclass
from typing import Any, Final

from minikafka.protocol.apis import api_named
from minikafka.protocol.headers import decode_correlation_id
from tests.compat.replay.answers import AnswerReader, in_notation, summarised
from tests.compat.replay.client import ANSWER_SECONDS_MAX, Closed, Connection, decoded
from tests.compat.replay.cluster import Cluster
from tests.compat.replay.compare import Comparison
from tests.compat.replay.errands import GROUP, TRANSACTION, Errands, until
from tests.compat.replay.givens import Givens
from tests.compat.replay.names import Names, scaled
from tests.compat.replay.needs import FOLLOWER
from tests.compat.replay.patience import is_worth_another_try
from tests.compat.replay.recording import Case, Send, Take, Until, Whole
from tests.compat.replay.requests import PLACEHOLDER, BodyWriter

SILENCE_SECONDS: Final = 0.5
"""How long nothing must come for "no answer"."""
_RETRY_SECONDS_MAX: Final = 5.0
_POLL_SECONDS: Final = 0.05

# What was measured of the answer before, in seconds. At once is well before the 5 s that it could have waited.
_OBSERVED: Final[dict[str, tuple[float, float]]] = {
    "first answer after at least 700 ms": (0.7, 5.0),
    "waited between 0.4 and 3 s": (0.4, 3.0),
    "waited between 0.5 and 3 s": (0.5, 3.0),
    "min bytes 0 answers at once": (0.0, 2.5),
    "max wait 0 answers at once": (0.0, 2.5),
    "an error answers at once": (0.0, 2.5),
    "answered well before max wait": (0.0, 5.0),
}

_TOPIC_PARTITION: Final = re.compile(r"(leader of|a follower of|a broker without a replica of) (\w+)-(\d+)")
_COORDINATOR: Final = re.compile(r"(a broker that is not )?coordinator of (group|transactional id) (\w+|\(empty\))")
_HEX: Final = re.compile(r"([0-9a-f]*)(?:… (\d+) bytes)?")


class Mismatch(Exception):
    """A broker did not answer as recorded."""


@dataclass
class Sent:
    """A request whose answer is to be taken."""

    connection: Connection
    answer: asyncio.Future[bytes]
    at: float


class Player:
    """One playing of one case, with names, connections and placeholders of its own."""

    def __init__(self, case: Case, cluster: Cluster) -> None:
        self.case = case
        self.cluster = cluster
        # Cases are spread over the brokers; those that name brokers by number count from the first.
        turn = 0 if any(isinstance(given, str) for given in case.givens()) else zlib.crc32(case.name.encode())
        self.replicas = [cluster.ids[(turn + i) % len(cluster.ids)] for i in range(len(cluster.ids))]
        self.home = self.replicas[-1]
        self.names = Names()
        self.comparison = Comparison(cluster)
        self.bound = self.comparison.bound
        self.bound |= {f"<broker {i}>": broker for i, broker in enumerate(cluster.ids, 1)}
        self.bound |= {"<that broker>": str(self.home), "<another broker>": str(self.replicas[0])}
        self.writer = BodyWriter(self.names, self.bound)
        self.reader = AnswerReader(self.names)
        self.errands = Errands(cluster, self.writer, self.reader)
        self.givens = Givens(self.errands, self.replicas, self.bound)
        self.retries: list[str] = []
        self.steps_left_out = 0
        self._connections: dict[tuple[str, int], Connection] = {}
        self._sent: dict[int, Sent] = {}
        self._took = 0.0

    async def play(self) -> None:
        try:
            for move in self.case.moves():
                await self._make(move)
            strays = [frame.hex() for each in self._connections.values() for frame in each.strays]
            if strays:
                raise Mismatch(f"{self.case.name}: answers that nobody asked for: {strays}")
        finally:
            for connection in self._connections.values():
                await connection.close()
            await self.errands.close()

    async def _make(self, move: Send | Take | Whole | Until) -> None:
        if isinstance(move, Until):
            await getattr(self, move.name)()
        elif isinstance(move, Send):
            await self._send(move.step)
        elif isinstance(move, Take):
            await self._take(move.step)
        else:
            await self._play_step(move.step)

    async def _play_step(self, index: int) -> None:
        step = self.case.steps[index]
        if "given" in step:
            await self.givens.set_up(scaled(step["given"], self.cluster.replicas_max))
        elif "observed" in step:
            self._check_observed(step["observed"])
        elif step["request"]["to"].startswith(FOLLOWER) and self.cluster.replicas_max == 1:
            self.steps_left_out += 1
        else:
            await self._send(index)
            await self._take(index)

    def _check_observed(self, observed: dict[str, bool]) -> None:
        for label in observed:
            low, high = _OBSERVED[label]
            if not low <= self._took <= high:
                raise Mismatch(f"{self.case.name}: {label}, but it took {self._took:.2f} s")

    # --- sending

    async def _send(self, index: int) -> None:
        request = self.case.steps[index]["request"]
        broker = await self._broker(request["to"])
        connection = await self._connection(request.get("connection", ""), broker)
        if "hex" in request:
            await self._send_raw(index, request, connection)
            return
        api, version = api_named(request["api"]), request["version"]
        body = scaled(request["body"], self.cluster.replicas_max)
        await self._bind_topic_ids(body)
        encoded = self.writer.encoded(api, version, body)
        frame = connection.frame(api, version, encoded, request.get("client_id", "oracle"))
        self._sent[index] = Sent(connection, connection.send(frame), time.monotonic())

    async def _send_raw(self, index: int, request: dict[str, Any], connection: Connection) -> None:
        found = _HEX.fullmatch(request["hex"])
        assert found is not None
        frame = bytes.fromhex(found[1]).ljust(int(found[2] or 0), b"\0")
        if request["what"] == "last byte of a correct frame":
            whole = connection.frame(api_named("ApiVersions"), 0, b"")
            assert whole[-1:] == frame
            await connection.trickle(whole[:-1])
        self._sent[index] = Sent(connection, connection.send(frame), time.monotonic())
        if "then" in request:
            connection.half_close()

    async def _bind_topic_ids(self, body: Any) -> None:
        """Placeholders for ids of topics that no answer has shown yet."""
        if isinstance(body, dict | list):
            for each in body.values() if isinstance(body, dict) else body:
                await self._bind_topic_ids(each)
            return
        found = PLACEHOLDER.fullmatch(body) if isinstance(body, str) else None
        if found and body.startswith("<topic id") and body not in self.bound:
            self.bound[body] = (await self.errands.topic(f"topic{body[len('<topic id ') : -1]}"))["topic_id"]

    async def _connection(self, name: str, broker: int) -> Connection:
        found = self._connections.get((name, broker))
        if found is None or found.is_closed:
            if found is not None:
                await found.close()
            found = await Connection.open(self.cluster.brokers[broker])
            self._connections[name, broker] = found
        return found

    async def _broker(self, to: str) -> int:
        if to == "any broker":
            return self.home
        if to in ("controller", "a broker that is not controller"):
            controller = await self.errands.controller()
            return controller if to == "controller" else self._other_than([controller])
        if to.startswith("broker "):
            return self.cluster.ids[int(to.split()[1]) - 1]
        if found := _COORDINATOR.fullmatch(to):
            key = "" if found[3] == "(empty)" else found[3]
            coordinator = await self.errands.coordinator(key, GROUP if found[2] == "group" else TRANSACTION)
            return self._other_than([coordinator]) if found[1] else coordinator
        return await self._replica(to)

    async def _replica(self, to: str) -> int:
        found = _TOPIC_PARTITION.fullmatch(to)
        assert found is not None, to
        partition = await self.errands.partition(found[2], int(found[3]))
        if found[1] == "leader of":
            return int(partition["leader_id"])
        if found[1] == "a follower of":
            return next(int(each) for each in partition["replica_nodes"] if each != partition["leader_id"])
        return self._other_than(partition["replica_nodes"])

    def _other_than(self, brokers: list[int]) -> int:
        return next(broker for broker in self.cluster.ids if broker not in brokers)

    # --- taking answers

    async def _take(self, index: int) -> None:
        told = scaled(self.case.steps[index]["answer"], self.cluster.replicas_max)
        end = time.monotonic() + _RETRY_SECONDS_MAX
        while (wrong := await self._compare(index, told)) is not None:
            request = self.case.steps[index]["request"]
            if time.monotonic() > end or not is_worth_another_try(request, wrong):
                raise Mismatch("\n".join([f"{self.case.name}, step {index}: {_named(request)}", *wrong]))
            self.retries.append(f"{index} {request['api']}")
            await asyncio.sleep(_POLL_SECONDS)
            await self._send(index)

    async def _compare(self, index: int, told: Any) -> list[str] | None:
        """None if the answer is the recorded one, else the differences."""
        sent = self._sent.pop(index)
        try:
            frame = await self._frame(sent, told)
        except Closed:
            return None if told == "connection closed" else [f"recorded {told}, seen: connection closed"]
        except TimeoutError:
            await self._give_up(sent, self.case.steps[index]["request"])
            return None if told == "no answer" else [f"recorded {told}, seen: no answer"]
        finally:
            self._took = time.monotonic() - sent.at
        if told == "answered":
            return None
        return self._compare_frame(self.case.steps[index]["request"], told, frame)

    async def _frame(self, sent: Sent, told: Any) -> bytes:
        patience = SILENCE_SECONDS if told == "no answer" else ANSWER_SECONDS_MAX
        return await asyncio.wait_for(asyncio.shield(sent.answer), patience)

    async def _give_up(self, sent: Sent, request: dict[str, Any]) -> None:
        """No answer will come. A connection that waits for one would not answer what comes after it either."""
        sent.connection.forget(sent.answer)
        if request.get("api") != "Produce":
            await sent.connection.close()

    def _compare_frame(self, request: dict[str, Any], told: Any, frame: bytes) -> list[str] | None:
        if isinstance(told, str):
            return [f"recorded {told}, seen {frame.hex()}"]
        told = in_notation(told)
        shown = self._shown(request, told, frame)
        if self.comparison.matches(told, shown):
            return None
        return self.comparison.differences(told, shown) or [f"recorded {told}", f"seen {shown}"]

    def _shown(self, request: dict[str, Any], told: Any, frame: bytes) -> Any:
        """The answer as the recording would show it."""
        if "hex" in request:
            answer = decoded(api_named("ApiVersions"), 0, frame)
            return {"correlation_id": decode_correlation_id(frame)} | self.reader.shown(answer, 0)
        answer = decoded(api_named(request["api"]), request["version"], frame)
        if _asks_for_everything(request):
            self.reader.drop_what_others_have(answer)
        return summarised(answer, told, self.reader.shown(answer, request["version"]))

    # --- what no step tells

    async def group1_is_rebalancing(self) -> None:
        await self._group_state("PreparingRebalance")

    async def group1_is_empty(self) -> None:
        await self._group_state("Empty")

    async def _group_state(self, state: str) -> None:
        async def attempt() -> bool | None:
            broker = await self.errands.coordinator("group1", GROUP)
            answer = await self.errands.ask(broker, "DescribeGroups", 0, {"Groups": ["group1"]})
            return True if answer["groups"][0]["group_state"] == state else None

        await until(attempt, f"group1 in state {state}")

    async def txn1_is_aborted(self) -> None:
        async def attempt() -> bool | None:
            broker = await self.errands.coordinator("txn1", TRANSACTION)
            answer = await self.errands.ask(broker, "DescribeTransactions", 0, {"TransactionalIds": ["txn1"]})
            return True if answer["transaction_states"][0]["transaction_state"] == "CompleteAbort" else None

        await until(attempt, "txn1 aborted")

    async def topic1_is_deleted(self) -> None:
        body = {"TopicNames": ["topic1"], "TimeoutMs": 20000}
        answer = await self.errands.ask(await self.errands.controller(), "DeleteTopics", 5, body)
        assert answer["responses"][0]["error_code"] == "NONE", answer


def _asks_for_everything(request: dict[str, Any]) -> bool:
    if request["api"] == "Metadata":
        topics = request["body"]["Topics"]
        return topics is None or (topics == [] and request["version"] == 0)
    return request["api"] in ("ListGroups", "ListTransactions")


def _named(request: dict[str, Any]) -> str:
    if "api" in request:
        return f"{request['api']} v{request['version']} to {request['to']}"
    return f"{request['what']} to {request['to']}"
