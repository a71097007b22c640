"""Schedules in which a cluster would lose, change or forget what it has acknowledged if one of its rules were missing.

Each is played by real brokers in a simulated world, step by step. And for most there is a mutant: the same schedule
with the rule switched off, which has to end badly, or the schedule would prove nothing. The modules number them so:

     1  a follower cuts its log to a high watermark that it heard of late        test_truncation
     2  another record at the same offset                                        test_truncation
     3  two failovers in a row: epochs that one side does not know               test_truncation
     4  a new leader knows of less that is committed than the last one           test_leaders
     5  followers of another epoch than the leader's                             test_leaders
     6  an ISR that counts before it is decided, or not when it is               test_in_sync
     7  in sync with less than is committed, or as who it was before a restart   test_in_sync
     8  a state that is written over another; an answer that is lost             test_in_sync, test_control
     9  too few in sync by the time of the ack                                   test_in_sync
    10  an ack that belongs to another leader                                    test_leaders
    14  a retry at the next leader, or a batch before its turn                   test_producers
    15  what is known of records that were cut off                               test_producers
    18  what is committed is not cut off                                         test_truncation
    19  a controller that is none any more; a topic that was made again          test_control
        other replicas and other epochs that come one after the other            test_reassignments
    20  damage where all was synced                                              test_restarts
    21  restarts with less than there was                                        test_restarts, test_eligible
    26  a log that is cut while it is read                                       test_readers
    27  a role that changes during a wait                                        test_leaders
    28  sessions that are over, or silent                                        test_sessions

11 to 13, 16 and 17 are about groups and transactions. 22 to 25 are about one disk: files and directories that were not
synced, syncs that fail, torn and empty ends, and time are tried in tests/storage.

`by_lot` plays what nobody has thought of.
"""
