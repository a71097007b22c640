"""Connections: frames in, answers out in order, and asking other brokers.

server       listening, counting connections, stopping without cutting anybody off
connection   one peer: frames, order of answers, back-pressure
dispatch     from a frame to the handler of its request; the table of what is served
net          the seam to sockets
peer         a connection to another broker, from the asking side
"""
