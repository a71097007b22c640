"""Schedules in which a cluster would lose, change or forget what it has acknowledged if one of its rules were missing.

Each is played by real brokers in a simulated world, step by step. And for most there is a mutant: the same schedule
with the rule switched off, which has to end badly, or the schedule would prove nothing.
"""
