"""Kafka clients, each behind a small adapter, so that one test is put to all of them."""
