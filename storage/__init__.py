"""The log on disk: segments, indexes, checkpoints, producer state, retention, compaction and recovery.

Synchronous throughout. No event loop and no sockets: the broker decides when and on which thread a call
runs. The files are Kafka's own, byte for byte, so Kafka's tools read ours and the other way round.

May import `minikafka.protocol`.
"""
