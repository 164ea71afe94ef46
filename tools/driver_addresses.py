#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the model of the CUDA driver's address assignment on a real GPU.

  tools/driver_addresses.py [--operations 5000] [--seed 1] [--device 0]

Allocates and frees at random through the CUDA driver, predicts every address, and compares. The
model is that of src/device/sim/driver_addresses.h;
docs/internals/experiments/driver_addresses.md has the measurements. The first allocations fill
the holes that the context has left; after that, every address must match. New chunks also depend
on host mappings, so gaps are read from /proc/self/maps.

Exit status: 0 all addresses matched, 1 an address differs or there is no GPU. Needs a driver,
but no toolkit."""

import argparse
import ctypes
import random
import sys

MIB = 1 << 20
CHUNK = 32 * MIB
GRANULE = 2 * MIB


class Driver:
    def __init__(self, device):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code != 0:
            sys.exit(f"{name} failed with code {code}; a driver and a free card are needed")

    def allocate(self, size):
        at = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
        return at.value

    def free(self, at):
        self.call("cuMemFree_v2", ctypes.c_uint64(at))


def gaps():
    """Returns the ranges without mappings, highest first. Mappings never use the range below the
    stack, so it is left out."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        below_stack = maps.read().partition("[stack]")[0].splitlines()[:-1]
    ranges = [tuple(int(end, 16) for end in line.split()[0].split("-")) for line in below_stack]
    between = [(end, begin) for (_, end), (begin, _) in zip(ranges, ranges[1:])]
    return [(begin, end) for begin, end in between if begin < end][::-1]


class Chunk:
    def __init__(self, begin, size):
        self.begin, self.end = begin, begin + size
        self.allocated = {}

    def best_hole(self, size):
        holes, begin = [], self.begin
        for at in [*sorted(self.allocated), self.end]:
            if at - begin >= size:
                holes.append((at - begin, begin))
            begin = at + self.allocated.get(at, 0)
        return min(holes)[1] if holes else None


class PlacementRule:
    def __init__(self):
        self.chunks = []  # in the order of creation

    def allocate(self, size):
        for chunk in reversed(self.chunks):
            at = chunk.best_hole(size)
            if at is not None:
                chunk.allocated[at] = size
                return at
        chunk_size = -(-size // CHUNK) * CHUNK
        for begin, end in gaps():
            if end - begin >= chunk_size + CHUNK:
                at = (end - chunk_size) // CHUNK * CHUNK
                self.chunks.append(Chunk(at, chunk_size))
                self.chunks[-1].allocated[at] = size
                return at
        return None

    def free(self, at):
        for chunk in self.chunks:
            if at in chunk.allocated:
                del chunk.allocated[at]
                if not chunk.allocated:
                    self.chunks.remove(chunk)
                return


def fill_old_holes(driver, rule):
    """Allocates until the driver creates a chunk, which it does only when no hole is left. From
    then on, the rule knows all chunks with holes."""
    while True:
        before = gaps()
        at = driver.allocate(GRANULE)
        if any(begin <= at < end for begin, end in before):
            rule.chunks.append(Chunk(at, CHUNK))
            rule.chunks[-1].allocated[at] = GRANULE
            return


def draw_size(chance):
    kind = chance.random()
    if kind < 0.3:
        return GRANULE
    if kind < 0.6:
        return 20 * MIB
    if kind < 0.97:
        return GRANULE * chance.randint(1, 300)
    return GRANULE * chance.randint(512, 1200)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operations", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    driver, rule = Driver(options.device), PlacementRule()
    fill_old_holes(driver, rule)
    live, allocated, wrong, most = [], 0, 0, 60
    for operation in range(options.operations):
        if operation % 150 == 0:
            most = chance.choice([5, 20, 60, 100])
        if live and chance.random() < (0.7 if len(live) > most else 0.3):
            at = live.pop(chance.randrange(len(live)))
            driver.free(at)
            rule.free(at)
            continue
        size = draw_size(chance)
        expected = rule.allocate(size)
        at = driver.allocate(size)
        live.append(at)
        allocated += 1
        if at != expected:
            wrong += 1
            print(f"operation {operation}: {size // MIB} MiB at {at:#x}, predicted {expected:#x}")
            break
    print(f"seed {options.seed}: {allocated} allocations, {wrong} not as predicted")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
