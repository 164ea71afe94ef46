#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/traces/leaky.pickle.xz: a synthetic training loop that leaks a little in
every step, as a PyTorch snapshot.

  tests/golden/make_leaky.py"""

import lzma
import pathlib
import pickle

MIB = 1 << 20
STEPS = 120
OUTPUT = pathlib.Path(__file__).parent / "traces" / "leaky.pickle.xz"


def frame(name, filename, line):
    return {"name": name, "filename": filename, "line": line}


PACKAGES = "/opt/venv/lib/python3.12/site-packages"
TRAIN = frame("train", "/srv/jobs/llm/train.py", 88)
MAIN = frame("<module>", "/srv/jobs/llm/train.py", 120)
LINEAR = frame("forward", f"{PACKAGES}/torch/nn/modules/linear.py", 134)
WEIGHTS = [frame("__init__", f"{PACKAGES}/torch/nn/modules/linear.py", 106), TRAIN, MAIN]
ACTIVATIONS = [LINEAR, frame("forward", "/srv/jobs/llm/model.py", 41), TRAIN, MAIN]
LOSSES = [frame("append_loss", "/srv/jobs/llm/metrics.py", 17), TRAIN, MAIN]


class Trace:
    def __init__(self):
        self.entries = []
        self.time_us = 1_700_000_000_000_000

    def add(self, action, address, size, frames):
        self.time_us += 1000
        self.entries.append({"action": action, "addr": address, "size": size, "stream": 0,
                             "time_us": self.time_us, "frames": frames})


def segment(address, total, blocks):
    active = sum(size for size, _ in blocks)
    placed = []
    for size, frames in blocks:
        placed.append({"address": address + sum(block["size"] for block in placed), "size": size,
                       "requested_size": size, "state": "active_allocated", "frames": frames})
    if total > active:
        placed.append({"address": address + active, "size": total - active, "requested_size": 0,
                       "state": "inactive", "frames": []})
    return {"device": 0, "address": address, "total_size": total, "allocated_size": active,
            "active_size": active, "requested_size": active, "stream": 0,
            "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
            "frames": [], "blocks": placed}


def main():
    weights, activations, losses = 1 << 40, 2 << 40, 3 << 40
    trace = Trace()
    for address, size, frames in ((weights, 400 * MIB, WEIGHTS),
                                  (activations, 300 * MIB, ACTIVATIONS),
                                  (losses, 2 * STEPS * MIB, LOSSES)):
        trace.add("segment_alloc", address, size, frames)
    trace.add("alloc", weights, 400 * MIB, WEIGHTS)
    for step in range(STEPS):
        size = (150 + 10 * (step % 7)) * MIB
        trace.add("alloc", activations, size, ACTIVATIONS)
        trace.add("alloc", losses + 2 * step * MIB, 2 * MIB, LOSSES)
        trace.add("free_requested", activations, size, ACTIVATIONS)
        trace.add("free_completed", activations, size, ACTIVATIONS)
    segments = [segment(weights, 400 * MIB, [(400 * MIB, WEIGHTS)]),
                segment(activations, 300 * MIB, []),
                segment(losses, 2 * STEPS * MIB, [(2 * MIB, LOSSES)] * STEPS)]
    snapshot = {"segments": segments, "device_traces": [trace.entries],
                "allocator_settings": {}, "external_annotations": []}
    OUTPUT.write_bytes(lzma.compress(pickle.dumps(snapshot, protocol=4)))


if __name__ == "__main__":
    main()
