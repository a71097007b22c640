"""The broker's configuration, compared with what a real Kafka 3.9.1 accepted, described and changed."""
