"""The transaction coordinator: producers with a name, and what they write in one go or not at all.

    states        what a transaction can be, as a table
    transaction   one transaction and the rules of its changes. Pure
    records       transactions as records of `__transaction_state`
    shard         the transactions of one partition of it: loaded, kept, written
    markers       telling the leaders of all partitions how a transaction ended
    coordinator   what producers ask for, timeouts and expiry
    verifying     the other side: a leader asks whether a partition belongs to a transaction

A decision counts when it is in the log of all in-sync replicas; only then is anybody told of it. Whoever coordinates
next finds it there and finishes what was begun.
"""
