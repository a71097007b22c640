"""What is tidied up when a partition is opened, and that tidying up may be interrupted too."""

from __future__ import annotations

from random import Random

import pytest

from minikafka.storage.errors import CorruptLog
from minikafka.storage.leftovers import clear_leftovers
from tests.sim.memory_disk import MemoryDisk, Op
from tests.storage.batches import make_batch

DIRECTORY = "t-0"


def name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def disk_with(files: dict[str, bytes]) -> MemoryDisk:
    disk = MemoryDisk()
    disk.mkdir(DIRECTORY)
    for each, data in files.items():
        file = disk.open(f"{DIRECTORY}/{each}", create=True)
        file.append([data])
        file.close()
    disk.settle()
    return disk


def files_of(disk: MemoryDisk) -> dict[str, bytes]:
    found = {}
    for each in disk.list(DIRECTORY):
        file = disk.open(f"{DIRECTORY}/{each}")
        found[each] = bytes(file.read(0, file.size()))
        file.close()
    return found


def left(files: dict[str, bytes]) -> dict[str, bytes]:
    disk = disk_with(files)
    clear_leftovers(disk, DIRECTORY)
    return files_of(disk)


def segment(base_offset: int, content: bytes, suffix: str = "", *, txn: bool = True) -> dict[str, bytes]:
    """The files of a segment, each with a content of its own."""
    kinds = (".log", ".index", ".timeindex", *([".txnindex"] if txn else []))
    return {name(base_offset, kind + suffix): content + kind.encode() for kind in kinds}


def swapped(base_offset: int, last_offset: int | None, suffix: str, *, txn: bool = True) -> dict[str, bytes]:
    """The files of a compacted segment; its log is a real one, which ends with an offset or is empty."""
    files = segment(base_offset, b"new", suffix, txn=txn)
    log = b"" if last_offset is None else bytes(make_batch(base_offset=last_offset))
    return {**files, name(base_offset, ".log" + suffix): log}


def in_use(files: dict[str, bytes]) -> dict[str, bytes]:
    return {each.removesuffix(".swap"): data for each, data in files.items()}


OTHERS = {
    name(0, ".snapshot"): b"s",
    name(400, ".snapshot"): b"s",
    "leader-epoch-checkpoint": b"e",
    "partition.metadata": b"m",
    "notes.txt": b"n",
    "notes.tmp": b"n",
    "0.log.deleted": b"n",
    "backup.log.swap": b"n",
    name(0, ".bak.cleaned"): b"n",
}
"""State that belongs to no segment, and names that are not ours."""


def test_a_tidy_directory_stays_as_it_is() -> None:
    files = {**OTHERS, **segment(0, b"a"), **segment(100, b"b", txn=False)}
    assert left(files) == files


def test_files_on_their_way_out_go() -> None:
    files = {**OTHERS, **segment(0, b"a")}
    going = {
        **segment(0, b"x", ".deleted"),
        **segment(900, b"x", ".deleted"),
        name(100, ".snapshot.deleted"): b"x",
        name(100, ".snapshot.tmp"): b"x",
        name(100, ".log.tmp"): b"x",
        "leader-epoch-checkpoint.tmp": b"x",
        "partition.metadata.tmp": b"x",
        name(200, ".index"): b"x",
        name(200, ".timeindex"): b"x",
        name(200, ".txnindex"): b"x",
    }
    assert left({**files, **going}) == files


def test_what_compaction_had_not_finished_goes() -> None:
    files = {**OTHERS, **segment(0, b"a"), **segment(100, b"b")}
    assert left({**files, **swapped(0, 150, ".cleaned")}) == files


def test_a_swap_is_finished() -> None:
    old = {**segment(0, b"a"), **segment(100, b"b"), **segment(200, b"c")}
    new = swapped(0, 150, ".swap", txn=False)
    assert left({**OTHERS, **old, **new}) == {**OTHERS, **in_use(new), **segment(200, b"c")}


def test_a_swap_is_finished_that_was_nearly_done() -> None:
    new = swapped(0, 150, ".swap")
    half = {**new, name(0, ".log"): new[name(0, ".log.swap")]}
    del half[name(0, ".log.swap")]
    others = {**OTHERS, **segment(100, b"x", ".deleted"), **segment(200, b"c")}
    assert left({**others, **half}) == {**OTHERS, **in_use(new), **segment(200, b"c")}


def test_a_swap_that_is_empty_takes_its_own_place_only() -> None:
    old = {**segment(0, b"a"), **segment(100, b"b")}
    new = swapped(0, None, ".swap", txn=False)
    assert left({**old, **new}) == {**in_use(new), **segment(100, b"b")}


def test_a_swap_is_void_when_a_file_is_still_to_be_renamed() -> None:
    old = {**segment(0, b"a"), **segment(100, b"b")}
    new = swapped(0, 150, ".swap")
    for kind in (".log", ".index", ".timeindex", ".txnindex"):
        half = {**new, name(0, kind + ".cleaned"): new[name(0, kind + ".swap")]}
        del half[name(0, kind + ".swap")]
        assert left({**old, **half}) == old
    # Kafka splits segments too, and renames the last part first.
    assert left({**old, **swapped(0, 40, ".cleaned"), **swapped(50, 60, ".swap")}) == old


def test_a_swap_before_a_compaction_that_goes_on_is_finished() -> None:
    old = {**segment(0, b"a"), **segment(100, b"b")}
    new = swapped(0, 50, ".swap")
    assert left({**old, **new, **swapped(100, 150, ".cleaned")}) == {**in_use(new), **segment(100, b"b")}


def test_several_swaps_are_one() -> None:
    old = {**segment(0, b"a"), **segment(20, b"b"), **segment(60, b"c"), **segment(100, b"d")}
    new = {**swapped(0, 30, ".swap"), **swapped(50, 90, ".swap")}
    assert left({**old, **new}) == {**in_use(new), **segment(100, b"d")}


def test_a_swap_that_cannot_be_read_changes_nothing() -> None:
    files = {**segment(0, b"a"), **swapped(0, 150, ".swap"), name(0, ".log.swap"): b"x" * 100}
    disk = disk_with(files)
    with pytest.raises(CorruptLog):
        clear_leftovers(disk, DIRECTORY)
    assert files_of(disk) == files


@pytest.mark.parametrize("suffix", [".cleaned", ".swap", "void"])
def test_power_cut_while_tidying_up(suffix: str) -> None:
    """Interrupted anywhere and begun again, it comes to the same, but for an index that has to be built anew."""
    files = {**segment(0, b"a"), **segment(100, b"b"), **segment(120, b"d"), **segment(200, b"c")}
    files |= swapped(0, 150, ".swap" if suffix == "void" else suffix)
    if suffix == "void":
        files[name(0, ".txnindex.cleaned")] = files.pop(name(0, ".txnindex.swap"))
    disk, rng = disk_with(files), Random(1)
    expected = left(files)
    logs = {each: data for each, data in expected.items() if each.endswith(".log")}

    def cut_power() -> None:
        for image in disk.power_cut_images(rng, 30):
            clear_leftovers(image, DIRECTORY)
            found = files_of(image)
            assert found.items() <= expected.items()
            assert logs.items() <= found.items()

    def look(op: Op) -> bool:
        if op.kind in ("rename", "unlink", "fsync_dir"):
            cut_power()
        return False

    disk.fail(look, is_lasting=True)
    clear_leftovers(disk, DIRECTORY)
    disk.heal()
    cut_power()
    assert files_of(disk) == expected
