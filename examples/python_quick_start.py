# SPDX-License-Identifier: Apache-2.0
"""A quick start for Python: allocate, inspect, analyse. Needs no GPU; with one, use "cuda:0"."""

import numpy

import ashlar

allocator = ashlar.Allocator("sim:0")  # or ("cuda:0", "engine:paged,policy:lean")
allocator.start_history()

# Maps device memory as a numpy array within the with statement; only on the simulated device.
with allocator.allocate(24) as buffer:
    with buffer.host_view("float32", (2, 3)) as view:
        view.numpy()[:] = [[1, 2, 3], [4, 5, 6]]
    assert numpy.frombuffer(buffer.read(), "float32").sum() == 21


def make_weights():
    return allocator.allocate("3MiB")


def make_batch():
    return allocator.allocate("1MiB")


weights = make_weights()
for _ in range(10):
    batch = make_batch()
    batch.free()

# The same analysis as the command line tool, as dicts and lists.
peaks = allocator.recording().peaks()
for entry in peaks["stacks"]:
    frame = entry["stack"][0]
    print(f"{entry['bytes']:>10,} B  {frame['name']}, line {frame['line']}")

try:
    allocator.memory_fraction = 0.001
    allocator.allocate("1GiB")
except ashlar.OutOfMemoryError as failure:
    print(f"out of memory: {failure.kind}")

requested = peaks["peak_requested_bytes"] / (1 << 20)
print(f"ok: {requested:.2f} MiB requested at the peak, {len(peaks['stacks'])} stacks")
