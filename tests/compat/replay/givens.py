"""What a case finds set up, by kind of `given`."""

import re
from typing import Any, Final

from tests.compat.replay.errands import TRANSACTION, Errands, until

_TRANSACTIONAL: Final = 16
_MOVED: Final = re.compile(r"ElectLeaders \(preferred\) moved the leadership of (\w+)-(\d+) .* to broker (\d),.*")


class Givens:
    """Sets things up for one playing. All its topics have the same replicas, `replicas[0]` leads."""

    def __init__(self, errands: Errands, replicas: list[int], bound: dict[str, Any]) -> None:
        self._errands = errands
        self._replicas = replicas
        self._bound = bound
        self._producers: dict[str, Any] = {}  # transactional ids by the placeholder of their producer id

    async def set_up(self, given: Any) -> None:
        if isinstance(given, str):
            await self._move_leader(given)
        elif "topic" in given:
            await self._create_topic(given)
        elif "produced to" in given:
            await self._produce(given)
        elif "InitProducerId" in given:
            await self._init_producer(given)
        elif "AddPartitionsToTxn" in given:
            await self._add_partition(given["AddPartitionsToTxn"])
        else:
            await self._end_transaction(given)

    async def _create_topic(self, given: dict[str, Any]) -> None:
        replicas = self._replicas[: given["replication_factor"]]
        topic = {
            "Name": given["topic"],
            "NumPartitions": -1,
            "ReplicationFactor": -1,
            "Assignments": [{"PartitionIndex": i, "BrokerIds": replicas} for i in range(given["partitions"])],
            "Configs": [{"Name": key, "Value": value} for key, value in given.get("configs", {}).items()],
        }
        body = {"Topics": [topic], "timeoutMs": 20000}
        answer = await self._errands.ask(await self._errands.controller(), "CreateTopics", 5, body)
        assert answer["topics"][0]["error_code"] == "NONE", answer
        await self._arrival(given["topic"], given["partitions"], len(replicas))

    async def _arrival(self, topic: str, partitions: int, replicas: int) -> None:
        """Every broker knows the topic, with leaders and all replicas in sync."""

        async def attempt() -> bool | None:
            for broker in self._errands.cluster.ids:
                found = await self._errands.topic(topic, broker)
                in_sync = [len(each["isr_nodes"]) == replicas for each in found["partitions"]]
                led = [each["leader_id"] == self._replicas[0] for each in found["partitions"]]
                if len(in_sync) != partitions or not all(in_sync + led):
                    return None
            return True

        await until(attempt, f"{topic} on every broker")

    async def _produce(self, given: dict[str, Any]) -> None:
        topic, _, index = given["produced to"].rpartition("-")
        batch = given["batch"]
        is_transactional = batch.get("attributes", 0) & _TRANSACTIONAL
        body = {
            "TransactionalId": self._producers[batch["producer_id"]] if is_transactional else None,
            "Acks": -1,
            "TimeoutMs": 10000,
            "TopicData": [{"Name": topic, "PartitionData": [{"Index": int(index), "Records": {"batch": batch}}]}],
        }
        leader = (await self._errands.partition(topic, int(index)))["leader_id"]
        await self._errands.ask_until_done(leader, "Produce", 9, body, "responses.partition_responses.error_code")

    async def _init_producer(self, given: dict[str, Any]) -> None:
        transactional_id = given["InitProducerId"]
        broker = self._errands.cluster.ids[0]
        if transactional_id is not None:
            broker = await self._errands.coordinator(transactional_id, TRANSACTION)
        body = {"TransactionalId": transactional_id, "TransactionTimeoutMs": 60000}
        answer = await self._errands.ask_until_done(broker, "InitProducerId", 4, body, "error_code")
        assert answer["producer_epoch"] == given["ProducerEpoch"]
        self._bound[given["ProducerId"]] = answer["producer_id"]
        self._producers[given["ProducerId"]] = transactional_id

    def _producer(self, transactional_id: str) -> dict[str, Any]:
        placeholder = next(key for key, value in self._producers.items() if value == transactional_id)
        return {"ProducerId": placeholder, "ProducerEpoch": 0}

    async def _add_partition(self, told: str) -> None:
        partition, transactional_id = told.split(" to ")
        topic, _, index = partition.rpartition("-")
        producer = {f"V3AndBelow{key}": value for key, value in self._producer(transactional_id).items()}
        topics = [{"Name": topic, "Partitions": [int(index)]}]
        body = {"V3AndBelowTransactionalId": transactional_id, "V3AndBelowTopics": topics} | producer
        broker = await self._errands.coordinator(transactional_id, TRANSACTION)
        error = "results_by_topic_v3_and_below.results_by_partition.partition_error_code"
        await self._errands.ask_until_done(broker, "AddPartitionsToTxn", 3, body, error)

    async def _end_transaction(self, given: dict[str, Any]) -> None:
        transactional_id = given["EndTxn"]
        body = {"TransactionalId": transactional_id, "Committed": given["Committed"]} | self._producer(transactional_id)
        broker = await self._errands.coordinator(transactional_id, TRANSACTION)
        await self._errands.ask_until_done(broker, "EndTxn", 3, body, "error_code")
        await self._stable_offset(given["waited for last stable offset"])

    async def _stable_offset(self, offset: int) -> None:
        partitions = [{"PartitionIndex": 0, "Timestamp": -1}]
        body = {"ReplicaId": -1, "IsolationLevel": 1, "Topics": [{"Name": "topic1", "Partitions": partitions}]}

        async def attempt() -> bool | None:
            answer = await self._errands.ask(self._replicas[0], "ListOffsets", 6, body)
            return True if answer["topics"][0]["partitions"][0]["offset"] == offset else None

        await until(attempt, f"last stable offset {offset}")

    async def _move_leader(self, told: str) -> None:
        moved = _MOVED.fullmatch(told)
        assert moved is not None, told
        topic, index, leader = moved[1], int(moved[2]), self._errands.cluster.ids[int(moved[3]) - 1]
        body = {"ElectionType": 0, "TopicPartitions": [{"Topic": topic, "Partitions": [index]}], "TimeoutMs": 10000}

        async def attempt() -> int | None:
            await self._errands.ask(await self._errands.controller(), "ElectLeaders", 2, body)
            epochs = [await self._epoch_under(leader, topic, index, broker) for broker in self._errands.cluster.ids]
            return epochs[0] if all(epochs) else None

        self._bound["<epoch>"] = await until(attempt, told)

    async def _epoch_under(self, leader: int, topic: str, index: int, broker: int) -> int | None:
        found = (await self._errands.topic(topic, broker))["partitions"][index]
        return int(found["leader_epoch"]) if found["leader_id"] == leader else None
