"""Seeded campaigns: shipped brokers and the bundled client in one process, a random subset of all faults, and judges.

plan       what a seed means: settings of the cluster, and a list of faults that can be shortened and replayed
settings   the cluster
faults     how each kind of fault is injected and ends; it names its parts
load       the clients: producers, readers (and `load_transactions`, `load_groups`)
observer   what is watched while it runs: leaders by epoch, high watermarks, elections, truncations
replicas   what must hold in the end: equal replicas with their producer state and leader epochs
leaks      what must be gone when all have stopped
losses     which losses the documented guarantees permit, by the history of faults
anomalies  anomaly classes of transactions and readers that the judges of the chaos rows do not search for
judge      from histories to violations
play       one seed from its start to its result
"""
