"""The two hashes that decide where things live, bit for bit as Kafka's Java code computes them.

- A record goes to the partition that murmur2 of its key names, so every producer must agree on it: two producers
  that differ by a bit split a key over two partitions and lose its order.
- A group or transactional id belongs to the partition of `__consumer_offsets` or `__transaction_state` that the hash of
  its Java string names, so every broker must agree on it.

Java computes with 32-bit integers that wrap around; here every product is cut to 32 bits instead.
"""

from __future__ import annotations

from struct import unpack_from

_MASK_32 = 0xFFFFFFFF
_MASK_31 = 0x7FFFFFFF

_MURMUR2_SEED = 0x9747B28C
_MURMUR2_M = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """The 32-bit hash of a record key, as an unsigned number."""
    size = len(data)
    whole = size & ~3
    hashed = _MURMUR2_SEED ^ size
    for word in unpack_from(f"<{whole >> 2}I", data):
        word = word * _MURMUR2_M & _MASK_32
        word = (word ^ word >> 24) * _MURMUR2_M & _MASK_32
        hashed = hashed * _MURMUR2_M & _MASK_32 ^ word
    if size > whole:
        tail = int.from_bytes(data[whole:], "little")
        hashed = (hashed ^ tail) * _MURMUR2_M & _MASK_32
    hashed = (hashed ^ hashed >> 13) * _MURMUR2_M & _MASK_32
    return hashed ^ hashed >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a record by its key, as Kafka's default partitioner chooses it."""
    # Java makes the hash positive by dropping the sign bit, not by negating it.
    return (murmur2(key) & _MASK_31) % partition_count


def java_string_hash(text: str) -> int:
    """`String.hashCode()`: a polynomial in 31 over UTF-16 units, as a signed 32-bit number."""
    # Java strings are UTF-16: a character beyond U+FFFF counts as two units, a lone surrogate as itself.
    utf16 = text.encode("utf-16-le", "surrogatepass")
    hashed = 0
    for unit in unpack_from(f"<{len(utf16) >> 1}H", utf16):
        hashed = hashed * 31 + unit & _MASK_32
    return hashed - (1 << 32) if hashed > _MASK_31 else hashed


def coordinator_partition(name: str, partition_count: int) -> int:
    """The partition that keeps the state of a group or transactional id."""
    hashed = java_string_hash(name)
    # -2**31 has no positive counterpart in 32 bits; Kafka takes 0 for it.
    return 0 if hashed == -(1 << 31) else abs(hashed) % partition_count
