"""Stands in for a broker: as much of one as `minikafka up` sees.

Run with its properties file. `num.partitions` says what becomes of it: 1 it serves, 2 it fails for a reason, 3 it dies,
4 it does not come up and does not stop. The id of the broker that this is for is `broker.rack`, or all.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

from minikafka.broker.config.properties import read_properties
from minikafka.broker.lifeline import Lifeline


def stop(*_: object) -> None:
    print("stopped")
    sys.exit(0)


def main() -> None:
    settings = {each.key: each.value for each in read_properties(sys.argv[1])}
    lifeline = Lifeline.of_environment(os.environ)
    assert lifeline is not None
    number = settings["broker.id"]
    fate = settings.get("num.partitions", "1") if settings.get("broker.rack", number) == number else "1"
    print("starting", *sorted(name for name in os.environ if name.startswith("KAFKA_")), flush=True)
    if fate in ("2", "3") and "broker.rack" in settings:
        # Not before the other one can be stopped.
        while not Path(settings["log.dirs"]).with_name("broker-1").exists():
            select.select([], [], [], 0.01)
    if fate == "2":
        lifeline.tell(failed="there is no such thing", code=2)
        sys.exit(2)
    if fate == "3":
        print("about to die", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if fate == "4" else stop)
    Path(settings["log.dirs"]).mkdir(parents=True, exist_ok=True)
    if fate != "4":
        lifeline.tell(ready=True)
    # Until the other end is gone.
    lifeline._sock.recv(1)
    Path(settings["log.dirs"], "left-alone").touch()


if __name__ == "__main__":
    main()
