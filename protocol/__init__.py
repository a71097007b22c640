"""The wire: bytes <-> objects.

Sans-IO: nothing here opens a socket or a file, knows asyncio, reads a clock or draws a random
number, and nothing here imports another room.  What a peer sends wrong surfaces as exactly one
exception type: `DecodeError` for messages and frames, `CorruptRecord` for record batches.
"""
