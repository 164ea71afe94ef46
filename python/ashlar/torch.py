# SPDX-License-Identifier: Apache-2.0
#
# The file is long because it documents every function of the package for PyTorch.
"""Ashlar as the allocator of PyTorch.

    import ashlar.torch
    ashlar.torch.enable()            # before the first use of the GPU

PyTorch then allocates all GPU memory through Ashlar, and all functions of `torch.cuda.memory` work.
To run a script unmodified:

    python -m ashlar.torch train.py --its-own-options

The native allocator is compiled against the installed PyTorch on first use. If that is impossible,
`enable()` warns, says why, and uses a plug-in, with which PyTorch disables its own statistics,
snapshots and pools; the functions here work in both cases. `mem_pool()` creates a
`torch.cuda.MemPool` backed by Ashlar, for programs that keep PyTorch's allocator.

PyTorch is imported on first use."""

import contextlib
import ctypes
import importlib
import os
import pickle
import re
import sys
import warnings
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Union

from ashlar import _library, _native
from ashlar._display import Stats
from ashlar._library import AshlarError
from ashlar.errors import InvalidArgument, OutOfMemoryError

if TYPE_CHECKING:
    from ashlar._recording import Recording
    from ashlar._results import Tuning

__all__ = [
    "AshlarError", "OutOfMemoryError", "allocation_traceback", "annotate_memory",
    "compile_context", "configuration", "enable", "empty_cache", "get_memory_metadata",
    "is_enabled", "LiveServer", "is_native", "mem_pool", "memory_allocated", "memory_reserved",
    "memory_stats", "pause", "record_memory_history", "recording", "reset_peak_memory_stats",
    "resume", "save_snapshot", "serve_live", "set_memory_metadata", "snapshot", "summary",
    "trim_to", "tune", "use_tag",
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

# The allocator that `enable` installed: "native", or the plug-in's object, which lives as long as
# the process. None: not enabled.
_enabled = None
_enabled_pid = None  # the process that called `enable`
_pool_allocator = None  # the allocator object that mem_pool() uses; lives as long as the process


def enable(conf: Optional[str] = None, backend: Optional[str] = None,
           native: Optional[bool] = None) -> None:
    """Makes Ashlar the allocator of this process. Call once, before the first use of the GPU.

    conf: options of docs/reference/options.md, such as "engine:paged,policy:lean". Default:
    ASHLAR_ALLOC_CONF, or else the paged engine. backend: "cuda", "hip" or "sim". Default:
    ASHLAR_TORCH_BACKEND, or else the back end of this PyTorch build. native: whether to install the
    native allocator (True), or the plug-in (False). Default: the native allocator, or else, with a
    warning, the plug-in.

    Raises ValueError for invalid options, and RuntimeError if the GPU is already in use, if
    PyTorch's settings name another allocator (backend:cudaMallocAsync), or if `native` is True and
    the native allocator is not available."""
    global _enabled, _enabled_pid
    torch = importlib.import_module("torch")
    # Whether a parent of this process had initialized the GPU when it forked.
    if getattr(torch.cuda, "_is_in_bad_fork", bool)():
        raise RuntimeError("this process was forked after the GPU was first used, and the GPU "
                           "cannot be used in a forked process: start the process with "
                           "multiprocessing's method spawn, and enable ashlar.torch there")
    if _enabled is not None:
        if _enabled_pid != os.getpid():
            raise RuntimeError("ashlar.torch was enabled before this process was forked, and is "
                               "enabled here, too (expected one call, before or after the fork)")
        raise RuntimeError("ashlar.torch is already enabled (expected one call)")
    if torch.cuda.is_initialized():
        raise RuntimeError("PyTorch already uses the GPU; call ashlar.torch.enable() before "
                           "creating the first tensor on it")
    _check_settings()
    _configure(torch, conf, backend)
    if native is not False:
        try:
            _native.install(torch)
            _enabled, _enabled_pid = "native", os.getpid()
            return
        except _native.Unavailable as failure:
            if native:
                raise RuntimeError(f"the native allocator is not available: {failure}") from None
            warnings.warn(f"ashlar.torch: the native allocator is not available: {failure}. Using "
                          f"the plug-in, without {_native.MISSING_WITH_PLUG_IN}.",
                          RuntimeWarning, 2)
    pluggable = _make_pluggable_allocator(torch)
    torch.cuda.memory.change_current_allocator(pluggable)
    _enabled, _enabled_pid = pluggable, os.getpid()


def _check_settings() -> None:
    """Raises RuntimeError if PyTorch's settings name another allocator: PyTorch compares that name
    with the allocator in use, and would fail at an allocation."""
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        found = re.search(r"backend\s*:\s*((?:cuda|hip)MallocAsync)", os.environ.get(name, ""))
        if found:
            raise RuntimeError(f"{name} names the allocator {found[1]} (expected no backend; for "
                               "the driver's pool, set ASHLAR_ALLOC_CONF=engine:async)")


def _make_pluggable_allocator(torch: Any) -> Any:
    """Returns a torch.cuda.memory.CUDAPluggableAllocator for `change_current_allocator`."""
    pluggable = torch.cuda.memory.CUDAPluggableAllocator(
        _library.load().path, "ashlar_torch_alloc", "ashlar_torch_free")
    allocator = pluggable.allocator()
    for setter, function in _HOOKS.items():
        getattr(allocator, setter)(_library.address_of(function))
    return pluggable


def is_enabled() -> bool:
    """Returns whether Ashlar is the allocator of this process."""
    return _enabled is not None


def is_native() -> bool:
    """Returns whether `enable` installed the native allocator."""
    return _enabled == "native"


def mem_pool(conf: Optional[str] = None, backend: Optional[str] = None) -> Any:
    """Creates a torch.cuda.MemPool backed by Ashlar, for `torch.cuda.use_mem_pool`. The arguments
    are those of `enable`, and allowed only in the first call."""
    global _pool_allocator
    torch = importlib.import_module("torch")
    if is_native():
        raise RuntimeError("all memory comes from Ashlar after ashlar.torch.enable() (expected "
                           "torch.cuda.MemPool())")
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


def trim_to(reserved_bytes: int, device: DeviceLike = None, *, wait: bool = False) -> int:
    """Releases cached memory of one device until at most `reserved_bytes` are reserved, or no more
    can be released. wait: also waits for the work that uses freed memory. Returns the number of
    released bytes."""
    if reserved_bytes < 0:
        raise InvalidArgument(f"reserved_bytes: {reserved_bytes} (expected 0 or more)")
    released = ctypes.c_size_t()
    _library.check(_library.load().ashlar_trim_to(_allocator(device), reserved_bytes, int(wait),
                                                  ctypes.byref(released)))
    return released.value


# Memory that is paused and resumed by tag.


@contextlib.contextmanager
def use_tag(tag: str, device: DeviceLike = None) -> Iterator[None]:
    """Gives a tag to all memory of a device that the calling thread allocates inside `with`, so
    that `pause` and `resume` apply to it:

        with ashlar.torch.use_tag("weights"):
            model = Model().cuda()
        ashlar.torch.pause("weights", backup="host")
        ...                                    # other work uses the memory
        ashlar.torch.resume("weights")

    May be nested, and used by several threads; the innermost tag applies. A tag exists as long as
    there is memory with it. Memory of freed tensors is cached, but reused inside the same `with`
    only; `empty_cache` releases it."""
    library = _library.load()
    allocator = _allocator(device)
    pool = _library.Pool()
    options = _library.PoolOptions(struct_size=ctypes.sizeof(_library.PoolOptions),
                                   tag=_tag_bytes(tag))
    _library.check(library.ashlar_pool_create(allocator, ctypes.byref(options),
                                              ctypes.byref(pool)))
    try:
        _library.check(library.ashlar_pool_begin(allocator, pool, None, None))
        try:
            yield
        finally:
            _library.check(library.ashlar_pool_end(allocator, pool))
            _library.check(library.ashlar_pool_release(allocator, pool))
    finally:
        _library.check(library.ashlar_pool_release(allocator, pool))


def pause(tag: str, *, backup: Optional[str] = None, device: DeviceLike = None) -> None:
    """Returns all memory with the tag to the device, while tensors keep their addresses. Waits for
    the work that uses them. Until `resume`, no work may use the tensors, and nothing can be
    allocated with the tag. backup: "host" keeps the contents in host memory; None discards
    them."""
    if backup not in (None, "host"):
        raise InvalidArgument(f'backup: {backup!r} (expected "host" or None)')
    _library.check(_library.load().ashlar_pause(_allocator(device), _tag_bytes(tag),
                                                int(backup is not None)))


def resume(tag: str, *, device: DeviceLike = None) -> None:
    """Obtains memory for the paused tensors with the tag, and restores the contents if they were
    kept."""
    _library.check(_library.load().ashlar_resume(_allocator(device), _tag_bytes(tag)))


def _tag_bytes(tag: str) -> bytes:
    name = tag.encode()
    if not name or b"\0" in name:
        raise InvalidArgument(f"tag: {tag!r} (expected a text without NUL that is not empty)")
    return name


# History.


def record_memory_history(enabled: Optional[str] = "all", context: Optional[str] = "all",
                          stacks: str = "all", max_entries: int = 0, device: DeviceLike = None,
                          clear_history: bool = False,
                          skip_actions: Sequence[str] = ()) -> None:
    """Records allocations and frees, like torch.cuda.memory._record_memory_history, which has the
    same arguments. enabled: "state", "all", or None to stop and discard the trace. max_entries: 0
    means no limit or, with the plug-in, 2^20. skip_actions: actions that are not recorded, such as
    "free_requested". With the plug-in, stacks are C++ stacks, `enabled` selects them ("state",
    "alloc" or "all"), and `context` and `stacks` are ignored."""
    if is_native():
        torch = importlib.import_module("torch")
        optional: Dict[str, Any] = {}
        if clear_history:
            optional["clear_history"] = True
        if skip_actions:
            optional["skip_actions"] = list(skip_actions)
        torch.cuda.memory._record_memory_history(
            enabled, context, stacks, max_entries or sys.maxsize, device, **optional)
        return
    library = _library.load()
    if enabled is None:
        _library.check(library.ashlar_history_stop(_allocator(device)))
        return
    if enabled not in _library.STACKS:
        raise ValueError(f'enabled={enabled!r} (expected "state", "alloc", "all" or None)')
    for action in skip_actions:
        if action not in _library.ACTIONS:
            raise ValueError(f"skip_actions: {action!r} is unknown (expected one of "
                             f"{', '.join(_library.ACTIONS)})")
    skipped = [_library.ACTIONS.index(action) for action in skip_actions]
    options = _library.HistoryOptions(
        ctypes.sizeof(_library.HistoryOptions), max_entries, _library.STACKS[enabled],
        int(clear_history), (ctypes.c_int32 * len(skipped))(*skipped), len(skipped))
    _library.check(library.ashlar_history_start(_allocator(device), ctypes.byref(options)))


def snapshot(device: DeviceLike = None) -> Dict[str, Any]:
    """Returns the allocator's state and trace, in the format of torch.cuda.memory._snapshot()."""
    if is_native():
        found: Dict[str, Any] = importlib.import_module("torch").cuda.memory._snapshot(device)
    else:
        found = pickle.loads(_snapshot_bytes(device))
    return found


def _snapshot_bytes(device: DeviceLike) -> bytes:
    if is_native():
        return pickle.dumps(snapshot(device))
    return _library.take_bytes(_library.load().ashlar_snapshot, _allocator(device),
                               _library.FORMAT_PICKLE)


def save_snapshot(path: Path, device: DeviceLike = None) -> None:
    """Writes the snapshot to a file, for `ashlar report` and PyTorch's viewer. The native allocator
    ignores `device` and writes all devices."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise InvalidArgument(f"path: {path!r} is not a file name (expected a name without NUL)")
    if is_native():
        importlib.import_module("torch").cuda.memory._dump_snapshot(os.fsdecode(path))
        return
    _library.check(_library.load().ashlar_save_snapshot(_allocator(device), name))


def recording(device: DeviceLike = None) -> "Recording":
    """Returns the operations since record_memory_history, up to its max_entries, as an
    ashlar.Recording, with causes(), leaks(), replay() and so on. Needs the extension module
    (docs/how-to/python.md)."""
    from ashlar import load
    # A snapshot of the native allocator has all devices.
    index = None if device is None else _index(device)
    return load(_snapshot_bytes(device), device=index)


def tune(device: DeviceLike = None, **arguments: Any) -> "Tuning":
    """Replays the operations since record_memory_history under other settings, and returns the best
    ones for `enable(conf=...)`. The arguments are those of Recording.tune. Needs the extension
    module."""
    return recording(device).tune(**arguments)


def allocation_traceback(data_ptr: int, device: DeviceLike = None
                         ) -> Optional[List[Dict[str, Any]]]:
    """Returns the stack that was recorded for the live memory of `data_ptr`, the address of an
    untyped storage, innermost frame first: [{"name": ..., "filename": ..., "line": ...}]. None if
    no stack was recorded."""
    if is_native():
        # PyTorch keeps the stacks, and up to 2.11 returns them in snapshots only.
        for segment in snapshot(device)["segments"]:
            for block in segment["blocks"]:
                if block["address"] == data_ptr and block["state"] == "active_allocated":
                    return block.get("frames") or None
        raise InvalidArgument(f"no live memory begins at {data_ptr:#x} (expected the data_ptr() of "
                              "an untyped storage)")
    frames: List[Dict[str, Any]] = []

    def collect(name: bytes, file: bytes, line: int, _: Any) -> None:
        frames.append({"name": name.decode("utf-8", "replace"),
                       "filename": file.decode("utf-8", "replace"), "line": line})

    _library.check(_library.load().ashlar_visit_stack(
        _allocator(device), data_ptr, _library.FRAME_VISITOR(collect), None))
    return frames or None


def annotate_memory(data_ptr: int, metadata: str, device: DeviceLike = None) -> None:
    """Records a text for the live memory of `data_ptr`, if history is recorded."""
    _library.check(_library.load().ashlar_annotate_memory(
        _allocator(device), data_ptr, _text_bytes("metadata", metadata)))


def set_memory_metadata(metadata: str) -> None:
    """Sets a text that is attached to everything the calling thread records from now on. An empty
    text clears it. Like torch.cuda.memory._set_memory_metadata, for all versions of PyTorch."""
    _library.check(_library.load().ashlar_set_user_metadata(_text_bytes("metadata", metadata)))


def get_memory_metadata() -> str:
    """Returns the text that the calling thread has set."""
    return _library.take_bytes(_library.load().ashlar_user_metadata).decode("utf-8", "replace")


@contextlib.contextmanager
def compile_context(name: str) -> Iterator[None]:
    """Attaches the name of a region of compiled code to everything the calling thread records
    inside `with`. PyTorch does so itself for regions of torch.compile. Regions nest; the innermost
    one is recorded."""
    library = _library.load()
    _library.check(library.ashlar_push_compile_context(_text_bytes("name", name)))
    try:
        yield
    finally:
        library.ashlar_pop_compile_context()


def _text_bytes(argument: str, text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogateescape")
    if b"\0" in encoded:
        raise InvalidArgument(f"{argument}: {text!r} (expected a text without NUL)")
    return encoded


class LiveServer:
    """A server of this process's statistics, started by `serve_live`. Runs until `close`, the end
    of `with`, or the end of the process."""

    def __init__(self, port: int = 0) -> None:
        library = _library.load()
        options = _library.LiveServerOptions(ctypes.sizeof(_library.LiveServerOptions), 1, port)
        self._server = ctypes.c_void_p()
        _library.check(library.ashlar_live_server_start(ctypes.byref(options),
                                                        ctypes.byref(self._server)))
        self.url = _library.take_bytes(library.ashlar_live_server_url, self._server).decode()

    def close(self) -> None:
        """Closes all connections."""
        server, self._server = self._server, ctypes.c_void_p()
        _library.load().ashlar_live_server_stop(server)

    def __enter__(self) -> "LiveServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve_live(port: int = 0) -> LiveServer:
    """Starts a server for `ashlar top`, `ashlar view --live` and Prometheus (`server.url` +
    "metrics") on 127.0.0.1. port: 0 selects a free one. The URL contains a random token."""
    if not 0 <= port < 1 << 16:
        raise InvalidArgument(f"port: {port} (expected 0 to 65535)")
    return LiveServer(port)


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
    return int(torch.cuda.current_device()) if torch.cuda.is_initialized() else 0


def _allocator(device: DeviceLike) -> int:
    found: Optional[int] = _library.load().ashlar_torch_allocator(_index(device))
    if not found:
        raise AshlarError(_library.last_message())
    return found


# Running a script: python -m ashlar.torch [--conf CONF] [--backend NAME] [-m] SCRIPT ...


def _run(arguments: List[str]) -> None:
    """Enables Ashlar, and runs a script or a module with its own arguments."""
    argparse = importlib.import_module("argparse")
    runpy = importlib.import_module("runpy")
    parser = argparse.ArgumentParser(
        prog="python -m ashlar.torch", description="Runs a script with Ashlar as PyTorch's "
        "allocator.")
    parser.add_argument("--conf", help="options, such as engine:paged,policy:lean")
    parser.add_argument("--backend", help="cuda, hip or sim")
    parser.add_argument("-m", dest="is_module", action="store_true",
                        help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT")
    given = parser.parse_args(arguments)
    importlib.import_module("ashlar.torch").enable(given.conf, given.backend)
    sys.argv = [given.script, *given.arguments]
    if given.is_module:
        runpy.run_module(given.script, run_name="__main__", alter_sys=True)
        return
    sys.path[0] = os.path.dirname(os.path.abspath(given.script))
    runpy.run_path(given.script, run_name="__main__")


if __name__ == "__main__":
    _run(sys.argv[1:])
