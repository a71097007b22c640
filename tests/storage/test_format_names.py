"""Names in a log directory: what is recognised is written back the same, and nothing else is recognised."""

import pytest

from minikafka.protocol.errors import InvalidTopicError
from minikafka.storage.formats import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    MarkedDir,
    check_topic_name,
    delete_dir,
    parse_marked_dir,
    parse_partition_dir,
    parse_segment_name,
    partition_dir,
    segment_name,
    stray_dir,
)


@pytest.mark.parametrize("suffix", [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX])
@pytest.mark.parametrize("end", ["", DELETED_SUFFIX, f".12{DELETED_SUFFIX}", CLEANED_SUFFIX, SWAP_SUFFIX])
def test_segment_names(suffix: str, end: str) -> None:
    for offset in (0, 7, 2**63 - 1):
        assert parse_segment_name(segment_name(offset) + suffix + end) == (offset, suffix + end)
    assert segment_name(1234) == "00000000000000001234"


@pytest.mark.parametrize(
    "name",
    [
        *("0000000000000000000.log", "000000000000000000000.log", "-0000000000000000001.log", "00000000000000000000"),
        *(
            "00000000000000000000.lob",
            "00000000000000000000.log.tmp",
            "00000000000000000000.log.0.deleted",
            "00000000000000000000.log\n",
            "x.log",
            "",
        ),
        *(
            "09223372036854775808.log",
            "\u0660" * 20 + ".log",
            "leader-epoch-checkpoint",
            "00000000000000000000.log.0.deleted",
            "00000000000000000000.logs",
        ),
    ],
)
def test_other_names(name: str) -> None:
    assert parse_segment_name(name) is None


@pytest.mark.parametrize("topic", ["t", "a-b", "a.b_c-3", "-", "a-0.b-delete", "x" * 249, "__consumer_offsets"])
@pytest.mark.parametrize("partition", [0, 10, 2**31 - 1])
def test_partition_dirs(topic: str, partition: int) -> None:
    assert parse_partition_dir(partition_dir(topic, partition)) == (topic, partition)
    assert parse_marked_dir(partition_dir(topic, partition)) is None


@pytest.mark.parametrize(
    "name",
    [
        "t",
        "t-",
        "-0",
        "t-00",
        "t-+1",
        "t--",
        "t-2147483648",
        "a b-0",
        "..-0",
        "t-0\n",
        f"{'x' * 250}-0",
        "t-0.u-delete",
    ],
)
def test_no_partition_dirs(name: str) -> None:
    assert parse_partition_dir(name) is None


def test_marked_dirs() -> None:
    unique = "0123456789abcdef0123456789abcdef"
    assert delete_dir("t", 3, unique) == f"t-3.{unique}-delete"
    assert parse_marked_dir(delete_dir("a-b", 3, unique)) == MarkedDir("a-b", 3, unique, "-delete")
    assert parse_marked_dir(stray_dir("t", 0, unique)) == MarkedDir("t", 0, unique, "-stray")
    assert parse_marked_dir(f"t-0.{unique}-future") == MarkedDir("t", 0, unique, "-future")
    long = delete_dir("x" * 249, 12345, unique)
    assert len(long) == 255
    assert parse_marked_dir(long) == MarkedDir("x" * (255 - 46), 12345, unique, "-delete")
    assert parse_partition_dir(long) is None
    assert parse_marked_dir("t-0.-delete") is None
    assert parse_marked_dir("t-2147483647.u-delete") == MarkedDir("t", 2**31 - 1, "u", "-delete")
    assert parse_marked_dir("t-2147483648.u-delete") is None


def test_topic_names() -> None:
    for good in ("a", "A.b_c-9", "x" * 249, "...", "__consumer_offsets"):
        check_topic_name(good)
    for bad in ("", ".", "..", "x" * 250, "a b", "ä", "a/b", "a\n", "a:b"):
        with pytest.raises(InvalidTopicError, match="Topic name is invalid: "):
            check_topic_name(bad)
