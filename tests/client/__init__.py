"""The bundled client: its parts, and whole against brokers as they are shipped."""
