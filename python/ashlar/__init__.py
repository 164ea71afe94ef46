# SPDX-License-Identifier: Apache-2.0
"""Ashlar, a memory system for accelerators, from Python.

    import ashlar
    allocator = ashlar.Allocator("sim:0")        # or "cuda:0"
    with allocator.allocate("64MiB") as buffer:
        ...
    ashlar.load("snapshot.pickle").report()      # what `ashlar report --json` says

`ashlar.torch` puts it under PyTorch.

Importing this loads nothing: neither the library nor PyTorch. The first name that is asked for
loads the extension module; `ashlar.torch` does without it."""

import importlib
import pathlib
from typing import TYPE_CHECKING, Any, List

from ashlar.errors import (DeviceError, Error, FileError, FormatError, OutOfMemory,
                           OutOfMemoryError, PeerError, TimeoutError, InvalidArgument)

if TYPE_CHECKING:
    from ashlar import errors, torch
    from ashlar._ashlar import (Array, Buffer, Device, Event, HostAllocator, HostBuffer, HostView,
                                Machine, Pool, Stream, devices)
    from ashlar._display import Causes, Diff, HostStats, Leaks, Peaks, Stats, Tuning
    from ashlar._recording import Allocator, Recording, load

    __version__: str

# What `from ashlar import *` gives: none of what would replace a name of Python's, or PyTorch.
__all__ = [
    "Allocator", "Array", "Buffer", "Causes", "Device", "DeviceError", "Diff", "Event", "FileError",
    "FormatError", "HostAllocator", "HostBuffer", "HostStats", "HostView", "Leaks", "Machine",
    "OutOfMemory", "OutOfMemoryError", "Peaks", "PeerError", "Pool", "Recording", "Stats", "Stream",
    "Tuning", "InvalidArgument", "devices", "load",
]

# Where a name comes from, loaded when it is first asked for.
_HOMES = {
    **dict.fromkeys(("Array", "Buffer", "Device", "Event", "HostAllocator", "HostBuffer",
                     "HostView", "Machine", "Pool", "Stream", "__version__", "devices"),
                    "ashlar._ashlar"),
    **dict.fromkeys(("Allocator", "Recording", "load"), "ashlar._recording"),
    **dict.fromkeys(("Causes", "Diff", "HostStats", "Leaks", "Peaks", "Stats", "Tuning"),
                    "ashlar._display"),
}

# In a checkout, the extension module is in the build folder.
_BUILT = pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "python" / "ashlar"
if _BUILT.is_dir() and str(_BUILT) not in __path__:
    __path__.append(str(_BUILT))


def _get(name: str) -> Any:
    if name in ("torch", "errors"):
        return importlib.import_module(f"ashlar.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'ashlar' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    except ModuleNotFoundError as failure:
        if failure.name != "ashlar._ashlar":
            raise
        raise ImportError(
            f"ashlar.{name} needs the extension module ashlar._ashlar, which was not built for "
            "this Python: install pybind11-dev and python3-dev, and build (scripts/build)",
            name="ashlar._ashlar") from failure
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # to which every name above is known, and no other
    __getattr__ = _get


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__) | {"errors", "torch"})
