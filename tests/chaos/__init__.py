"""Clusters of real processes that are broken on purpose, under load, and a judge of what their clients saw.

history, checker, outages   what clients did and were told, and what is wrong with it; pure
cluster, links, view        processes, the connections between them, and what ZooKeeper knows of them
load                        producers and readers that write the history
faults, rows                what is done to a cluster
replicas                    the files that are left, compared byte by byte
report, run                 `make chaos`: all rows, and the table of results
"""
