"""Putting a cleaned segment in the place of old ones, in steps that wait for nothing, with a sync between two of them.

    .cleaned -> .swap     as long as any file is `.cleaned`, the old segments count
    old -> .deleted       the `.swap` files count, and old segments within their offsets go
    .swap -> in use       no old segment is left

Each step is on disk before the next begins; after a crash at any point, `leftovers` finds its way. Until the last step
readers use the old segments, whatever their files are called.

Nothing else may take segments out of the log meanwhile, so the log knows of it (`Log.swap`): retention leaves the log
alone, and whoever cuts it has the exchange completed first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.storage.disk import join
from minikafka.storage.errors import StorageError
from minikafka.storage.formats import CLEANED_SUFFIX, SNAPSHOT_SUFFIX, SWAP_SUFFIX, segment_name
from minikafka.storage.segment import FILE_SUFFIXES, Segment

if TYPE_CHECKING:
    from minikafka.storage.log import Log


class Swap:
    """See the module's description; made by `compaction.Compaction`."""

    def __init__(self, log: Log, old: list[Segment], base_offset: int, size: int) -> None:
        assert log.swap is None
        log.swap = self
        self._log = log
        self._old = old
        self._base_offset = base_offset
        self._size = size
        self._has_begun = False
        self._steps = iter((self._announce, self._move_old_away, self._use))

    def advance(self) -> bool:
        """Do the next step, on the loop, and then `sync`; False if there was nothing left to do."""
        step = next(self._steps, None)
        if step is None:
            return False
        self._log.check_usable()
        self._has_begun = True
        try:
            step()
        except OSError as error:
            raise self._log.failure("compact", error) from error
        return True

    def sync(self) -> None:
        """On any thread."""
        try:
            self._log.disk.fsync_dir(self._log.directory)
        except OSError as error:
            raise StorageError(f"{self._log.directory}: cannot compact: {error}") from error

    def complete(self) -> None:
        """Do on the spot what is left to do."""
        if self._has_begun:
            # Whoever was about to may not have come to it.
            self.sync()
        while self.advance():
            self.sync()

    def _announce(self) -> None:
        self._rename(CLEANED_SUFFIX, SWAP_SUFFIX)

    def _move_old_away(self) -> None:
        for segment in self._old:
            segment.rename_deleted(self._log.retirements)

    def _use(self) -> None:
        log = self._log
        self._rename(SWAP_SUFFIX, "")
        log.exchange(self._old, [Segment(log.disk, log.directory, self._base_offset, log.config, size=self._size)])
        log.swap = None
        for segment in self._old[1:]:
            # A snapshot is for the segment that begins there.
            if log.disk.exists(segment.path(SNAPSHOT_SUFFIX)):
                log.disk.unlink(segment.path(SNAPSHOT_SUFFIX))

    def _rename(self, old: str, new: str) -> None:
        disk = self._log.disk
        for suffix in FILE_SUFFIXES:
            path = join(self._log.directory, segment_name(self._base_offset) + suffix)
            if disk.exists(path + old):
                disk.rename(path + old, path + new)
