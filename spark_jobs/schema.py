"""The columns of the source, as Spark's own Kafka source has them. Imports nothing, as Spark asks for it often."""

from typing import Final

DDL: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
DDL_WITH_HEADERS: Final = f"{DDL}, headers array<struct<key:string,value:binary>>"
