"""Where Spark looks for the data source: pyspark imports every top-level module named `pyspark_*`.

It then asks each for an attribute `DefaultSource`. One module that fails to import makes Spark give up on all of them,
hence the rule for this file: it imports nothing before it is asked, and on a machine that lacks what the source needs
there is no such attribute.
"""


def __getattr__(name: str) -> object:
    if name == "DefaultSource":
        try:
            from minikafka.spark_jobs.source import MinikafkaDataSource
        except ImportError as error:
            raise AttributeError(f"the minikafka data source needs minikafka[spark]: {error}") from error
        return MinikafkaDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
