"""The controller: one broker decides for the whole cluster who leads which partition, and tells the others.

task              on every broker: stands for election, knows who is elected, runs the controller while it is us
controller        the elected controller: one task that takes events in order, from ZooKeeper, brokers and clients
state             what it knows, in memory: live brokers, topics, replicas, leaders
leader_election   pure rules: who leads, and who stays in the ISR
assignment        pure rules: which brokers get the replicas of a new partition
writer            its writes to ZooKeeper, fenced by its epoch, many at a time
channel           what one broker has to be told, in order and until it has heard it
"""
