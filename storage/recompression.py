"""Batches in the topic's codec, where `compression.type` is not the producer's choice.

The records' bytes stay as they are: they are inflated and compressed again, and nobody looks into them. A batch that
is in the codec already is kept, whatever level it was compressed at. So is a marker: it gains nothing, and every
replica reads it.
"""

from __future__ import annotations

from minikafka.protocol.compression import Compression
from minikafka.protocol.errors import CorruptRecord, InflatesTooFar, InvalidRecordError, MessageTooLargeError
from minikafka.protocol.records import builder
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.layout import CODEC_MASK, CONTROL_BIT
from minikafka.protocol.records.pieces import WHOLE_BYTES_MAX
from minikafka.protocol.varint import INT32_MAX


def recompress(
    batch: BatchView,
    compression: Compression,
    level: int | None,
    inflated_bytes_max: int,
    size_max: int = INT32_MAX,
) -> BatchView:
    """The batch in the codec, itself or a copy; InvalidRecord if it cannot be inflated, or not within the limit.

    `level` is of the codec's own scale, None for its default. MessageTooLarge if the copy of a large batch would have
    more than `size_max` bytes.
    """
    codec = batch.attributes & CODEC_MASK
    if codec == compression or (not codec and batch.attributes & CONTROL_BIT):
        return batch
    try:
        try:
            return BatchView(builder.recompress(batch, compression, level, min(WHOLE_BYTES_MAX, inflated_bytes_max)))
        except InflatesTooFar:
            if inflated_bytes_max <= WHOLE_BYTES_MAX:
                raise
        copy = builder.recompress_in_pieces(
            batch, compression, level, size_max=size_max, inflated_bytes_max=inflated_bytes_max
        )
    except CorruptRecord as error:
        # The CRC was right, so sending the batch again would not help: the answer must not be a retriable one.
        raise InvalidRecordError(str(error)) from None
    if copy is None:
        raise MessageTooLargeError(f"in its topic's codec the batch has more than {size_max} bytes")
    return BatchView(copy)
