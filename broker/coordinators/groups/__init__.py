"""Groups in the classic protocol: members join, a leader assigns, all sync; and the offsets that they commit.

states        states, events and what is answered in which state, as tables
members       who is in a group, who waits, which protocol all of them know
group         the state machine; pure: time is an argument, ids and storing are seams
offsets       what a group has committed
records       both as records of `__consumer_offsets`, and back
shard         the groups of one partition of that topic
coordinator   requests: timers, waiting, storing
"""
