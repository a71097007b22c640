"""Batch reads straight from log directories, with no broker involved.

    files     the files of a partition          batches   batches of a file, by offset
    copies    which copy of one is read         catalog   where partitions begin and end
    reader    the reader that Spark is given

What is below the checkpointed high watermark is committed and does not change, so it can be read while a broker writes
on. Files are mapped: one that is deleted meanwhile, by retention or compaction, can still be read to its end.
"""
