"""The outside world, simulated: what a broker touches, made to fail on purpose and repeatable by a seed."""
