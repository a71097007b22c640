"""Several log directories: where partitions go, and what becomes of the rest when one of them fails."""

from collections.abc import Callable

import pytest

from minikafka.protocol.errors import InvalidTopicError
from minikafka.storage.dir_identity import Identity, NotOurs, read_identity
from minikafka.storage.disk import join
from minikafka.storage.errors import StorageError
from minikafka.storage.log import Log
from minikafka.storage.log_dirs import LogDirs
from tests.sim.memory_disk import MemoryDisk, Op
from tests.storage.dirs import IDENTITY, TOPIC_ID, all_files, is_marked_clean, write_file
from tests.storage.logs import NOW_MS, SMALL, append, contents

PATHS = ["/a", "/b", "/c"]


def start(disk: MemoryDisk, paths: list[str] = PATHS, identity: Identity = IDENTITY) -> LogDirs:
    dirs = LogDirs(disk, paths)
    dirs.open(identity, NOW_MS)
    dirs.load_all(lambda topic: SMALL, NOW_MS)
    return dirs


def create(dirs: LogDirs, number: int, *, is_new: bool = True) -> Log:
    return dirs.create(("orders", number), TOPIC_ID, SMALL, NOW_MS, is_new=is_new)


def counts(dirs: LogDirs) -> list[int]:
    return [each.partition_count for each in dirs.dirs]


def of(path: str, kind: str = "") -> Callable[[Op], bool]:
    """Whatever, or one kind of operation, happens to anything at or below a path."""
    return lambda op: f"{op.path}/".startswith(f"{path}/") and kind in ("", op.kind)


def test_new_partitions_go_where_the_fewest_are() -> None:
    dirs = start(MemoryDisk())
    for number in range(7):
        append(create(dirs, number), b"%d" % number)
    assert counts(dirs) == [3, 2, 2]
    taken = dirs.dir_of(("orders", 4))
    assert taken is dirs.dirs[1]
    taken.do(taken.delete(("orders", 4), NOW_MS))
    create(dirs, 7)
    assert counts(dirs) == [3, 2, 2]
    assert ("orders", 7) in dirs.dirs[1].logs
    assert dirs.log(("orders", 4)) is None is dirs.dir_of(("orders", 4))


def test_all_are_found_again() -> None:
    disk = MemoryDisk()
    dirs = start(disk)
    for number in range(7):
        append(create(dirs, number), b"%d" % number)
    dirs.close(broker_epoch=3)
    dirs = start(disk, [*reversed(PATHS)])
    assert all(each.was_clean for each in dirs.dirs)
    for number in range(7):
        log = dirs.log(("orders", number))
        assert log is not None and contents(log) == [(0, b"%d" % number)]


def test_sizes() -> None:
    disk = MemoryDisk(capacity_bytes=1_000_000)
    dirs = start(disk)
    append(create(dirs, 0), bytes(100))
    log = create(dirs, 1)
    dirs.dirs[2].fail("broken")
    first, second, third = dirs.describe()
    assert (first.path, first.failure, first.total_bytes) == ("/a", None, 1_000_000)
    assert 0 < first.usable_bytes < 1_000_000
    assert [(size.topic, size.partition, size.offset_lag) for size in first.logs] == [("orders", 0, 0)]
    assert 100 < first.logs[0].size_bytes < 200
    assert second.logs == [("orders", 1, 0, 0)] and log.size_bytes == 0
    assert third == ("/c", "broken", -1, -1, [])
    disk.fail(of("/a", "free_bytes"))
    assert [each.failure is None for each in dirs.describe()] == [False, True, False]
    assert [each.failure is None for each in dirs.describe()] == [True, True, False]


@pytest.mark.parametrize("kind", ["mkdir", "lock", "open", "list", "append", "sync", "rename", "fsync_dir"])
def test_one_that_cannot_be_opened_is_offline_alone(kind: str) -> None:
    disk = MemoryDisk()
    disk.fail(of("/b", kind), is_lasting=True)
    dirs = start(disk)
    assert [each.is_offline for each in dirs.dirs] == [False, True, False]
    for number in range(4):
        create(dirs, number)
    assert counts(dirs) == [2, 0, 2]
    dirs.close()
    disk.heal()
    assert [is_marked_clean(disk, path) for path in PATHS] == [True, False, True]


def test_one_that_fails_while_loading_is_offline_alone() -> None:
    disk = MemoryDisk()
    dirs = start(disk)
    for number in range(6):
        append(create(dirs, number), b"x")
    dirs.close()
    disk.fail(of("/b/orders-4"), is_lasting=True)
    dirs = start(disk)
    assert [each.is_offline for each in dirs.dirs] == [False, True, False]
    found = [number for number in range(6) if dirs.log(("orders", number)) is not None]
    assert found == [0, 2, 3, 5]
    dirs.close()
    disk.heal()
    assert [is_marked_clean(disk, path) for path in PATHS] == [True, False, True]
    dirs = start(disk)
    assert [number for number in range(6) if dirs.log(("orders", number)) is not None] == [0, 1, 2, 3, 4, 5]


def test_one_that_fails_when_a_partition_is_made_is_left_out() -> None:
    disk = MemoryDisk()
    dirs = start(disk)
    disk.fail(of("/a", "mkdir"))
    assert create(dirs, 0).directory == "/b/orders-0"
    assert [each.is_offline for each in dirs.dirs] == [True, False, False]
    disk.fail(lambda op: op.kind == "mkdir", is_lasting=True)
    with pytest.raises(StorageError, match="no log directory left"):
        create(dirs, 1)


def test_a_partition_that_may_be_in_an_offline_directory_is_not_made_again() -> None:
    dirs = start(MemoryDisk())
    dirs.dirs[1].fail("broken")
    with pytest.raises(StorageError, match="may be in /b, which is offline"):
        create(dirs, 0, is_new=False)
    create(dirs, 0, is_new=True)


def test_partition_seen_in_an_offline_directory_is_not_new() -> None:
    """A request to make it may be repeated: an empty log would pass for one that has everything."""
    dirs = start(MemoryDisk())
    create(dirs, 0)
    dirs.dirs[0].fail("broken")
    with pytest.raises(StorageError, match="may be in /a, which is offline"):
        create(dirs, 0, is_new=True)
    create(dirs, 1, is_new=True)


def test_partition_in_a_directory_that_failed_while_loading_is_not_new() -> None:
    disk = MemoryDisk()
    dirs = start(disk)
    for number in range(6):
        append(create(dirs, number), b"x")
    dirs.close()
    disk.fail(of("/b/orders-4"), is_lasting=True)
    dirs = start(disk)
    for number in (1, 4):
        with pytest.raises(StorageError, match="may be in /b, which is offline"):
            create(dirs, number, is_new=True)


def test_a_bad_name_is_nobodys_failure() -> None:
    dirs = start(MemoryDisk())
    with pytest.raises(InvalidTopicError):
        dirs.create(("..", 0), TOPIC_ID, SMALL, NOW_MS, is_new=True)
    assert counts(dirs) == [0, 0, 0] and len(dirs.online) == 3


def test_one_that_fails_while_closing_does_not_keep_the_others_from_it() -> None:
    disk = MemoryDisk()
    dirs = start(disk)
    for number in range(3):
        append(create(dirs, number), b"x")
    disk.fail(of("/a", "sync"), is_lasting=True)
    dirs.close()
    assert [each.is_offline for each in dirs.dirs] == [True, False, False]
    disk.heal()
    assert [is_marked_clean(disk, path) for path in PATHS] == [False, True, True]


def test_when_none_works_nothing_starts() -> None:
    disk = MemoryDisk()
    disk.fail(lambda op: op.kind == "lock", is_lasting=True)
    with pytest.raises(StorageError, match="no log directory works: /a cannot be opened"):
        start(disk)
    disk.heal()
    start(disk).close()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_one_of_somebody_else_stops_the_start_and_nothing_is_touched(number: int) -> None:
    disk = MemoryDisk()
    dirs = start(disk)
    for each in range(6):
        append(create(dirs, each), b"x")
    dirs.close()
    write_file(disk, join(PATHS[number], "meta.properties"), b"broker.id=9\nversion=0\ncluster.id=z\n")
    before = all_files(disk, "/")
    for _ in range(2):
        disk.ops.clear()
        with pytest.raises(NotOurs, match="belongs to broker 9 of cluster z"):
            start(disk)
        assert not {op.kind for op in disk.ops} & {"append", "rename", "unlink", "truncate"}
        assert all_files(disk, "/") == before


def test_one_in_use_stops_the_start() -> None:
    disk = MemoryDisk()
    start(disk).close()
    other = disk.lock("/c/.lock")
    with pytest.raises(NotOurs, match="/c is in use"):
        start(disk)
    other.release()
    assert all(each.was_clean for each in start(disk).dirs)


@pytest.mark.parametrize("paths", [[], ["/a", "/a"], ["/a", "/b", "//a/"]])
def test_directories_have_to_be_different_ones(paths: list[str]) -> None:
    with pytest.raises(NotOurs, match="different"):
        LogDirs(MemoryDisk(), paths)


def test_a_partition_in_two_directories_stops_the_start_in_good_order() -> None:
    disk = MemoryDisk()
    dirs = start(disk)
    append(create(dirs, 0), b"x")
    dirs.close()
    for name, data in all_files(disk, "/a/orders-0").items():
        disk.mkdir("/b/orders-0")
        write_file(disk, f"/b/orders-0/{name}", data)
    with pytest.raises(NotOurs, match="is in /a and in /b"):
        start(disk)
    assert [is_marked_clean(disk, path) for path in PATHS] == [True, True, True]
    for name in disk.list("/b/orders-0"):
        disk.unlink(join("/b/orders-0", name))
    disk.rmdir("/b/orders-0")
    log = start(disk).log(("orders", 0))
    assert log is not None and contents(log) == [(0, b"x")]


def test_whose_a_directory_is_can_be_asked_before() -> None:
    disk = MemoryDisk()
    disk.mkdir("/a")
    assert read_identity(disk, "/a") is None
    start(disk, identity=Identity(7, "some:cluster = \u00e4")).close()
    assert read_identity(disk, "/a") == Identity(7, "some:cluster = \u00e4")


def test_half_made_partition_is_dropped_at_the_next_start() -> None:
    disk = MemoryDisk()
    dirs = start(disk)
    disk.fail(lambda op: op.kind == "append" and op.path.startswith("/a/orders-0"), is_lasting=True)
    log = create(dirs, 0)
    append(log, b"acknowledged")
    assert log.directory == "/b/orders-0"
    dirs.close()
    disk.heal()
    disk.process_died()
    dirs = start(disk)
    found = dirs.log(("orders", 0))
    assert found is not None and contents(found) == [(0, b"acknowledged")]
    assert not disk.exists("/a/orders-0")
    assert "may be in /b" in dirs.dirs[0].notes[-1]


def test_half_made_partition_does_not_pass_for_the_one_that_is_offline() -> None:
    disk = MemoryDisk()
    dirs = start(disk)
    disk.fail(lambda op: op.kind == "append" and op.path.startswith("/a/orders-0"), is_lasting=True)
    append(create(dirs, 0), b"acknowledged")
    dirs.close()
    disk.heal()
    disk.process_died()
    disk.fail(of("/b"), is_lasting=True)
    dirs = start(disk)
    assert dirs.log(("orders", 0)) is None
    with pytest.raises(StorageError, match="may be in /b, which is offline"):
        create(dirs, 0, is_new=False)


def test_empty_log_is_kept_beside_an_offline_directory() -> None:
    disk = MemoryDisk()
    dirs = start(disk)
    create(dirs, 0)
    append(create(dirs, 1), b"x")
    dirs.close()
    disk.fail(of("/b"), is_lasting=True)
    assert start(disk).log(("orders", 0)) is not None


def test_partition_that_may_be_complete_is_made_nowhere_else() -> None:
    """Its name could not be synced: at the next start it may be there, with a topic id and without records."""
    disk = MemoryDisk()
    dirs = start(disk)
    disk.fail(lambda op: op.kind == "fsync_dir" and op.path == "/a", is_lasting=True)
    with pytest.raises(StorageError):
        create(dirs, 0)
    assert [each.is_offline for each in dirs.dirs] == [True, False, False]
    assert not disk.exists("/b/orders-0")
