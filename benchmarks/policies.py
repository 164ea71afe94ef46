#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the paged engine reserves, and what its driver calls would cost: each recorded run replayed
under each policy, on the simulated device with the costs of an H200.

  benchmarks/policies.py FILE...    snapshots of recorded runs, such as gpt2_varlen.1.pickle.xz
  --policy NAME                     one policy; default: fast, balanced and lean
  --cli PATH                        the tool; default: build/release/bin/ashlar

Exit: 0 done, 1 a replay failed. Needs Python 3.11."""

import argparse
import json
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def replay(cli, file, policy):
    """Peak reserved by peak requested, and the share of the run that driver calls take."""
    command = [cli, "replay", file, "--engine", "paged", "--conf", f"policy:{policy}", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"policies: failed: {' '.join(command)}\n{done.stderr}")
    answer = json.loads(done.stdout)
    return (answer["peak_reserved_bytes"] / answer["peak_requested_bytes"],
            answer["driver"]["share_of_run"])


def mean(values):
    """The geometric one."""
    return math.exp(sum(math.log(value) for value in values) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--policy", action="append", choices=["fast", "balanced", "lean"])
    parser.add_argument("--cli", default=str(ROOT / "build" / "release" / "bin" / "ashlar"))
    asked = parser.parse_args()
    print(f"{'':10}{'':24}{'reserved':>10}{'driver':>10}")
    for policy in asked.policy or ["fast", "balanced", "lean"]:
        rows = [(file, *replay(asked.cli, file, policy)) for file in asked.files]
        ratios = [ratio for _, ratio, _ in rows]
        shares = [share for _, _, share in rows]
        rows.append(("geometric mean", mean(ratios), mean(shares)))
        rows.append(("worst", max(ratios), max(shares)))
        for name, ratio, share in rows:
            print(f"{policy:10}{pathlib.Path(name).name[:23]:24}{ratio:10.4f}{100 * share:8.2f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
