"""Spark: the data source and sink behind `format("minikafka")`, and jobs that use them.

May import `minikafka.client`, `minikafka.protocol` and, to scan segment files directly,
`minikafka.storage.formats`. Never the broker: a job may run on a machine that has none.
"""
