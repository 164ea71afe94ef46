# SPDX-License-Identifier: Apache-2.0
"""Finds and loads libashlar_torch.so, and calls its C interface (include/ashlar/c/ashlar.h) through
ctypes."""

import ctypes
import functools
import os
import pathlib
from typing import Any, Callable, Iterator

from ashlar.errors import (DeviceError, Error, FormatError, OutOfMemoryError, PeerError,
                           TimeoutError, InvalidArgument)

AshlarError = Error  # an older name, kept for compatibility

NAME = "libashlar_torch.so"
C_VERSION_MAJOR = 1  # the major version of the C header that this file was written for

STATUS_OK = 0
# The exceptions for values of ashlar_status. All other failures become an Error.
_EXCEPTIONS = {
    1: OutOfMemoryError,  # out of device memory
    2: InvalidArgument,
    3: InvalidArgument,  # unsupported
    4: DeviceError,  # device fault
    5: DeviceError,  # device lost
    6: FormatError,
    7: OutOfMemoryError,  # out of host memory
    9: TimeoutError,
    10: PeerError,
}

FORMAT_PICKLE = 0
STACKS = {None: 0, "state": 1, "alloc": 2, "all": 3}  # the values of PyTorch's `context`

STAT_VISITOR = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p)


FRAME_VISITOR = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64,
                                 ctypes.c_void_p)
# The names of the values of ashlar_action, in their order. All except "annotate" are PyTorch's.
ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free",
           "segment_map", "segment_unmap", "snapshot", "oom", "annotate")


class HistoryOptions(ctypes.Structure):
    """The struct ashlar_history_options."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("max_entries", ctypes.c_size_t),
                ("stacks", ctypes.c_int32), ("clear", ctypes.c_int32),
                ("skip_actions", ctypes.POINTER(ctypes.c_int32)),
                ("skip_action_count", ctypes.c_size_t)]


class Pool(ctypes.Structure):
    """The struct ashlar_pool."""

    _fields_ = [("capture", ctypes.c_uint64), ("user", ctypes.c_uint64)]


class PoolOptions(ctypes.Structure):
    """The struct ashlar_pool_options."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("source", ctypes.c_void_p),
                ("use_on_oom", ctypes.c_int32), ("no_split", ctypes.c_int32),
                ("never_remap", ctypes.c_int32), ("reserved", ctypes.c_int32),
                ("tag", ctypes.c_char_p)]


class LiveServerOptions(ctypes.Structure):
    """The struct ashlar_live_server_options."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("has_port", ctypes.c_int32),
                ("port", ctypes.c_uint16), ("token", ctypes.c_char_p)]


_HANDLE = ctypes.c_void_p
_SIGNATURES = {
    "ashlar_c_version": (ctypes.c_uint32, []),
    "ashlar_last_message": (ctypes.c_char_p, []),
    "ashlar_last_call": (ctypes.c_char_p, []),
    "ashlar_last_code": (ctypes.c_int64, []),
    "ashlar_status_name": (ctypes.c_char_p, [ctypes.c_int32]),
    "ashlar_torch_configure": (ctypes.c_int32, [ctypes.c_char_p, ctypes.c_char_p]),
    "ashlar_torch_allocator": (_HANDLE, [ctypes.c_int]),
    "ashlar_visit_stats": (ctypes.c_int32, [_HANDLE, STAT_VISITOR, ctypes.c_void_p]),
    "ashlar_reset_peak_stats": (ctypes.c_int32, [_HANDLE]),
    "ashlar_reset_total_stats": (ctypes.c_int32, [_HANDLE]),
    "ashlar_trim": (ctypes.c_int32, [_HANDLE]),
    "ashlar_trim_to": (ctypes.c_int32, [_HANDLE, ctypes.c_size_t, ctypes.c_int32,
                                        ctypes.POINTER(ctypes.c_size_t)]),
    "ashlar_pool_create": (ctypes.c_int32, [_HANDLE, ctypes.POINTER(PoolOptions),
                                            ctypes.POINTER(Pool)]),
    "ashlar_pool_release": (ctypes.c_int32, [_HANDLE, Pool]),
    "ashlar_pool_begin": (ctypes.c_int32, [_HANDLE, Pool, ctypes.c_void_p, ctypes.c_void_p]),
    "ashlar_pool_end": (ctypes.c_int32, [_HANDLE, Pool]),
    "ashlar_pause": (ctypes.c_int32, [_HANDLE, ctypes.c_char_p, ctypes.c_int32]),
    "ashlar_resume": (ctypes.c_int32, [_HANDLE, ctypes.c_char_p]),
    "ashlar_annotate_memory": (ctypes.c_int32, [_HANDLE, ctypes.c_void_p, ctypes.c_char_p]),
    "ashlar_set_user_metadata": (ctypes.c_int32, [ctypes.c_char_p]),
    "ashlar_user_metadata": (ctypes.c_int32, [ctypes.POINTER(_HANDLE)]),
    "ashlar_push_compile_context": (ctypes.c_int32, [ctypes.c_char_p]),
    "ashlar_pop_compile_context": (None, []),
    "ashlar_visit_stack": (ctypes.c_int32, [_HANDLE, ctypes.c_void_p, FRAME_VISITOR,
                                            ctypes.c_void_p]),
    "ashlar_history_start": (ctypes.c_int32, [_HANDLE, ctypes.POINTER(HistoryOptions)]),
    "ashlar_history_stop": (ctypes.c_int32, [_HANDLE]),
    "ashlar_snapshot": (ctypes.c_int32, [_HANDLE, ctypes.c_int32, ctypes.POINTER(_HANDLE)]),
    "ashlar_save_snapshot": (ctypes.c_int32, [_HANDLE, ctypes.c_char_p]),
    "ashlar_allocator_options": (ctypes.c_int32, [_HANDLE, ctypes.POINTER(_HANDLE)]),
    "ashlar_live_server_start": (ctypes.c_int32, [ctypes.POINTER(LiveServerOptions),
                                                  ctypes.POINTER(_HANDLE)]),
    "ashlar_live_server_url": (ctypes.c_int32, [_HANDLE, ctypes.POINTER(_HANDLE)]),
    "ashlar_live_server_stop": (None, [_HANDLE]),
    "ashlar_bytes_data": (ctypes.c_void_p, [_HANDLE]),
    "ashlar_bytes_size": (ctypes.c_size_t, [_HANDLE]),
    "ashlar_bytes_destroy": (None, [_HANDLE]),
}


def candidates() -> Iterator[pathlib.Path]:
    """Yields possible paths of the library, in order of preference: in the package, in the build
    folder of a checkout, and in the installation prefix."""
    here = pathlib.Path(__file__).resolve().parent
    yield here / NAME
    checkout = here.parent.parent
    yield checkout / "build" / "release" / "lib" / NAME
    for prefix in here.parents[2:5]:  # <prefix>/share/ashlar/python/ashlar
        for folder in ("lib", "lib64"):
            yield prefix / folder / NAME
        yield from sorted((prefix / "lib").glob("*-linux-gnu/" + NAME))


def path() -> str:
    """Returns the path of the library, or its bare name, which the dynamic loader searches for."""
    named = os.environ.get("ASHLAR_TORCH_LIBRARY")
    if named:
        if not pathlib.Path(named).is_file():
            raise AshlarError(f"ASHLAR_TORCH_LIBRARY: file not found: {named}")
        return named
    return next((str(each) for each in candidates() if each.is_file()), NAME)


class Library(ctypes.CDLL):
    """The loaded library."""

    path: str  # or its bare name, which the dynamic loader searched for


@functools.lru_cache(maxsize=None)
def load() -> Library:
    """Loads the library once, and declares the signatures of its functions."""
    where = path()
    try:
        library = Library(where)
    except OSError as failure:
        raise AshlarError(
            f"{NAME} cannot be loaded: {failure}. Build it with scripts/build, or set "
            "ASHLAR_TORCH_LIBRARY to its path") from failure
    library.path = where
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    found = library.ashlar_c_version()
    if found >> 16 != C_VERSION_MAJOR:
        raise AshlarError(f"{where} has version {found >> 16} of the C interface (expected "
                          f"{C_VERSION_MAJOR}); use the Python package of the same release")
    return library


def last_message() -> str:
    """Returns the error message of the last failed call on this thread."""
    message: bytes = load().ashlar_last_message()
    return message.decode("utf-8", "replace")


def check(status: int) -> None:
    """Raises the exception for a status, unless it is STATUS_OK."""
    if status == STATUS_OK:
        return
    library = load()
    failure = _EXCEPTIONS.get(status, Error)(last_message())
    failure.kind = library.ashlar_status_name(status).decode()
    failure.call = library.ashlar_last_call().decode("utf-8", "replace")
    failure.code = library.ashlar_last_code()
    raise failure


def address_of(name: str) -> int:
    """Returns the address of a library function, as PyTorch's hook setters expect it."""
    return ctypes.cast(getattr(load(), name), ctypes.c_void_p).value or 0


def take_bytes(call: Callable[..., int], *arguments: Any) -> bytes:
    """Calls a library function that returns a handle to bytes. Returns a copy of the bytes, and
    destroys the handle."""
    handle = _HANDLE()
    check(call(*arguments, ctypes.byref(handle)))
    try:
        library = load()
        return ctypes.string_at(library.ashlar_bytes_data(handle),
                                library.ashlar_bytes_size(handle))
    finally:
        load().ashlar_bytes_destroy(handle)
