#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how much memory the paged engine reserves, and its driver time: replays recordings under
each policy on the simulated device, with the driver costs of an H200.

  benchmarks/policies.py FILE...    recordings, such as gpt2_varlen.1.pickle.xz
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
    """Returns (peak reserved / peak requested, driver time / duration of the run)."""
    command = [cli, "replay", file, "--engine", "paged", "--conf", f"policy:{policy}", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"policies: failed: {' '.join(command)}\n{done.stderr}")
    result = json.loads(done.stdout)
    return (result["peak_reserved_bytes"] / result["peak_requested_bytes"],
            result["driver"]["share_of_run"])


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--policy", action="append", choices=["fast", "balanced", "lean"])
    parser.add_argument("--cli", default=str(ROOT / "build" / "release" / "bin" / "ashlar"))
    arguments = parser.parse_args()
    print(f"{'':10}{'':24}{'reserved':>10}{'driver':>10}")
    for policy in arguments.policy or ["fast", "balanced", "lean"]:
        rows = [(file, *replay(arguments.cli, file, policy)) for file in arguments.files]
        ratios = [ratio for _, ratio, _ in rows]
        shares = [share for _, _, share in rows]
        rows.append(("geometric mean", geometric_mean(ratios), geometric_mean(shares)))
        rows.append(("worst", max(ratios), max(shares)))
        for name, ratio, share in rows:
            print(f"{policy:10}{pathlib.Path(name).name[:23]:24}{ratio:10.4f}{100 * share:8.2f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
