# SPDX-License-Identifier: Apache-2.0
"""Ashlar as the allocator of PyTorch.

    import ashlar.torch
    ashlar.torch.enable()            # before the first use of the GPU

PyTorch then allocates all GPU memory through Ashlar. PyTorch's `memory_stats()`,
`memory_snapshot()` and `memory_summary()` do not support pluggable allocators. Use the functions
`memory_stats()`, `snapshot()` and `summary()` here, which return the same names and formats.
`mem_pool()` creates a `torch.cuda.MemPool` backed by Ashlar, for programs that keep PyTorch's
allocator.

PyTorch is imported on first use."""

import ctypes
import importlib
import os
import pickle
from typing import TYPE_CHECKING, Any, Dict, Optional, Union

from ashlar import _library
from ashlar._display import Stats
from ashlar._library import AshlarError, OutOfMemoryError
from ashlar.errors import InvalidArgument

if TYPE_CHECKING:
    from ashlar._recording import Recording

__all__ = [
    "AshlarError", "OutOfMemoryError", "configuration", "enable", "empty_cache", "is_enabled",
    "mem_pool", "memory_allocated", "memory_reserved", "memory_stats", "record_memory_history",
    "recording", "reset_peak_memory_stats", "save_snapshot", "snapshot", "summary",
]

DeviceLike = Union[None, int, str, Any]  # a number, "cuda:1", or a torch.device
Path = Union[str, bytes, "os.PathLike[str]"]

# PyTorch's hook setters, and the functions passed to them.
_HOOKS = {
    "set_init_fn": "ashlar_torch_init",
    "set_reset_fn": "ashlar_torch_reset",
    "set_memory_fraction_fn": "ashlar_torch_memory_fraction",
    "set_base_alloc_fn": "ashlar_torch_base_alloc",
    "set_record_stream_fn": "ashlar_torch_record_stream",
    "set_begin_allocate_to_pool": "ashlar_torch_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "ashlar_torch_end_allocate_to_pool",
    "set_release_pool": "ashlar_torch_release_pool",
}

_enabled = None  # the allocator object passed to PyTorch; lives as long as the process
_pool_allocator = None  # the allocator object that mem_pool() uses; lives as long as the process


def enable(conf: Optional[str] = None, backend: Optional[str] = None) -> None:
    """Makes Ashlar the allocator of this process. Call once, before the first use of the GPU.

    conf: options of docs/reference/options.md, such as "engine:paged,policy:lean". Default:
    ASHLAR_ALLOC_CONF, or else the paged engine. backend: "cuda", "hip" or "sim". Default:
    ASHLAR_TORCH_BACKEND, or else the back end of this PyTorch build.

    Raises ValueError for invalid options, and RuntimeError if the GPU is already in use."""
    global _enabled
    if _enabled is not None:
        raise RuntimeError("ashlar.torch is already enabled (expected one call)")
    torch = importlib.import_module("torch")
    if torch.cuda.is_initialized():
        raise RuntimeError("PyTorch already uses the GPU; call ashlar.torch.enable() before "
                           "creating the first tensor on it")
    _configure(torch, conf, backend)
    pluggable = torch.cuda.memory.CUDAPluggableAllocator(
        _library.load().path, "ashlar_torch_alloc", "ashlar_torch_free")
    allocator = pluggable.allocator()
    for setter, function in _HOOKS.items():
        getattr(allocator, setter)(_library.address_of(function))
    torch.cuda.memory.change_current_allocator(pluggable)
    _enabled = pluggable


def is_enabled() -> bool:
    """Returns whether Ashlar is the allocator of this process."""
    return _enabled is not None


def mem_pool(conf: Optional[str] = None, backend: Optional[str] = None) -> Any:
    """Creates a torch.cuda.MemPool backed by Ashlar, for `torch.cuda.use_mem_pool`. The arguments
    are those of `enable`, and allowed only in the first call."""
    global _pool_allocator
    torch = importlib.import_module("torch")
    if _enabled is not None:
        raise RuntimeError("PyTorch does not support MemPool after ashlar.torch.enable()")
    if _pool_allocator is None:
        _configure(torch, conf, backend)
        pluggable = torch.cuda.memory.CUDAPluggableAllocator(
            _library.load().path, "ashlar_torch_pool_alloc", "ashlar_torch_free")
        _pool_allocator = pluggable  # segments may be freed long after the pool was destroyed
    elif conf is not None or backend is not None:
        raise RuntimeError("ashlar.torch is already configured (expected no conf and no backend)")
    pool = torch.cuda.MemPool(_pool_allocator.allocator())
    _allocator(None)  # opens the device, which is impossible during graph capture
    return pool


def _configure(torch: Any, conf: Optional[str], backend: Optional[str]) -> None:
    if conf is None and not os.environ.get("ASHLAR_ALLOC_CONF"):
        conf = "engine:paged"
    if backend is None and not os.environ.get("ASHLAR_TORCH_BACKEND"):
        backend = "hip" if getattr(torch.version, "hip", None) else "cuda"
    as_bytes = [None if text is None else text.encode() for text in (backend, conf)]
    _library.check(_library.load().ashlar_torch_configure(*as_bytes))


def memory_stats(device: DeviceLike = None) -> Stats:
    """Returns the statistics of a device under PyTorch's names:
    {"allocated_bytes.all.peak": ..., ...}."""
    stats = Stats()

    def collect(name: bytes, value: int, _: Any) -> None:
        stats[name.decode()] = value

    _library.check(_library.load().ashlar_visit_stats(
        _allocator(device), _library.STAT_VISITOR(collect), None))
    return stats


def memory_allocated(device: DeviceLike = None) -> int:
    """Returns the bytes in blocks of live tensors."""
    return memory_stats(device)["allocated_bytes.all.current"]


def memory_reserved(device: DeviceLike = None) -> int:
    """Returns the bytes reserved from the device, allocated or cached."""
    return memory_stats(device)["reserved_bytes.all.current"]


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Resets peaks to the current values."""
    _library.check(_library.load().ashlar_reset_peak_stats(_allocator(device)))


def empty_cache(device: DeviceLike = None) -> None:
    """Releases cached memory of one device. torch.cuda.empty_cache() releases it on all devices."""
    _library.check(_library.load().ashlar_trim(_allocator(device)))


def record_memory_history(enabled: Optional[str] = "all", max_entries: int = 0,
                          device: DeviceLike = None) -> None:
    """Records allocations and frees with C++ stacks, like torch.cuda.memory._record_memory_history.
    enabled: "state", "alloc", "all", or None to stop and discard the trace."""
    library = _library.load()
    if enabled is None:
        _library.check(library.ashlar_history_stop(_allocator(device)))
        return
    if enabled not in _library.STACKS:
        raise ValueError(f'enabled={enabled!r} (expected "state", "alloc", "all" or None)')
    options = _library.HistoryOptions(ctypes.sizeof(_library.HistoryOptions), max_entries,
                                      _library.STACKS[enabled], 0)
    _library.check(library.ashlar_history_start(_allocator(device), ctypes.byref(options)))


def snapshot(device: DeviceLike = None) -> Dict[str, Any]:
    """Returns the allocator's state and trace, in the format of torch.cuda.memory._snapshot()."""
    return pickle.loads(_snapshot_bytes(device))


def _snapshot_bytes(device: DeviceLike) -> bytes:
    return _library.take_bytes(_library.load().ashlar_snapshot, _allocator(device),
                               _library.FORMAT_PICKLE)


def save_snapshot(path: Path, device: DeviceLike = None) -> None:
    """Writes the snapshot to a file, for `ashlar report` and PyTorch's viewer."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise InvalidArgument(f"path: {path!r} is not a file name (expected a name without NUL)")
    _library.check(_library.load().ashlar_save_snapshot(_allocator(device), name))


def recording(device: DeviceLike = None) -> "Recording":
    """Returns all operations since record_memory_history as an ashlar.Recording, with causes(),
    leaks(), replay() and so on. Needs the extension module (docs/how-to/python.md)."""
    from ashlar import load
    return load(_snapshot_bytes(device))


def configuration(device: DeviceLike = None) -> str:
    """Returns the non-default options, as text."""
    return _library.take_bytes(_library.load().ashlar_allocator_options,
                               _allocator(device)).decode()


def summary(device: DeviceLike = None) -> str:
    """Returns a text table of current, peak and total memory."""
    return (f"Ashlar, device {_index(device)} ({configuration(device) or 'defaults'})\n"
            + memory_stats(device).text())


def _index(device: DeviceLike) -> int:
    """Returns the index of a device that is given as None, 1, "cuda:1" or a torch.device."""
    if isinstance(device, int):
        return device
    index = getattr(device, "index", None)
    if isinstance(device, str):
        _, _, number = device.partition(":")
        index = int(number) if number else None
    if isinstance(index, int):
        return index
    torch = importlib.import_module("torch")
    return torch.cuda.current_device() if torch.cuda.is_initialized() else 0


def _allocator(device: DeviceLike) -> int:
    found = _library.load().ashlar_torch_allocator(_index(device))
    if not found:
        raise AshlarError(_library.last_message())
    return found
