"""Asks a live cluster what a real Kafka was asked, and compares the answers.

    recording   the cases: steps, and which of them happened in another order than they are listed
    needs       which cases a cluster cannot be asked yet, and why
    cluster     where the brokers are; who leads, coordinates, controls
    client      connections, frames out and frames in
    batches     record batches from their description, with the defects it names, and back
    requests    recorded bodies into messages          answers    messages into the recorded notation
    compare     recorded against seen: placeholders, lists in any order
    givens      what a case finds set up               player     plays one case
    playing     plays many at a time

`python -m tests.compat.replay CLUSTER_JSON` plays all of them against a cluster that runs.
"""
