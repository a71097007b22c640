"""minikafka: a Kafka broker cluster in Python that speaks Kafka's own wire protocol.

The rooms `protocol`, `storage`, `broker`, `client` and `spark_jobs` are packages below this one. In a
checkout they are top-level folders, and the entries beside this file are links to them. Importing
`minikafka` alone imports none of them, so it stays cheap for whoever needs just one.
"""

__version__ = "0.1.0"
