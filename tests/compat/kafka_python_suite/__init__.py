"""kafka-python's own integration tests, put to our broker. Its code is fetched for each run; none of it lies here."""
