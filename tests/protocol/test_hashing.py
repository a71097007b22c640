"""Keys and group ids land where Kafka's Java code puts them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from minikafka.protocol.hashing import coordinator_partition, java_string_hash, murmur2, partition_for_key

# From the tests of Kafka's own clients.
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    b"": 275646681,
    "\N{GRINNING FACE}".encode(): 131881617,
}

# What Java answers: the hash, and the partition of fifty that Kafka takes for it.
JAVA_STRING_HASHES = {
    "": (0, 0),
    "hello": (99162322, 22),
    "my-group": (-1906497762, 12),
    "группа": (1749938458, 8),
    # The one negative number that has no positive counterpart.
    "polygenelubricants": (-(2**31), 0),
    # Two UTF-16 units.
    "\N{GRINNING FACE}": (1772899, 49),
}


@pytest.mark.parametrize(("key", "expected"), MURMUR2.items())
def test_murmur2_of_kafka(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected % 2**32
    assert partition_for_key(key, 1000) == (expected & 0x7FFFFFFF) % 1000


@given(st.binary(max_size=100))
def test_murmur2_of_kafka_python(key: bytes) -> None:
    assert murmur2(key) == murmur2_of_kafka_python(key) % 2**32


@pytest.mark.parametrize(("text", "expected"), JAVA_STRING_HASHES.items())
def test_java_string_hash(text: str, expected: tuple[int, int]) -> None:
    assert (java_string_hash(text), coordinator_partition(text, 50)) == expected


def test_java_string_hash_of_half_a_character() -> None:
    assert java_string_hash("\ud800") == 0xD800


@given(st.text(max_size=40))
def test_coordinator_partition_exists(name: str) -> None:
    assert 0 <= coordinator_partition(name, 50) < 50
