"""Play the recorded cases against a cluster that runs: `python -m tests.compat.replay CLUSTER_JSON`."""

import argparse
import asyncio
import time
from pathlib import Path

from tests.compat.replay.cluster import Cluster
from tests.compat.replay.needs import UNSAYABLE
from tests.compat.replay.player import Player
from tests.compat.replay.playing import play_all
from tests.compat.replay.recording import all_cases


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.replay")
    parser.add_argument("cluster", type=Path, help="the cluster.json of a running cluster")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--replicas", type=int, default=3, help="how many replicas a partition may have")
    parser.add_argument("--slow", action="store_true", help="show what took long and what was asked again")
    args = parser.parse_args()
    cases = [case for case in all_cases() if args.only in case.name and case.name not in UNSAYABLE]
    began = time.monotonic()
    outcomes = asyncio.run(play_all(cases, Cluster.read(args.cluster, args.replicas), Player))
    for name, outcome in sorted(outcomes.items()):
        if args.slow and (outcome.seconds > 5 or outcome.retries):
            print(f"{outcome.seconds:5.1f} s  {name}  {outcome.retries}")
        if outcome.trouble:
            print(f"--- {name}\n{outcome.trouble}")
    failed = sum(bool(outcome.trouble) for outcome in outcomes.values())
    print(f"{len(outcomes)} cases, {failed} differ, {time.monotonic() - began:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
