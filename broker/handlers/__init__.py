"""The handlers: from a request to its answer, one module per family of messages, named as in `protocol.messages`.

Each module has a function `routes(context)` with the rows it adds to the table of what is served (`routes` puts them
together). A handler is a plain function of a `Call`; what it has to wait for it returns as an awaitable. The errors of
a peer are `KafkaError`s, raised anywhere below and turned into codes here, one topic or partition at a time.
"""
