"""Tests of the client's commands, on brokers in processes of their own."""
