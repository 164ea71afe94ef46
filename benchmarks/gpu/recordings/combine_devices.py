#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Combines recordings of one device into a recording of several devices.

    combine_devices.py OUT IN...

Device N of OUT is device 0 of the Nth file. Several devices are simulated in this way: the
recordings were made one after the other on one GPU, so their times do not overlap as those of a
parallel program would. The settings are those of the first file. All files are snapshots as written
by PyTorch, compressed with xz.

The recording of three devices in tests/golden/recordings was made with

    combine_devices.py three_devices.pickle.xz transformer.pickle.xz out_of_memory.pickle.xz \\
        state_only.pickle.xz
"""
import lzma
import pickle
import sys
from pathlib import Path


def main():
    out, *names = (Path(argument) for argument in sys.argv[1:])
    snapshots = [pickle.loads(lzma.decompress(name.read_bytes())) for name in names]
    combined = dict(snapshots[0])
    combined["segments"], combined["device_traces"] = [], []
    combined["external_annotations"] = []
    for device, snapshot in enumerate(snapshots):
        for segment in snapshot["segments"]:
            combined["segments"].append({**segment, "device": device})
        traces = snapshot["device_traces"]
        combined["device_traces"].append(traces[0] if traces else [])
        for annotation in snapshot.get("external_annotations") or []:
            combined["external_annotations"].append({**annotation, "device": device})
    with lzma.open(out, "wb", preset=9) as file:
        pickle.dump(combined, file)


if __name__ == "__main__":
    main()
