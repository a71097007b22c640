"""The aborted transactions whose markers are in one segment: `<base offset>.txnindex`.

A reader of committed data gets the aborted transactions that overlap what it was sent, and leaves their records out.
Entries are in the order of the markers, so `last_offset` grows and a bisection finds where to start. Each entry also
has the last stable offset of its time: a transaction of which any record lies below it had its marker written before.
So once that offset has reached the end of a fetch, no later entry can matter, here or in later segments.

The file is made with the first entry, and most segments have none. Nothing is kept in memory but the file and its
length.
"""

from __future__ import annotations

from collections.abc import Iterator

from minikafka.storage.disk import Disk, File
from minikafka.storage.formats import TXN_ENTRY, AbortedTxn, BadFile, encode_aborted_txn, parse_aborted_txns

_ENTRY_BYTES = TXN_ENTRY.size
# Read in one go: 8 KiB, which is more than nearly all of these files hold.
_READ_ENTRIES = 240


class TransactionIndex:
    """Aborted transactions of one segment; the disk is not touched before they are needed."""

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._disk = disk
        self._file: File | None = None
        # Whole entries in the file; None until somebody looked.
        self._count: int | None = None
        # Of the entry that was added last, if nothing was dropped since.
        self._last_offset = -1

    # ---------------------------------------------------------------------------------- writing

    def append(self, txn: AbortedTxn) -> None:
        """Add an entry; if that fails, the file is as before."""
        count = self._open()
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        assert txn.last_offset > self._last_offset
        self._trim(count)
        try:
            self._file.append((encode_aborted_txn(txn),))
        except OSError:
            self._file.truncate(count * _ENTRY_BYTES)
            raise
        self._count = count + 1
        self._last_offset = txn.last_offset

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose markers are at the offset or later."""
        count = self._open()
        kept = self._first_from(offset, count)
        if kept < count:
            self._shorten(kept)

    def reset(self) -> None:
        """Drop all entries."""
        self._open()
        self._shorten(0)

    def _shorten(self, count: int) -> None:
        if self._file is not None:
            self._file.truncate(count * _ENTRY_BYTES)
        self._count = count
        self._last_offset = -1

    def _trim(self, count: int) -> None:
        """Cut off the part of an entry that a crash may have left behind."""
        if self._file is not None and self._file.size() != count * _ENTRY_BYTES:
            self._file.truncate(count * _ENTRY_BYTES)

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()

    # ---------------------------------------------------------------------------------- reading

    def __len__(self) -> int:
        return self._open()

    def entries(self) -> list[AbortedTxn]:
        return [*self._entries_from(0)]

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTxn], bool]:
        """The transactions that overlap the offsets from `fetch_offset` to before `upper_bound_offset`.

        With it, whether these are all; otherwise the next segment has to be asked too.
        """
        found: list[AbortedTxn] = []
        for txn in self._entries_from(self._first_from(fetch_offset, self._open())):
            if txn.first_offset < upper_bound_offset:
                found.append(txn)
            if txn.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def sanity_check(self) -> None:
        """Raise BadFile for anything that cannot have been written like this."""
        count = self._open()
        if self._file is not None and self._file.size() != count * _ENTRY_BYTES:
            raise BadFile(f"{self.path}: does not end with a whole entry", count * _ENTRY_BYTES)
        last_offset = self.base_offset - 1
        for number, txn in enumerate(self._entries_from(0)):
            if txn.last_offset <= last_offset or txn.first_offset > txn.last_offset:
                raise BadFile(f"{self.path}: {txn} cannot follow offset {last_offset}", number * _ENTRY_BYTES)
            last_offset = txn.last_offset

    def _first_from(self, offset: int, count: int) -> int:
        """How many entries have their markers before the offset."""
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle).last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _entry(self, number: int) -> AbortedTxn:
        return self._read(number, 1)[0]

    def _entries_from(self, number: int) -> Iterator[AbortedTxn]:
        count = self._open()
        while number < count:
            rows = min(_READ_ENTRIES, count - number)
            yield from self._read(number, rows)
            number += rows

    def _read(self, number: int, rows: int) -> list[AbortedTxn]:
        assert self._file is not None
        data = self._file.read(number * _ENTRY_BYTES, rows * _ENTRY_BYTES)
        if len(data) != rows * _ENTRY_BYTES:
            raise BadFile(f"{self.path}: shorter than the {self._count} entries it had", len(data))
        try:
            return parse_aborted_txns(data)
        except BadFile as error:
            raise BadFile(f"{self.path}: {error.reason}", number * _ENTRY_BYTES + error.position) from None

    # ---------------------------------------------------------------------------------- the file

    def _open(self) -> int:
        """Open the file if there is one; how many entries it has."""
        if self._count is None:
            count = 0
            if self._disk.exists(self.path):
                self._file = self._disk.open(self.path)
                count = self._file.size() // _ENTRY_BYTES
            self._count = count
        return self._count

    def rename(self, path: str) -> None:
        """Move the file, if there is one; what is open stays open."""
        if self._open() or self._file is not None:
            self._disk.rename(self.path, path)
        self.path = path

    def delete(self) -> None:
        self.close()
        if self._disk.exists(self.path):
            self._disk.unlink(self.path)

    def close(self) -> None:
        """Let go of the file; it is opened again if need be."""
        if self._file is not None:
            self._file.close()
        self._file = None
        self._count = None
        self._last_offset = -1
