"""The broker, by its parts and over real sockets."""
