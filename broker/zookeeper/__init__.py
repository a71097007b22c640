"""ZooKeeper: the seam to it, the real one behind it, and the recipes that brokers agree by.

coord          the seam: a tree of small nodes, a session, and what may go wrong with both
zk*            a Coord on a real ZooKeeper, by kazoo, which nobody outside of these modules sees
session_desk   what every Coord has in common
znodes         paths and contents, Kafka's own
registration   a broker's node, the cluster's id, producer ids
dir_failures   telling the controller that a log directory failed
election       who is the controller, and writes that only the controller can do
embedded, kit  a real server as a child process, and the Java and jars it takes
"""
