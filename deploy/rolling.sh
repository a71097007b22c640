#!/bin/sh
# Recreate one broker after the other, with the image and the settings that they have by now. Each is stopped by SIGTERM,
# which moves its leaders first, and the next one is not touched before all replicas are in sync again.
#
#   deploy/rolling.sh                      brokers 1 to 3
#   deploy/rolling.sh broker-4 broker-5    these
#
# COMPOSE may be set to what is called instead of `docker compose`, with its options.
set -eu
[ $# -gt 0 ] || set -- broker-1 broker-2 broker-3
compose=${COMPOSE:-docker compose -f "$(dirname "$0")/docker-compose.yml"}

in_sync() {
    for each in $($compose ps --services --status running | grep '^broker-'); do
        $compose exec -T "$each" python /usr/local/lib/minikafka/in_sync.py > /dev/null || return 1
    done
}

for broker; do
    until in_sync; do sleep 1; done
    echo "$broker"
    $compose up --detach --wait --no-deps --force-recreate "$broker"
done
until in_sync; do sleep 1; done
echo "all replicas are in sync"
