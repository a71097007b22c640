"""Mutants of the consumer. They need peers that misbehave, or programs that take long; the simulator has neither."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_TESTS: Final = "tests/client/consumer"
_CONSUMER: Final = "client/consumer"

MUTANTS: Final = (
    Mutant(
        200,
        "position-epoch-of-batch-before",
        _CONSUMER + "/partition.py",
        "        return Position(self.records[index].offset, self.batch.leader_epoch) if index else self._start",
        "        return Position(self.records[index].offset, self._start.epoch)",
        "The leader epoch of a position is that of the last batch before it.",
        _TESTS + "/test_position_epochs.py",
        simulated=False,
    ),
    Mutant(
        201,
        "skipped-batch-unchecked",
        _CONSUMER + "/fetched.py",
        "            if is_skipped and check_crcs:\n",
        "            if False:\n",
        "The checksum of a batch is looked at before the batch is skipped.",
        _TESTS + "/test_damaged_headers.py",
        simulated=False,
    ),
    Mutant(
        202,
        "generation-of-lost-records-forgotten",
        _CONSUMER + "/handed_out.py",
        "            self._revoked.setdefault(state.tp, generation)\n",
        "            pass\n",
        "Records of a partition that was taken away are committed in their generation, or not at all.",
        _TESTS + "/test_handed_out.py",
        simulated=False,
    ),
    Mutant(
        203,
        "revocation-does-not-wait",
        _CONSUMER + "/rebalance.py",
        "                await self._delivery.wait_nothing_in_hand(held)\n",
        "                pass\n",
        "A rebalance that takes a partition away waits for the program to come back from its records.",
        _TESTS + "/test_handed_out.py",
        simulated=False,
    ),
    Mutant(
        204,
        "reading-never-lets-loop-run",
        _CONSUMER + "/pacing.py",
        "            await asyncio.sleep(0)\n",
        "            pass\n",
        "A program that reads without waiting lets the event loop run at least every 50 ms.",
        _TESTS + "/test_pacing.py",
        simulated=False,
    ),
    Mutant(
        205,
        "loop-of-stopped-consumer-raises",
        _CONSUMER + "/consumer.py",
        "            found = None\n        if found",
        "            raise\n        if found",
        "`async for` ends when another task stops the consumer.",
        _TESTS + "/test_pacing.py",
        simulated=False,
    ),
    Mutant(
        206,
        "recreated-topic-read-on",
        _CONSUMER + "/core.py",
        "            self.assigned.renew(state, topic.topic_id, generation)\n",
        "            state.topic_id = topic.topic_id\n",
        "A topic that was deleted and created again is a new topic.",
        _TESTS + "/test_scripted_topics.py",
        simulated=False,
    ),
    Mutant(
        207,
        "topic-away-not-looked-for",
        _CONSUMER + "/core.py",
        "            self._look_again_timer = loop.call_later(delay_s, self.cluster.refresh_soon)\n",
        "            pass\n",
        "A topic that is away is asked for again until it is back.",
        _TESTS + "/test_recreated_topics.py",
        simulated=False,
    ),
    Mutant(
        208,
        "deleted-topic-blocks-commit",
        _CONSUMER + "/commits.py",
        "if self._is_gone(tp.topic, ids[tp.topic]))",
        "if False)",
        "A commit does not wait for a topic that was deleted.",
        _TESTS + "/test_recreated_topics.py",
        simulated=False,
    ),
    Mutant(
        209,
        "topics-asked-for-ever",
        "client/refresher.py",
        "        self._claims[purpose] = frozenset(topics)\n",
        "        self._claims[purpose] = frozenset(topics) | self._claims.get(purpose, frozenset())\n",
        "A topic that is not read any more is not asked for.",
        _TESTS + "/test_scripted_topics.py",
        simulated=False,
    ),
    Mutant(
        290,
        "position-waits-after-closing",
        _CONSUMER + "/delivery.py",
        "        if self._failure is not None:\n"
        "            raise _copy_of(self._failure)\n"
        "        await self._wait()\n",
        "        await self._wait()\n",
        "What waits for a position ends when the consumer is closed.",
        "tests/client/calls/test_calls.py",
        simulated=False,
    ),
)
