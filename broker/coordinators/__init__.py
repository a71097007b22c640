"""Coordinators: what a broker keeps for groups and transactions, in internal topics that are replicated like others.

    shards        the partitions of such a topic that are led here, loaded and dropped by leader epoch
    journal       writing to such a partition, and reading all of it
    finding       which broker coordinates what, and making the topic when it is first asked for
    groups/       the group coordinator: members, generations, committed offsets

Whoever leads a partition coordinates what is kept in it. State is changed in memory only as far as it is in the log of
all in-sync replicas, or can be had anew from the members.
"""
