"""Tests of what a broker does with the partitions it holds."""
