"""The table of all that this broker serves: the rows of the handlers, and ApiVersions, which tells of them."""

from __future__ import annotations

from minikafka.broker.context import Context
from minikafka.broker.controller.task import ControllerTask
from minikafka.broker.coordinators.groups.coordinator import GroupCoordinator
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
)
from minikafka.broker.handlers import (
    controller as controller_requests,
)
from minikafka.broker.network.dispatch import Route


def all_routes(context: Context, controller: ControllerTask, coordinator: GroupCoordinator) -> list[Route]:
    """Every row once; each key is served by one handler."""
    data = (control, fetch, list_offsets, metadata, produce, producers, records)
    admin = (acls, cluster, configs, features, find_coordinator, log_dirs, quotas, sasl, scram, tokens)
    rows = [row for family in (*data, *admin) for row in family.routes(context)]
    for family in (controller_requests, replicas, topics):
        rows += family.routes(context, controller)
    rows += groups.routes(coordinator) + group_admin.routes(coordinator) + offsets.routes(context, coordinator)
    table = {row.api.key: row for row in rows}
    assert len(table) == len(rows), "an API is served twice"
    own = api_versions.route(table)
    table[own.api.key] = own
    return list(table.values())
