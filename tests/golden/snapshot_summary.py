#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints counts and sums of a snapshot as Python's pickle module reads it, for comparison in the
golden tests. With two files, prints whether Python finds them equal instead.
Use it only on files from this repository: unpickling executes code from the file."""

import lzma
import pickle
import sys


def load(path):
    with (lzma.open if path.endswith(".xz") else open)(path, "rb") as file:
        return pickle.load(file)


if len(sys.argv) == 3:
    print("equal" if load(sys.argv[1]) == load(sys.argv[2]) else "different")
    sys.exit()

snapshot = load(sys.argv[1])
segments = snapshot["segments"]
blocks = [block for segment in segments for block in segment["blocks"]]
entries = [entry for trace in snapshot["device_traces"] for entry in trace]
print(
    len(segments), sum(segment["total_size"] for segment in segments),
    len(blocks), sum(block["requested_size"] for block in blocks),
    len(entries), sum(entry["size"] for entry in entries),
    sum(entry.get("addr", 0) for entry in entries) % 2**64,
    sum(entry["time_us"] for entry in entries) % 2**64,
    sum(len(entry.get("frames", [])) for entry in entries),
    len(snapshot["external_annotations"]))
