"""The commands that talk to a cluster: `topic`, `produce`, `consume`, `group`, `config`, `reassign`, `bench`, `doctor`.

One module a command. `running` has what all of them share: where the cluster is, how a command runs and how it ends;
`output` tables, JSON and progress; `parsing` times, sizes and settings as people write them; `completion` names for the
shell. They are built on the client as its users have it, and know nothing of brokers.
"""
