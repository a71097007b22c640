"""The server: connections, request handlers, partitions, replication, controller and coordinators.

One event loop owns all state of a broker; whatever would block it belongs behind a worker thread or in
a child process. Time, chance, network, disk and ZooKeeper come in through interfaces passed to the core,
so that many brokers can run inside one process under a seeded simulator.

May import `minikafka.storage` and `minikafka.protocol`. Never the client: what a follower and a client
have in common is plain bytes, and lives in the protocol.
"""
