"""Tests of how brokers follow each other."""
