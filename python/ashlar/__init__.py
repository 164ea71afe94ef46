# SPDX-License-Identifier: Apache-2.0
"""Python bindings of Ashlar, a memory system for accelerators.

    import ashlar
    allocator = ashlar.Allocator("sim:0")        # or "cuda:0"
    with allocator.allocate("64MiB") as buffer:
        ...
    ashlar.load("snapshot.pickle").report()      # as `ashlar report --json`

`ashlar.torch` makes Ashlar the allocator of PyTorch.

Importing this package loads neither the extension module nor PyTorch. The extension module is
loaded with the first name that needs it; the exceptions and `ashlar.torch` do not need it."""

import importlib
import pathlib
from typing import TYPE_CHECKING, Any, List

from ashlar.errors import (DeviceError, Error, FileError, FormatError, OutOfMemory,
                           OutOfMemoryError, PeerError, TimeoutError, InvalidArgument)

if TYPE_CHECKING:
    from ashlar import errors, torch
    from ashlar._ashlar import (Array, Buffer, Device, Event, HostAllocator, HostBuffer, HostView,
                                Machine, Pool, Stream, devices)
    from ashlar._display import HostStats, Stats
    from ashlar._recording import Allocator, Recording, load
    from ashlar._results import (Causes, Diff, Leaks, OomReport, Peaks, Replay, Report,
                                 SourceLines, Summary, Training, Tuning)

    __version__: str

# The names that `from ashlar import *` imports. Excludes `TimeoutError`, which would shadow the
# built-in, `torch`, which would shadow PyTorch's module, and the generic `Error` and `errors`.
__all__ = [
    "Allocator", "Array", "Buffer", "Causes", "Device", "DeviceError", "Diff", "Event", "FileError",
    "FormatError", "HostAllocator", "HostBuffer", "HostStats", "HostView", "Leaks", "Machine",
    "OomReport", "OutOfMemory", "OutOfMemoryError", "Peaks", "PeerError", "Pool", "Recording",
    "Replay", "Report", "SourceLines", "Stats", "Stream", "Summary", "Training", "Tuning",
    "InvalidArgument", "devices", "load",
]

# The module that defines each name. The module is imported on the first use of the name.
_MODULES = {
    **dict.fromkeys(("Array", "Buffer", "Device", "Event", "HostAllocator", "HostBuffer",
                     "HostView", "Machine", "Pool", "Stream", "__version__", "devices"),
                    "ashlar._ashlar"),
    **dict.fromkeys(("Allocator", "Recording", "load"), "ashlar._recording"),
    **dict.fromkeys(("HostStats", "Stats"), "ashlar._display"),
    **dict.fromkeys(("Causes", "Diff", "Leaks", "OomReport", "Peaks", "Replay", "Report",
                     "SourceLines", "Summary", "Training", "Tuning"), "ashlar._results"),
}

# In a checkout with a release build, the extension module is in the build folder. That folder is
# therefore added to the package's path.
_BUILT = pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "python" / "ashlar"
if _BUILT.is_dir() and str(_BUILT) not in __path__:
    __path__.append(str(_BUILT))


def _get(name: str) -> Any:
    if name in ("torch", "errors"):
        return importlib.import_module(f"ashlar.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'ashlar' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(_MODULES[name]), name)
    except ModuleNotFoundError as failure:
        if failure.name != "ashlar._ashlar":
            raise
        raise ImportError(
            f"ashlar.{name} needs the extension module ashlar._ashlar, which was not built for "
            "this Python; install pybind11-dev and python3-dev, and run scripts/build",
            name="ashlar._ashlar") from failure
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # type checkers use the imports above
    __getattr__ = _get


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__) | {"errors", "torch"})
