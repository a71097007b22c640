"""A few thousand mutated frames at a live broker, with a client beside them; `make fuzz-socket` sends more."""

from __future__ import annotations

import random

import pytest

from bench.cluster import running
from minikafka.protocol.apis import APIS
from tests.fuzz.fuzz_socket import SETTINGS, attack
from tests.fuzz.mutations import Corpus, Versions, framed, mutated

FRAMES = 3_000
SEED = 1


def every_api() -> Corpus:
    return Corpus([Versions.all_of(api) for api in APIS.values()], "fuzz")


def test_mutations_are_repeated_by_their_seed() -> None:
    corpus = every_api()
    one, other = ([mutated(random.Random(SEED), corpus) for _ in range(50)] for _ in range(2))
    assert one == other


def test_most_mutated_requests_are_no_longer_what_they_were() -> None:
    corpus = every_api()
    rng = random.Random(SEED)
    known = {framed(request) for request in corpus.requests}
    changed = [sent for _ in range(2_000) if (sent := mutated(rng, corpus)).data not in known]
    assert len(changed) > 1_600
    assert any(not sent.is_whole for sent in changed)


@pytest.mark.needs("java")
async def test_a_fuzzed_socket_disturbs_nobody() -> None:
    with running(1, *SETTINGS) as cluster:
        report = await attack(cluster, FRAMES, SEED)
    assert not report.problems, str(report)
    assert report.counts["frames"] >= FRAMES
    assert report.counts["answers"] > 0
    assert report.canary.seen > 0
