"""A fault proxy: a process in front of the brokers' advertised listeners, so that every client can be put behind it.

Payloads are never rewritten: brokers advertise the proxy's ports. The proxy knows frames, API keys and correlation ids,
and drops, holds back, cuts or resets what a plan names.

plan       which frame suffers which fault: a pure function of a seed and the frame's number
relay      one connection: frames in both directions, and what is done to them
server     the process: a relay for each broker, and a control channel
control    how a test starts the process and gives it plans
"""
