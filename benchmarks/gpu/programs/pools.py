# SPDX-License-Identifier: Apache-2.0
"""Programs with memory pools, pauses, trims, and options of the history."""

import contextlib
import os
import subprocess

MIB = 1 << 20


def _numbers(tensor):
    return [float(value) for value in tensor.detach().flatten()[:8].float().cpu()]


def sleep(torch):
    """Memory with a tag is returned to the device and restored. Natively, nothing is paused."""
    is_ashlar = os.environ["PROGRAM_WAY"] == "ashlar"
    if is_ashlar:
        import ashlar.torch
    with ashlar.torch.use_tag("weights") if is_ashlar else contextlib.nullcontext():
        model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(8))).cuda()
    x = torch.linspace(-1, 1, 2048, device="cuda")
    before = _numbers(model(x))
    reserved = torch.cuda.memory_reserved()
    if is_ashlar:
        ashlar.torch.pause("weights", backup="host")
    has_shrunk = not is_ashlar or reserved - torch.cuda.memory_reserved() >= 8 * 2048 * 2048 * 4
    other = float(torch.full((32 * MIB,), 2.0, device="cuda").sum())
    if is_ashlar:
        ashlar.torch.resume("weights")
    return {"before": before, "after": _numbers(model(x)), "other": other,
            "has_shrunk": has_shrunk}


def trim_cache(torch):
    """Releases part of the cache or, natively, all of it."""
    large = torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
    kept = torch.ones(MIB, device="cuda")
    del large
    if os.environ["PROGRAM_WAY"] == "ashlar":
        import ashlar.torch
        ashlar.torch.trim_to(64 * MIB, wait=True)
    else:
        torch.cuda.empty_cache()
    return {"is_small": torch.cuda.memory_reserved() <= 64 * MIB, "kept": float(kept.sum())}


def history_options(torch):
    """Skipped actions, metadata, compile contexts and the stack of one address, where this PyTorch
    has them."""
    memory = torch.cuda.memory
    if not hasattr(memory, "_set_memory_metadata"):
        return {"_missing": True}
    memory._record_memory_history(max_entries=1000, skip_actions=["free_requested"],
                                  clear_history=True)
    memory._set_memory_metadata("batch 3")
    kept = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    text = memory._get_memory_metadata()
    memory._set_memory_metadata("")
    entries = [entry for entry in memory._snapshot()["device_traces"][0]
               if not entry["action"].startswith(("segment", "snapshot"))]
    frames = []
    if hasattr(memory, "_allocation_traceback"):
        frames = memory._allocation_traceback(kept.data_ptr()) or []
    memory._record_memory_history(enabled=None)
    return {"actions": [entry["action"] for entry in entries], "text": text,
            "metadata": [entry["user_metadata"] for entry in entries],
            "contexts": [entry["compile_context"] for entry in entries],
            "has_frame": any(frame["name"] == "history_options" for frame in frames)}


def memory_pool(torch):
    """A user's pool, its snapshot and its use count."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.full((4 * MIB,), 1.0, device="cuda")
        count = pool.use_count()
    outside = torch.full((4 * MIB,), 2.0, device="cuda")
    segments = pool.snapshot()
    addresses = [segment["address"] for segment in segments]
    sizes = [segment["total_size"] for segment in segments]

    def contains(tensor):
        return any(start <= tensor.data_ptr() < start + size
                   for start, size in zip(addresses, sizes))

    result = {"inside": contains(inside), "outside": contains(outside), "count": count,
              "after": pool.use_count(), "sum": float(inside.sum() + outside.sum())}
    del inside, pool
    torch.cuda.empty_cache()
    return result


def custom_pool_allocator(torch):
    """A pool whose segments come from a user's allocator in a shared object."""
    source = """
#include <cuda_runtime_api.h>
#include <stddef.h>
static int count;
void* my_alloc(size_t bytes, int device, cudaStream_t stream) {
  void* memory = 0;
  cudaMalloc(&memory, bytes);
  ++count;
  return memory;
}
void my_free(void* memory, size_t bytes, int device, cudaStream_t stream) { cudaFree(memory); }
int my_count(void) { return count; }
"""
    with open("source.c", "w", encoding="utf-8") as file:
        file.write(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "source.so", "source.c",
                    "-I/usr/local/cuda/include"], check=True)
    import ctypes
    path = os.path.abspath("source.so")
    pluggable = torch.cuda.memory.CUDAPluggableAllocator(path, "my_alloc", "my_free")
    pool = torch.cuda.MemPool(pluggable.allocator())
    with torch.cuda.use_mem_pool(pool):
        tensor = torch.full((4 * MIB,), 3.0, device="cuda")
    result = {"sum": float(tensor.sum()), "calls": ctypes.CDLL(path).my_count() > 0}
    del tensor
    return result
