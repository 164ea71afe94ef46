#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates a synthetic recording of any length as a pickle, to measure the tools on files larger
than real ones.

  benchmarks/generate_trace.py OUT.pickle [--entries 10000000] [--seed 1]

The trace has the shape of a training loop: permanent weights, activations that grow and shrink
within a step, and short-lived small blocks; every free is requested and completed; 200 stacks; one
segment per GiB. The file is streamed, so memory use is constant. Needs Python 3.11."""

import argparse
import random
import struct
import sys

STACKS = 200
STEP = 6000  # approximate number of entries in a step
SEGMENT = 1 << 30


class Writer:
    """Writes opcodes of pickle protocol 2 directly, without building millions of dicts."""

    def __init__(self, file):
        self.file = file
        self.memo = {}

    def raw(self, data):
        self.file.write(data)

    def text(self, text):
        """Writes a string once; later uses refer to the memo."""
        if text in self.memo:
            return self.raw(b"j" + struct.pack("<I", self.memo[text]))
        data = text.encode()
        self.memo[text] = len(self.memo)
        self.raw(b"X" + struct.pack("<I", len(data)) + data + b"r" +
                 struct.pack("<I", self.memo[text]))

    def number(self, number):
        size = (number.bit_length() + 8) // 8
        self.raw(b"\x8a" + bytes([size]) + number.to_bytes(size, "little", signed=True))

    def stacks(self):
        """Writes each stack, a list of frames, into the memo."""
        for stack in range(STACKS):
            self.raw(b"](")
            for depth in range(8):
                self.raw(b"}(")
                self.text("name"), self.text(f"layer_{stack % 50}_{depth}")
                self.text("filename"), self.text(f"/srv/model/part_{stack % 7}.py")
                self.text("line"), self.number(10 * stack + depth)
                self.raw(b"u")
            self.memo[stack] = len(self.memo)
            self.raw(b"e" + b"r" + struct.pack("<I", self.memo[stack]) + b"0")

    def entry(self, action, address, size, time, stack):
        self.raw(b"}(")
        for key, value in (("addr", address), ("size", size), ("stream", 0), ("time_us", time)):
            self.text(key)
            self.number(value)
        self.text("action"), self.text(action)
        self.text("frames")
        self.raw(b"j" + struct.pack("<I", self.memo[stack]) + b"u")


def operations(count, seed):
    """Yields (action, address, bytes, stack)."""
    rng = random.Random(seed)
    base = 0x7F0000000000
    free = {}  # freed addresses by size
    top = base
    segments_end = base
    live = []
    made = 0

    def allocate(size, stack):
        nonlocal top, segments_end
        room = -(-size // 512) * 512
        if free.get(room):
            return [("alloc", free[room].pop(), size, stack)]
        entries = []
        while top + room > segments_end:
            entries.append(("segment_alloc", segments_end, SEGMENT, stack))
            segments_end += SEGMENT
        address = top
        top += room
        return entries + [("alloc", address, size, stack)]

    def free_block(address, size, stack):
        free.setdefault(-(-size // 512) * 512, []).append(address)
        return [("free_requested", address, size, stack), ("free_completed", address, size, stack)]

    weights = [1 << rng.randrange(12, 25) for _ in range(2000)]
    for size in weights:
        yield from allocate(size, rng.randrange(STACKS))
        made += 1
    sizes = [rng.randrange(1, 1 << rng.randrange(10, 26)) for _ in range(300)]
    while made < count:
        for _ in range(STEP // 4):
            kind = rng.random()
            size, stack = rng.choice(sizes), rng.randrange(STACKS)
            entries = allocate(size, stack)
            address = entries[-1][1]
            if kind < 0.5:
                entries += free_block(address, size, stack)
            else:
                live.append((address, size, stack))
            made += len(entries)
            yield from entries
        while live:
            entries = free_block(*live.pop())
            made += len(entries)
            yield from entries


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("output")
    parser.add_argument("--entries", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with open(args.output, "wb") as file:
        out = Writer(file)
        out.raw(b"\x80\x02")
        out.stacks()
        out.raw(b"}(")
        out.text("segments"), out.raw(b"]")
        out.text("device_traces"), out.raw(b"](](")
        for index, (action, address, size, stack) in enumerate(operations(args.entries, args.seed)):
            if index == args.entries:
                break
            out.entry(action, address, size, 1_700_000_000_000_000 + 3 * index, stack)
        out.raw(b"eeu.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
