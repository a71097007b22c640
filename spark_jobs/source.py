"""The data source that Spark knows as `minikafka`.

Spark starts a Python process for many a question, so what is not needed for all of them is imported when it is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from minikafka.spark_jobs.schema import DDL, DDL_WITH_HEADERS

_PATH: Final = "PYTHONPATH"


def register(session: SparkSession) -> None:
    """Make `format("minikafka")` known to a session, where minikafka is not installed but shipped by --py-files.

    Spark hands such files on to its workers, but not to the process of a stream's reader, which it points to where they
    are not. So that is told where this module came from.
    """
    # A file that has folders in it is a zip.
    shipped = next((str(each) for each in Path(__file__).parents if each.is_file()), None)
    if shipped is not None:
        environment = session.sparkContext.environment
        known = [each for each in environment.get(_PATH, "").split(os.pathsep) if each not in ("", shipped)]
        environment[_PATH] = os.pathsep.join([shipped, *known])
    session.dataSource.register(MinikafkaDataSource)


class MinikafkaDataSource(DataSource):
    """Found by Spark without registration where `pyspark_minikafka` can be imported. Its options: docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "minikafka"

    def schema(self) -> str:
        # Whether it is a flag at all is checked with the other options.
        return DDL_WITH_HEADERS if self.options.get("includeheaders", "").strip().lower() == "true" else DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        from minikafka.spark_jobs.batch_reader import BrokerBatchReader
        from minikafka.spark_jobs.direct.reader import DirectBatchReader
        from minikafka.spark_jobs.options import Use, parse_source_options

        options = parse_source_options(dict(self.options), Use.BATCH_READ)
        return DirectBatchReader(options) if options.log_dirs else BrokerBatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from minikafka.spark_jobs.options import Use, parse_source_options
        from minikafka.spark_jobs.stream_reader import MinikafkaStreamReader

        return MinikafkaStreamReader(parse_source_options(dict(self.options), Use.STREAM_READ))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from minikafka.spark_jobs.errors import BadOption
        from minikafka.spark_jobs.options.names import Use
        from minikafka.spark_jobs.options.sink import parse_sink_options
        from minikafka.spark_jobs.sink.columns import check_schema
        from minikafka.spark_jobs.sink.writers import BatchSink

        if overwrite:
            raise BadOption('mode("overwrite") cannot be: records are only ever added to topics; say mode("append")')
        options = parse_sink_options(dict(self.options), Use.BATCH_WRITE)
        check_schema(schema, options.topic)
        return BatchSink(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from minikafka.spark_jobs.options.names import Use
        from minikafka.spark_jobs.options.sink import parse_sink_options
        from minikafka.spark_jobs.sink.columns import check_schema
        from minikafka.spark_jobs.sink.writers import StreamSink

        options = parse_sink_options(dict(self.options), Use.STREAM_WRITE)
        check_schema(schema, options.topic)
        return StreamSink(options)
