"""Tests of `minikafka up`."""
