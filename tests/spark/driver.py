"""A driver that is killed: one query into parquet, one into a topic exactly once, both until all is read.

python -m tests.spark.driver BOOTSTRAP SOURCE_TOPIC SINK_TOPIC FOLDER

Prints `started` once both run, and at the end how many rows the parquet files have, and how many different ones.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame

from tests.spark.crashing import CrashingSource
from tests.spark.running import has_run, make_session

OFFSETS_PER_BATCH = 600


def main(bootstrap: str, source: str, sink: str, folder: Path) -> None:
    session = make_session("killed", {"spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder)})
    session.dataSource.register(CrashingSource)

    def stream() -> DataFrame:
        reader = session.readStream.format("minikafka").option("kafka.bootstrap.servers", bootstrap)
        reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
        # More tasks than one: a commit that dies halfway has to leave something open.
        return reader.option("maxOffsetsPerTrigger", OFFSETS_PER_BATCH).option("minPartitions", 2).load()

    files = stream().selectExpr("partition", "offset", "CAST(value AS STRING) AS value").writeStream.format("parquet")
    files = files.option("path", str(folder / "rows")).option("checkpointLocation", str(folder / "files"))
    topic = stream().select("value").writeStream.format("crashing").option("kafka.bootstrap.servers", bootstrap)
    topic = topic.option("topic", sink).option("delivery", "exactly_once")
    topic = topic.option("checkpointLocation", str(folder / "topic"))
    writers = [files.trigger(availableNow=True), topic.trigger(availableNow=True)]
    while writers:
        started = [(writer, writer.start()) for writer in writers]
        print("started", flush=True)
        writers = [writer for writer, query in started if not has_run(query)]
    rows = session.read.parquet(str(folder / "rows"))
    print("rows", rows.count(), rows.distinct().count(), flush=True)
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
