#!/bin/sh
# Recreate one broker after the other, with the image and the settings that they have by now. Each is stopped by SIGTERM,
# which moves its leaders first, and the next one is not touched before all replicas are in sync again.
#
#   deploy/rolling.sh                      brokers 1 to 3
#   deploy/rolling.sh broker-4 broker-5    these
#
# COMPOSE may be set to what is called instead of `docker compose`, with its options. Otherwise it is called in this
# folder and without the name of a file, so that a docker-compose.override.yml counts, too.
set -eu
[ $# -gt 0 ] || set -- broker-1 broker-2 broker-3
[ -n "${COMPOSE:-}" ] || cd "$(dirname "$0")"
compose=${COMPOSE:-docker compose}

in_sync() {
    for each in $($compose ps --services --status running | grep '^broker-'); do
        $compose exec -T "$each" python /usr/local/lib/minikafka/in_sync.py > /dev/null || return 1
    done
}

wait_in_sync() {
    waited=0
    until in_sync; do
        sleep 1
        waited=$((waited + 1))
        [ $((waited % 30)) -ne 0 ] || echo "replicas are not in sync for $waited s; see KafkaUnderReplicated in README.md" >&2
    done
}

for broker; do
    wait_in_sync
    echo "$broker"
    $compose up --detach --wait --no-deps --force-recreate "$broker"
done
wait_in_sync
echo "all replicas are in sync"
