#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the hooks of PyTorch's allocator interface on Ashlar: graphs and their pools, uses on
other streams, emptying the cache, limits, and separate pools. A missing or wrong hook leads to
wrong numbers or leaked memory, which the checks detect.

  benchmarks/gpu/hooks.py process      with ashlar.torch.enable()
  benchmarks/gpu/hooks.py pool         with ashlar.torch.mem_pool()

Exit status: 0 passed, 1 failed. Needs PyTorch, a GPU and libashlar_torch.so
(ASHLAR_TORCH_LIBRARY)."""

import ctypes
import gc
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))

import ashlar.torch as ours  # noqa: E402: needs the change of sys.path above

MIB = 1 << 20
LONG = 200_000_000  # device cycles, about 0.1 s


def expect(what, holds):
    if not holds:
        sys.exit(f"hooks: {what}")


def is_all(tensor, value):
    return bool((tensor == value).all().item())


# --- with enable() --------------------------------------------------------------------------------


def graphs(torch):
    """Allocations between launches do not overwrite a graph's memory; a second graph can share the
    pool; afterwards all memory is released."""
    given = torch.zeros(4 * MIB, device="cuda")
    torch.cuda.empty_cache()
    before = ours.memory_reserved()
    graph, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        between = given * 2
        result = between + 1
        del between
    with torch.cuda.graph(second, pool=graph.pool()):
        after = (result * 10).clone()
    expect("the graph's pool has no reserved memory",
           ours.memory_reserved() >= before + 2 * given.nbytes)
    for value in range(1, 4):
        others = [torch.full((4 * MIB,), -1.0, device="cuda") for _ in range(4)]
        given.fill_(value)
        graph.replay()
        second.replay()
        expect("another allocation overwrote the graph's memory", is_all(result, 2 * value + 1))
        expect("the second graph has a wrong result", is_all(after, 10 * (2 * value + 1)))
        expect("a graph overwrote other allocations", all(is_all(each, -1.0) for each in others))
        del others
    del graph, second, result, after
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    # PyTorch keeps a few bytes for the random state of later graphs, so the reserved memory may be
    # slightly higher than before.
    expect("the memory of the graphs was not released",
           ours.memory_reserved() < before + given.nbytes)


def other_streams(torch):
    """Memory freed while another stream reads it is not reused before that stream finishes."""
    side = torch.cuda.Stream()
    kept = torch.full((8 * MIB,), 7.0, device="cuda")
    place = kept.data_ptr()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(LONG)
        copy = kept.clone()
        kept.record_stream(side)
    del kept
    early = torch.full((8 * MIB,), -1.0, device="cuda")
    expect("memory was reused while another stream read it",
           early.data_ptr() != place or side.query())
    torch.cuda.synchronize()
    expect("another stream read data of the next owner", is_all(copy, 7.0))


def memory_of_others(torch):
    """Ashlar neither changes nor frees memory that another library allocated."""
    driver = ctypes.CDLL("libcuda.so.1")
    address = ctypes.c_uint64()
    expect("the driver cannot allocate",
           driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4 * MIB)) == 0)

    class Foreign:
        __cuda_array_interface__ = {"shape": (MIB,), "typestr": "<f4", "version": 3,
                                    "data": (address.value, False)}

    seen = torch.as_tensor(Foreign(), device="cuda")
    seen.fill_(3.0)
    seen.record_stream(torch.cuda.Stream())
    expect("memory of another library was overwritten", is_all(seen, 3.0))
    del seen
    torch.cuda.synchronize()
    driver.cuMemFree_v2(address)


def limits(torch):
    """Limits the memory fraction and empties the cache."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(2 * 2**30 / total)
    try:
        torch.empty(3 * 2**30, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        pass
    else:
        sys.exit("hooks: more was given than the limit allows")
    torch.cuda.set_per_process_memory_fraction(1.0)
    some = torch.empty(3 * 2**30, dtype=torch.uint8, device="cuda")
    del some
    expect("freed memory was not cached", ours.memory_reserved() >= 3 * 2**30)
    torch.cuda.empty_cache()
    expect("the cache was not released", ours.memory_reserved() < 2**30)


def run_all(checks, torch):
    for check in checks:
        check(torch)
        print(f"hooks: {check.__name__}", flush=True)
    return len(checks)


def check_process(torch):
    ours.enable()
    return run_all((graphs, other_streams, memory_of_others, limits), torch)


# --- with mem_pool() ------------------------------------------------------------------------------


def segments(torch):
    """Segments come from Ashlar while the pool is used, and are released with the pool."""
    pool = ours.mem_pool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.full((16 * MIB,), 5.0, device="cuda")
    held = ours.memory_allocated()
    expect("the pool's segments do not come from Ashlar", held >= inside.nbytes)
    outside = torch.full((16 * MIB,), 6.0, device="cuda")
    expect("memory outside of the pool comes from Ashlar", ours.memory_allocated() == held)
    expect("wrong contents", is_all(inside, 5.0) and is_all(outside, 6.0))
    del inside, outside, pool
    gc.collect()
    torch.cuda.empty_cache()
    expect("the pool's segments were not released", ours.memory_allocated() == 0)


def graph_in_a_pool(torch):
    pool = ours.mem_pool()
    given = torch.zeros(4 * MIB, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool.id):
        result = given * 2 + 1
    expect("the graph's segments do not come from Ashlar", ours.memory_allocated() >= result.nbytes)
    for value in range(1, 4):
        given.fill_(value)
        graph.replay()
        expect("a graph in a pool has a wrong result", is_all(result, 2 * value + 1))
    torch.cuda.synchronize()
    del graph, result, pool
    gc.collect()
    torch.cuda.empty_cache()
    expect("the graph's segments were not released", ours.memory_allocated() == 0)


def check_pool(torch):
    return run_all((segments, graph_in_a_pool), torch)


WAYS = {"process": check_process, "pool": check_pool}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in WAYS:
        sys.exit(f"hooks: expected one of {', '.join(WAYS)}")
    import torch
    print(json.dumps({"checks": WAYS[sys.argv[1]](torch)}))


if __name__ == "__main__":
    main()
