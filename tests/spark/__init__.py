"""Spark: options and plans as values, and queries on a real local Spark with real brokers."""
