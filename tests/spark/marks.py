"""What every test with a real Spark is marked with."""

import os

import pytest

KILLS = int(os.environ.get("MINIKAFKA_SPARK_KILLS", "0"))
"""How many drivers are killed at random, and with any number more brokers and more points of a commit than usual."""

SPARK = [
    pytest.mark.needs("java"),
    # The first of them starts Spark, which takes a minute on a machine that is busy with other things.
    pytest.mark.timeout(240),
    # Sockets to the JVM are py4j's to close.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
