"""Every message that Apache Kafka 3.9 advertises, one module a family, one class for all versions.

Field names are Kafka's in snake case, so its own documentation reads along.  The modules open with
what changed from version to version; `apis` has them all in one table.
"""
