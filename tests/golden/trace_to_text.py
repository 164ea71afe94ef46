#!/usr/bin/env python3
"""Prints the allocator trace of a bundled PyTorch snapshot as one act per line:
action address bytes stream. For the golden tests, on files that come with the repository only:
unpickling executes what the file says."""

import lzma
import pickle
import sys

with lzma.open(sys.argv[1]) as file:
    snapshot = pickle.load(file)
for entry in snapshot["device_traces"][0]:
    address = entry.get("addr", entry.get("device_free", 0))
    print(entry["action"], address, entry["size"], entry["stream"])
