#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of torch.empty and the release of its memory, with PyTorch's allocator and with
ashlar.torch.enable().

  empty_cost.py                       five alternating rounds; prints medians as JSON
  empty_cost.py --way native|ashlar   one round

Figures are nanoseconds per pair of calls, the fastest of seven repetitions in each round. Needs
PyTorch, a GPU and libashlar_torch.so (ASHLAR_TORCH_LIBRARY)."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WAYS = ("native", "ashlar")
SIZES = {"512 B": 512, "1 MiB": 1 << 20, "20 MiB": 20 << 20}
PAIRS = 100_000
ROUNDS = 5


def measure(way):
    if way == "ashlar":
        sys.path.insert(0, str(ROOT / "python"))
        import ashlar.torch
        ashlar.torch.enable(native=True)
    import torch
    device = torch.device("cuda")
    figures = {}
    for name, size in SIZES.items():
        empty = torch.empty
        best = float("inf")
        for _ in range(7):
            begin = time.perf_counter_ns()
            for _ in range(PAIRS):
                empty(size, dtype=torch.uint8, device=device)
            best = min(best, time.perf_counter_ns() - begin)
        figures[name] = best / PAIRS
    kept = [torch.empty(1 + i * 997, dtype=torch.uint8, device=device) for i in range(2000)]
    best = float("inf")
    for _ in range(7):
        begin = time.perf_counter_ns()
        for i in range(0, 2000, 2):
            kept[i] = None
        for i in range(0, 2000, 2):
            kept[i] = empty(1 + i * 997, dtype=torch.uint8, device=device)
        best = min(best, time.perf_counter_ns() - begin)
    figures["mixed"] = best / 1000
    return figures


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--way", choices=WAYS)
    args = parser.parse_args(arguments)
    if args.way:
        print(json.dumps(measure(args.way)))
        return 0
    rounds = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way in WAYS:
            done = subprocess.run([sys.executable, __file__, "--way", way], capture_output=True,
                                  text=True, check=False)
            if done.returncode != 0:
                print(done.stderr[-2000:])
                return 1
            rounds[way].append(json.loads(done.stdout.strip().splitlines()[-1]))
    medians = {way: {name: round(statistics.median(each[name] for each in rounds[way]), 1)
                     for name in rounds[way][0]} for way in WAYS}
    print(json.dumps(medians))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
