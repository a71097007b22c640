"""Record batches, version 2: the header that brokers live on, and the records inside.

    batch      the header of a batch in a buffer; what a broker needs, and all that it changes in place
    reader     records one by one                 columns    a whole batch column by column
    pieces     what inflates to more than a few MiB, piece by piece
    builder    batches from records               control    the markers that end transactions

Bytes that are not a batch, or not the records that its header states, are a `CorruptRecord`, nothing else is raised.
"""

from minikafka.protocol.compression import Compression
from minikafka.protocol.records.batch import BatchView, read_batches, read_whole_batches
from minikafka.protocol.records.builder import BatchBuilder, recompress
from minikafka.protocol.records.columns import IntColumn, RecordColumns, iter_columns, iter_fields, read_columns
from minikafka.protocol.records.control import ControlType, EndMarker, build_marker, read_marker
from minikafka.protocol.records.encoder import Header
from minikafka.protocol.records.layout import HEADER_BYTES, RECORD_BYTES_MAX, TimestampType
from minikafka.protocol.records.pieces import WHOLE_BYTES_MAX, iter_plain_batches
from minikafka.protocol.records.reader import iter_records
from minikafka.protocol.records.walk import Headers, Record

__all__ = [
    "HEADER_BYTES",
    "RECORD_BYTES_MAX",
    "WHOLE_BYTES_MAX",
    "BatchBuilder",
    "BatchView",
    "Compression",
    "ControlType",
    "EndMarker",
    "Header",
    "Headers",
    "IntColumn",
    "Record",
    "RecordColumns",
    "TimestampType",
    "build_marker",
    "iter_columns",
    "iter_fields",
    "iter_plain_batches",
    "iter_records",
    "read_batches",
    "read_columns",
    "read_marker",
    "read_whole_batches",
    "recompress",
]
