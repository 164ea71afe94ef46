# SPDX-License-Identifier: Apache-2.0
"""Ashlar as CuPy's allocator: `cupy.cuda.set_allocator(ashlar_cupy_allocator)`."""

from typing import Any

import cupy

from ashlar.allocators import allocator


def ashlar_cupy_allocator(nbytes: int) -> Any:
    """Allocates memory of the current device, ordered after the work in the current stream.
    Returns a cupy.cuda.MemoryPointer, which frees the memory in that stream."""
    device = cupy.cuda.runtime.getDevice()
    if nbytes == 0:
        memory = cupy.cuda.UnownedMemory(0, 0, None, device)
        return cupy.cuda.MemoryPointer(memory, 0)
    backend = "hip" if cupy.cuda.runtime.is_hip else "cuda"
    stream = cupy.cuda.get_current_stream()
    buffer = allocator(device, backend).allocate(nbytes, stream.ptr)
    memory = cupy.cuda.UnownedMemory(buffer.address, nbytes, buffer, device)
    return cupy.cuda.MemoryPointer(memory, 0)
