"""Tests of the ZooKeeper side of the broker."""
