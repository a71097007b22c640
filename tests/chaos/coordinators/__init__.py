"""Groups and transactions while their coordinators, members, producers and leaders are killed.

wire                    a client whose every request is a step of its own, and which tells what nobody knows
gate                    how somebody is stopped between two steps
transaction, transactor the steps of a transaction, and threads that take them one by one
copier, copying         a real client that reads, processes and writes, as a process that is killed
watching                readers of what is committed, and who asks where that ends
transactions            the judge of what transactions did; pure
membership, member      the steps of a member of a group, and threads that take them one by one
members                 members that are real clients, as processes
groups                  the judge of what members of groups did; pure
*_faults, *_row         what is done to either, and how it is done to a cluster
rows, result            both rows, and their table of results
"""

ROWS = ("groups", "transactions")
