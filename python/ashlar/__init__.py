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
from typing import TYPE_CHECKING

from ashlar.errors import (DeviceError, Error, FormatError, OutOfMemory, OutOfMemoryError,
                           PeerError, TimeoutError, UsageError)

if TYPE_CHECKING:
    from ashlar._ashlar import (Array, Buffer, Device, Event, HostView, Machine, Pool, Stream,
                                devices)
    from ashlar._display import Stats
    from ashlar._recording import Allocator, Recording, load

__all__ = [
    "Allocator", "Array", "Buffer", "Device", "DeviceError", "Error", "Event", "FormatError",
    "HostView", "Machine", "OutOfMemory", "OutOfMemoryError", "PeerError", "Pool", "Recording",
    "Stats", "Stream", "TimeoutError", "UsageError", "devices", "errors", "load", "torch",
]

# Where a name comes from, loaded when it is first asked for.
_HOMES = {
    **dict.fromkeys(("Array", "Buffer", "Device", "Event", "HostView", "Machine", "Pool", "Stream",
                     "__version__", "devices"), "ashlar._ashlar"),
    **dict.fromkeys(("Allocator", "Recording", "load"), "ashlar._recording"),
    "Stats": "ashlar._display",
}

# In a checkout, the extension module is in the build folder.
_BUILT = pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "python" / "ashlar"
if _BUILT.is_dir() and str(_BUILT) not in __path__:
    __path__.append(str(_BUILT))


def __getattr__(name):
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


def __dir__():
    return sorted(set(globals()) | set(__all__))
