"""The partitions that this broker holds: their roles, their logs, and who waits for something to happen to them.

partition    one replica: role, epoch, high watermark; the only caller of the log
leadership   what a leader knows of its followers, and how far all of them are
partitions   all replicas of this broker, as the controller wants them
turns        what the controller wants, one thing after the other, each to its end
waiting      requests that cannot be answered yet
loading      opening the log directories at the start
dir_worker   what waits for the disk, one directory at a time
flusher      syncs, shared by everything that was written meanwhile
upkeep       checkpoints, retention and other housekeeping
cleaner      compaction, in a child process
"""
