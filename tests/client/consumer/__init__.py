"""The consumer, by its parts and against running brokers."""
