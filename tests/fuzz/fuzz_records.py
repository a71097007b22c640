"""Coverage-guided fuzzing of everything that reads record batches: ``make fuzz``.

The first byte of an input chooses what the rest is: a buffer of batches, the payload of one, or the data of a codec.
Only CorruptRecord may come out, nothing may inflate past its limit, and all ways of reading records must agree.

Inputs start from segments that Apache Kafka wrote.
"""

import sys
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["minikafka"]):
    from minikafka.protocol.compression import Compression, compress, decompress
    from minikafka.protocol.errors import CorruptRecord
    from minikafka.protocol.records import (
        BatchView,
        Record,
        RecordColumns,
        columns,
        iter_records,
        parts,
        read_batches,
        read_columns,
        read_marker,
        read_whole_batches,
        recompress,
    )
    from minikafka.protocol.records.walk import Base, read_records

ROOT = Path(__file__).parent.parent.parent
SEGMENTS = ROOT / "tests" / "protocol" / "data"
CORPUS = ROOT / "build" / "fuzz" / "records"  # kept, so that the next run goes on from it

LIMIT = 1 << 16
BASE = Base(1000, 1_700_000_000_000)
BATCHES, PAYLOAD = 0, 1
# What follows is the number of a codec.
CODECS = 1

NEVER = 10**9
# Where runs and scattered records begin to be used: settings under which small inputs reach all of the code.
WAYS = [(8, 2, 48), (1, NEVER, NEVER), (NEVER, 0, 1), (2, 2, 1)]


def read_in_every_way(payload: bytes, count: int, expected: list[Record] | None) -> None:
    for columns._RUN_ROWS_MIN, parts._SHORT_RUNS_MAX, parts._SCATTERED_ROWS_MIN in WAYS:
        try:
            found = RecordColumns(payload, count, BASE)
        except CorruptRecord:
            if expected is not None:
                raise AssertionError("columns refuse what the walk reads") from None
            continue
        records = [*found.records()]
        if records != expected:
            raise AssertionError(f"columns give {records}, the walk {expected}")
        cells = zip(found.offsets.tolist(), found.timestamps_ms.tolist(), found.keys(), found.values(), strict=True)
        if [(*cell, found.headers(row)) for row, cell in enumerate(cells)] != records:
            raise AssertionError("columns and their records differ")


def fuzz_payload(data: bytes) -> None:
    payload, count = data[1:], data[0]
    expected: list[Record] | None
    try:
        expected, stop = read_records(payload, 0, count, BASE)
        if stop != len(payload):
            expected = None
    except CorruptRecord:
        expected = None
    read_in_every_way(payload, count, expected)


def fuzz_batch(batch: BatchView) -> None:
    try:
        read = [*iter_records(batch, LIMIT)]
    except CorruptRecord:
        try:
            read_columns(batch, LIMIT)
        except CorruptRecord:
            return
        raise AssertionError("columns read what the iterator refuses") from None
    if [*read_columns(batch, LIMIT).records()] != read:
        raise AssertionError("columns and iterator differ")
    if batch.is_control:
        with suppress(CorruptRecord):
            read_marker(batch)
    again = BatchView(recompress(batch, Compression.LZ4, max_bytes=LIMIT))
    if [*iter_records(again, LIMIT)] != read:
        raise AssertionError("recompressing changes records")


def fuzz_batches(data: bytes) -> None:
    batches, used = read_whole_batches(data)
    if sum(batch.size for batch in batches) != used:
        raise AssertionError("the batches do not add up")
    if used and [batch.data for batch in read_batches(data[:used])] != [batch.data for batch in batches]:
        raise AssertionError("the two ways to cut batches differ")
    for batch in batches:
        fuzz_batch(batch)


def test_one_input(data: bytes) -> None:
    if len(data) < 2:
        return
    choice = data[0] % (CODECS + len(Compression))
    try:
        if choice == BATCHES:
            fuzz_batches(data[1:])
        elif choice == PAYLOAD:
            fuzz_payload(data[1:])
        elif len(decompress(Compression(choice - CODECS), data[1:], LIMIT)) > LIMIT:
            raise AssertionError("more than the limit")
    except CorruptRecord:
        pass


def write_corpus(folder: Path) -> None:
    for path in sorted(SEGMENTS.glob("*.bin")):
        for number, batch in enumerate(read_batches(path.read_bytes())):
            name = f"{path.stem}-{number}"
            payload = batch.payload()
            (folder / name).write_bytes(bytes([BATCHES]) + bytes(batch.data))
            (folder / f"{name}-payload").write_bytes(bytes([PAYLOAD, batch.record_count % 256]) + payload)
            for codec in Compression:
                if codec:
                    compressed = compress(codec, payload[:500])
                    (folder / f"{name}-{codec.name}").write_bytes(bytes([CODECS + codec]) + compressed)


def main() -> None:
    CORPUS.mkdir(parents=True, exist_ok=True)
    write_corpus(CORPUS)
    atheris.Setup([*sys.argv, str(CORPUS)], test_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
