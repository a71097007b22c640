"""The tests, in the order of the rooms they are about, and what they share."""
