"""Seeded campaigns: shipped brokers and the bundled client in one process, a random subset of all faults, and judges.

plan       what a seed means: settings of the cluster, and a list of faults that can be shortened and replayed
faults     how each kind of fault is injected and ends
load       the clients: producers, transactions, readers, a group
observer   what is watched while it runs: leaders by epoch, high watermarks, elections, truncations
replicas   what must hold in the end: equal replicas with their producer state and leader epochs, nothing open
losses     which losses the documented guarantees permit, by the history of faults
play       one seed from its start to its result
"""
