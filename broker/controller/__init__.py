"""The controller: one broker decides for the whole cluster who leads which partition, and tells the others.

task              on every broker: stands for election, knows who is elected, runs the controller while it is us
controller        the elected controller: one task that takes events in order, from ZooKeeper, brokers and clients
events            its queue
state             what it knows, in memory: live brokers, topics, replicas, leaders
loading           reading that from ZooKeeper
writer            its writes to ZooKeeper, fenced by its epoch, many at a time
leaders           elections, controlled shutdown, proposals of leaders: from a rule to ZooKeeper and to the brokers
leader_election   pure rules: who leads, and who stays in the ISR
proposals         pure rules: which ISR a leader may propose
assignment        pure rules: which brokers get the replicas of a new partition
deletion          topics on their way out
reassignment      replicas on their way to other brokers
channels          who has to be told when something has changed
channel           what one broker has to be told, in order and until it has heard it
"""
