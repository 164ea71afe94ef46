# SPDX-License-Identifier: Apache-2.0
"""The functions and structs of include/ashlar/c/symm.h, through ctypes."""

import ctypes
import functools
from typing import Any, Type

from ashlar import _library

_HANDLE = ctypes.c_void_p
_INT32, _INT64, _SIZE = ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t

RECEIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _SIZE, ctypes.c_char_p, _SIZE)
STORE_SET = ctypes.CFUNCTYPE(_INT32, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, _SIZE,
                             _INT64, _INT64)
STORE_TRY_GET = ctypes.CFUNCTYPE(_INT32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p), _SIZE,
                                 _INT64, RECEIVE, ctypes.c_void_p)
STORE_ADD = ctypes.CFUNCTYPE(_INT32, ctypes.c_void_p, ctypes.c_char_p, _INT64, _INT64, _INT64,
                             ctypes.POINTER(_INT64))
STORE_ERASE = ctypes.CFUNCTYPE(_INT32, ctypes.c_void_p, ctypes.c_char_p, _INT64,
                               ctypes.POINTER(_INT32))


class StoreFunctions(ctypes.Structure):
    """The struct ashlar_symm_store_functions."""

    _fields_ = [("struct_size", _SIZE), ("context", ctypes.c_void_p), ("set", STORE_SET),
                ("try_get", STORE_TRY_GET), ("add", STORE_ADD), ("erase", STORE_ERASE)]


class HeapOptions(ctypes.Structure):
    """The struct ashlar_symm_heap_options."""

    _fields_ = [("struct_size", _SIZE), ("device", _HANDLE), ("pad_bytes", _SIZE),
                ("heartbeat_ms", _INT64), ("lease_ms", _INT64)]


class GroupOptions(ctypes.Structure):
    """The struct ashlar_symm_group_options."""

    _fields_ = [("struct_size", _SIZE), ("rank", _INT32), ("world_size", _INT32),
                ("name", ctypes.c_char_p), ("job", ctypes.c_char_p), ("channel_count", _INT32),
                ("skip_measurement", _INT32), ("timeout_ms", _INT64), ("one_shot_bytes", _SIZE),
                ("may_share_device", _INT32)]


class SignalOptions(ctypes.Structure):
    """The struct ashlar_symm_signal_options."""

    _fields_ = [("struct_size", _SIZE), ("channel", _INT32), ("timeout_ms", _INT64),
                ("stream", ctypes.POINTER(ctypes.c_void_p))]


class CollectiveOptions(ctypes.Structure):
    """The struct ashlar_symm_collective_options."""

    _fields_ = [("struct_size", _SIZE), ("offset_bytes", _INT64), ("out", ctypes.c_void_p),
                ("timeout_ms", _INT64), ("stream", ctypes.POINTER(ctypes.c_void_p))]


_SIGNAL = ctypes.POINTER(SignalOptions)
_COLLECTIVE = ctypes.POINTER(CollectiveOptions)
_OUT = ctypes.POINTER(_HANDLE)
# The parameters of each function. All return a status, except those in _RESULTS.
_PARAMETERS = {
    "ashlar_device_open": [ctypes.c_char_p, _SIZE, _OUT],
    "ashlar_symm_store_open_folder": [ctypes.c_char_p, _OUT],
    "ashlar_symm_store_open_tcp": [ctypes.c_char_p, ctypes.c_uint16, ctypes.c_char_p, _INT64,
                                   _OUT],
    "ashlar_symm_store_host_tcp": [ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint16),
                                   ctypes.c_char_p, _OUT],
    "ashlar_symm_store_create": [ctypes.POINTER(StoreFunctions), _OUT],
    "ashlar_symm_store_close": [_HANDLE],
    "ashlar_symm_store_destroy": [_HANDLE],
    "ashlar_symm_heap_create": [ctypes.POINTER(HeapOptions), _OUT],
    "ashlar_symm_heap_destroy": [_HANDLE],
    "ashlar_symm_buffer_allocate": [_HANDLE, _SIZE, _OUT],
    "ashlar_symm_buffer_data": [_HANDLE],
    "ashlar_symm_buffer_destroy": [_HANDLE],
    "ashlar_symm_group_join": [_HANDLE, _HANDLE, ctypes.POINTER(GroupOptions), _OUT],
    "ashlar_symm_group_join_from_environment": [_HANDLE, ctypes.POINTER(GroupOptions), _OUT],
    "ashlar_symm_group_sub_group": [_HANDLE, ctypes.c_char_p, ctypes.POINTER(_INT32), _SIZE,
                                    _INT64, _OUT],
    "ashlar_symm_group_rank": [_HANDLE],
    "ashlar_symm_group_world_size": [_HANDLE],
    "ashlar_symm_group_failure": [_HANDLE],
    "ashlar_symm_group_rendezvous": [_HANDLE, ctypes.c_void_p, _INT64, _OUT],
    "ashlar_symm_group_finish": [_HANDLE, ctypes.c_void_p],
    "ashlar_symm_group_leave": [_HANDLE, _INT64],
    "ashlar_symm_group_destroy": [_HANDLE],
    "ashlar_symm_handle_destroy": [_HANDLE],
    "ashlar_symm_view": [_HANDLE, _INT32, _OUT],
    "ashlar_symm_signal_pad": [_HANDLE, _INT32, _OUT, ctypes.POINTER(_SIZE)],
    "ashlar_symm_put": [_HANDLE, _INT32, ctypes.c_void_p, _SIZE, _INT64],
    "ashlar_symm_get": [_HANDLE, _INT32, ctypes.c_void_p, _SIZE, _INT64],
    "ashlar_symm_post": [_HANDLE, _INT32, ctypes.c_void_p, _SIZE, _INT64],
    "ashlar_symm_fence": [_HANDLE],
    "ashlar_symm_quiet": [_HANDLE],
    "ashlar_symm_barrier": [_HANDLE, _SIGNAL],
    "ashlar_symm_put_signal": [_HANDLE, _INT32, _SIGNAL],
    "ashlar_symm_wait_signal": [_HANDLE, _INT32, _SIGNAL],
    "ashlar_symm_add_signal": [_HANDLE, _INT32, ctypes.c_uint64, _SIGNAL],
    "ashlar_symm_wait_for_value": [_HANDLE, _INT32, ctypes.c_uint64, _SIGNAL],
    "ashlar_symm_counter_value": [_HANDLE, _INT32, _INT32, ctypes.POINTER(ctypes.c_uint64)],
    "ashlar_symm_all_reduce": [_HANDLE, _INT64, _INT32, _INT32, _COLLECTIVE],
    "ashlar_symm_reduce": [_HANDLE, _INT64, _INT32, _INT32, _INT32, _COLLECTIVE],
    "ashlar_symm_reduce_scatter": [_HANDLE, _INT64, _INT32, _INT32, _COLLECTIVE],
    "ashlar_symm_all_gather": [_HANDLE, ctypes.c_void_p, _INT64, _COLLECTIVE],
    "ashlar_symm_broadcast": [_HANDLE, _INT64, _INT32, _COLLECTIVE],
    "ashlar_symm_all_to_all": [_HANDLE, _INT64, _COLLECTIVE],
}
_RESULTS = {
    "ashlar_symm_store_close": None, "ashlar_symm_store_destroy": None,
    "ashlar_symm_heap_destroy": None, "ashlar_symm_buffer_destroy": None,
    "ashlar_symm_group_destroy": None, "ashlar_symm_handle_destroy": None,
    "ashlar_symm_buffer_data": ctypes.c_void_p,
}


@functools.lru_cache(maxsize=None)
def library() -> _library.Library:
    """Returns the library, with the functions of symm.h declared."""
    loaded = _library.load()
    for name, parameters in _PARAMETERS.items():
        function = getattr(loaded, name)
        function.argtypes = parameters
        function.restype = _RESULTS.get(name, ctypes.c_int32)
    return loaded


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status. Raises its error."""
    _library.check(getattr(library(), "ashlar_symm_" + name)(*arguments))


def make(name: str, *arguments: Any) -> int:
    """Calls a function whose last parameter gets a new object. Returns the object's handle."""
    made = _HANDLE()
    call(name, *arguments, ctypes.byref(made))
    return made.value or 0


def destroy(name: str, handle: int) -> None:
    """Destroys the object of a handle."""
    getattr(library(), f"ashlar_symm_{name}_destroy")(handle)


def options(kind: Type[ctypes.Structure], **fields: Any) -> Any:
    """Makes a struct of options."""
    return kind(struct_size=ctypes.sizeof(kind), **fields)


def milliseconds(seconds: float) -> int:
    """Converts a time in seconds; a time above 0 does not become 0, which means no limit."""
    if seconds < 0:
        raise ValueError(f"a time of {seconds} s (expected 0 or more)")
    return max(1, round(seconds * 1000)) if seconds > 0 else 0
