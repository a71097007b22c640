"""Other people's clients, and what a real Kafka said, against brokers as they are shipped."""
