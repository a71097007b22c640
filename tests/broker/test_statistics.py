"""Counters that only go up, and a place for every time."""

import pytest

from minikafka.broker.statistics import RequestStatistics, Statistics


@pytest.mark.parametrize(("micros", "bucket"), [(0, 0), (1, 1), (2, 2), (3, 2), (1023, 10), (1024, 11), (10**12, 40)])
def test_a_time_is_below_two_to_the_number_of_its_bucket(micros: int, bucket: int) -> None:
    request = RequestStatistics()
    request.add(3, micros)
    assert request.buckets[bucket] == 1
    assert micros < 2**bucket
    assert (request.versions[3], request.count, request.micros) == (1, 1, micros)


def test_a_topic_is_one_and_the_same() -> None:
    statistics = Statistics()
    statistics.topic("a").bytes_in += 5
    statistics.topic("a").bytes_in += 6
    assert statistics.topics["a"].bytes_in == 11


def test_sums_do_not_go_down_when_a_topic_is_deleted() -> None:
    statistics = Statistics()
    statistics.topic("a").messages_in += 5
    statistics.topic("b").messages_in += 6
    statistics.forget_topic("a")
    statistics.forget_topic("a")
    statistics.topic("a").messages_in += 1
    assert statistics.all_topics().messages_in == 12
    assert statistics.topics["a"].messages_in == 1
