"""Whether all replicas of what the broker of this container leads are in sync, for scripts: 0 if they are, else 1."""

import os
import sys
from urllib.request import urlopen

_UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions "


def main() -> int:
    port = os.environ.get("KAFKA_MINIKAFKA_HTTP_PORT", "9404")
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    count = sum(float(line.removeprefix(_UNDER_REPLICATED)) for line in lines if line.startswith(_UNDER_REPLICATED))
    print(f"{count:.0f} under-replicated partitions")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
