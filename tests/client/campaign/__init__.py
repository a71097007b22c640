"""Seeded campaigns: a client behind the fault proxy on real brokers, and judges of what it did.

`make campaign-client SEEDS=0:100` plays them. A seed decides on settings of the client, faults by frame, leader moves,
restarts and what is slow. Times are the machine's: a seed that is played again makes the same choices at other moments.

cluster      three brokers, advertised behind the proxy, with a second listener that leads past it
clients/     the client that is put to the test: ours, aiokafka or confluent-kafka, by one interface
play         one seed: its names, random numbers, history, and helpers that workloads share
oracle       an independent reader and writer (confluent-kafka, past the proxy)
producing    idempotent producers
grouping     groups whose members come and go
transacting  transactions over several partitions and offsets
copying      read, process slowly, write: exactly once
recreating   topics that are deleted and created again while they are read
run          the command
"""
