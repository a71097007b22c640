"""The table of all that this broker serves: the rows of the handlers, and ApiVersions, which tells of them."""

from __future__ import annotations

from minikafka.broker.context import Context
from minikafka.broker.controller.task import ControllerTask
from minikafka.broker.coordinators.all import Coordinators
from minikafka.broker.handlers import (
    acls,
    api_versions,
    cluster,
    configs,
    control,
    features,
    fetch,
    find_coordinator,
    group_admin,
    groups,
    list_offsets,
    log_dirs,
    metadata,
    offsets,
    produce,
    producers,
    quotas,
    records,
    replicas,
    sasl,
    scram,
    tokens,
    topics,
    transaction_admin,
    transactions,
    txn_offsets,
)
from minikafka.broker.handlers import (
    controller as controller_requests,
)
from minikafka.broker.network.dispatch import Route


def all_routes(context: Context, controller: ControllerTask, coordinators: Coordinators) -> list[Route]:
    """Every row once; each key is served by one handler."""
    data = (control, fetch, list_offsets, metadata, records)
    admin = (acls, cluster, configs, features, find_coordinator, log_dirs, quotas, sasl, scram, tokens)
    rows = [row for family in (*data, *admin) for row in family.routes(context)]
    for family in (controller_requests, replicas, topics):
        rows += family.routes(context, controller)
    of_groups, of_transactions = coordinators.groups, coordinators.transactions
    rows += groups.routes(of_groups) + group_admin.routes(of_groups)
    rows += offsets.routes(context, of_groups, coordinators.confirmer) + txn_offsets.routes(context, of_groups)
    rows += produce.routes(context, coordinators.verifier) + producers.routes(context, of_transactions)
    rows += transactions.routes(
        *(context, of_transactions, of_groups, coordinators.writer, coordinators.late_markers, coordinators.confirmer)
    )
    rows += transaction_admin.routes(context.steady_clock, of_transactions)
    table = {row.api.key: row for row in rows}
    assert len(table) == len(rows), "an API is served twice"
    own = api_versions.route(table, context.metadata)
    table[own.api.key] = own
    return list(table.values())
