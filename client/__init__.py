"""The client library: producer, consumer and admin, for asyncio, with a thin synchronous face.

May import `minikafka.protocol` and nothing else of ours, and needs no more than the light install, so
that a program which only talks to a cluster does not carry a broker with it.
"""
