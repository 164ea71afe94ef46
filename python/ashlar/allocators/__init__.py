# SPDX-License-Identifier: Apache-2.0
"""Ashlar as the allocator of CuPy, Numba and PyTorch, one module each:

    from ashlar.allocators.cupy import ashlar_cupy_allocator
    cupy.cuda.set_allocator(ashlar_cupy_allocator)

    from ashlar.allocators.numba import AshlarNumbaManager
    numba.cuda.set_memory_manager(AshlarNumbaManager)

    from ashlar.allocators.torch import ashlar_torch_allocator
    torch.cuda.memory.change_current_allocator(ashlar_torch_allocator)

CuPy and Numba share one allocator per device, so memory that one library frees can serve the other
library. For PyTorch, Ashlar creates separate allocators; `ashlar.torch.enable()` offers more than
the adapter."""

import importlib
import threading
from typing import TYPE_CHECKING, Dict

if TYPE_CHECKING:
    from ashlar._recording import Allocator

__all__ = ["allocator", "set_allocator"]

_lock = threading.Lock()
_allocators: Dict[int, "Allocator"] = {}


def allocator(device: int, backend: str = "cuda") -> "Allocator":
    """Returns the shared allocator of a device. Creates it on first use, with the options of the
    environment (ASHLAR_ALLOC_CONF)."""
    with _lock:
        if device not in _allocators:
            made = importlib.import_module("ashlar").Allocator(f"{backend}:{device}")
            _allocators[device] = made
        return _allocators[device]


def set_allocator(chosen: "Allocator") -> None:
    """Makes an allocator the shared one of its device: `set_allocator(ashlar.Allocator("cuda:0",
    "engine:paged,policy:lean"))`. Memory of the previous allocator stays valid."""
    _, _, index = chosen.device.name.partition(":")
    with _lock:
        _allocators[int(index)] = chosen
