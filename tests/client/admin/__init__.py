"""Tests of the admin, on brokers in processes of their own."""
