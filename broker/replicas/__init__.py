"""The partitions that a broker holds: their role, their log, and what is done for them in the background.

partition    one partition: leader or follower, appending, reading, the high watermark
partitions   all of them
waiting      requests that wait for data or for replicas
dir_worker   what a log directory has to do that waits for the disk
loading      opening and loading all logs at the start
flusher      syncs: the group commit of whoever waits for the disk, and those in the background
upkeep       checkpoints, retention and whatever else has to be done from time to time
cleaner      compaction, which a child process does
"""
