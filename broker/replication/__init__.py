"""Replication between brokers: followers fetch from leaders, leaders ask the controller for another ISR.

followers        which partitions are fetched from which leader
fetcher          one leader: a fetch at a time for all that is followed there
following        one partition that is followed: what came of a fetch, and where its log has to be cut
isr              proposals of leaders on their way to the controller
controller_link  the way to the controller, whoever it is
"""
