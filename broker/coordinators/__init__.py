"""Coordinators: what a broker keeps for groups and transactions, in internal topics that are replicated like others.

    shards        the partitions of such a topic that are led here, loaded and dropped by leader epoch
    journal       writing to such a partition, and reading all of it
    finding       which broker coordinates what, and making the topic when it is first asked for
    groups/       the group coordinator: members, generations, committed offsets
    transactions/ the transaction coordinator: sessions of producers, what is open, how it ends
    verifying     asking it, on behalf of a partition, whether a write belongs to a transaction
    all           all of these, put together

Whoever leads a partition coordinates what is kept in it. State is changed in memory only as far as it is in the log of
all in-sync replicas, or can be had anew from the members.
"""
