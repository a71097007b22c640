"""Tests of connections, requests and peers."""
