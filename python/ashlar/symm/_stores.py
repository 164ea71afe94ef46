# SPDX-License-Identifier: Apache-2.0
"""Stores, through which ranks find each other: Ashlar's, and torch.distributed's."""

import base64
import ctypes
import threading
import weakref
from typing import Any, Callable, Optional, Tuple

from ashlar.symm import _functions
from ashlar.symm._functions import call, destroy, make, milliseconds

_OK, _DEVICE_FAULT = 0, 4  # values of ashlar_status


class Store:
    """A key-value store that all ranks can reach. Make one with open_folder(), open_tcp(),
    host_tcp() or from_torch()."""

    def __init__(self, handle: int, adapter: Optional["TorchAdapter"] = None) -> None:
        self._handle = handle
        self._adapter = adapter
        # At exit, too: the heartbeat thread must not call Python after the interpreter's end.
        self._finalizer = weakref.finalize(self, _close, handle, adapter)

    @classmethod
    def open_folder(cls, path: str) -> "Store":
        """Opens a store in a folder that all ranks share, and that only this user can write to."""
        return cls(make("store_open_folder", str(path).encode()))

    @classmethod
    def open_tcp(cls, host: str, port: int, token: str, timeout_s: float = 0.0) -> "Store":
        """Connects to a store that another process serves with host_tcp()."""
        return cls(make("store_open_tcp", host.encode(), port, token.encode(),
                        milliseconds(timeout_s)))

    @classmethod
    def host_tcp(cls, host: str, port: int, token: str) -> Tuple["Store", int]:
        """Serves a store until this object and the groups that use it are gone. Returns it with its
        port, which the system chooses if `port` is 0. All ranks need the token."""
        used = ctypes.c_uint16(port)
        store = cls(make("store_host_tcp", host.encode(), ctypes.byref(used), token.encode()))
        return store, used.value

    @classmethod
    def from_torch(cls, store: Any) -> "Store":
        """Uses a store of torch.distributed. Ashlar's keys begin with "ashlar/". They do not
        expire, because these stores lack that; a call ends by the store's own timeout."""
        adapter = TorchAdapter(store)
        return cls(make("store_create", ctypes.byref(adapter.functions)), adapter)

    @property
    def failure(self) -> Optional[BaseException]:
        """The last exception of a store of torch.distributed."""
        return self._adapter.failure if self._adapter is not None else None


def _close(handle: int, adapter: Optional["TorchAdapter"]) -> None:
    """Destroys a store. `adapter` must live until the store is closed, because the library calls
    its functions."""
    if adapter is not None and adapter.is_calling():
        # The garbage collector runs in a function of this store, which closing would wait for.
        threading.Thread(target=_close, args=(handle, adapter), daemon=True,
                         name="ashlar.symm: close store").start()
        return
    _functions.library().ashlar_symm_store_close(handle)
    destroy("store", handle)


class TorchAdapter:
    """The functions of a store, on a store of torch.distributed.

    A value is text that begins with "v", followed by base64. Erased values become "x" instead of
    being deleted, because a read of a key that was just deleted would block. Counters have keys of
    their own; they are read by adding 0, which never blocks."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.failure: Optional[BaseException] = None
        self._thread = threading.local()
        self.functions = _functions.options(
            _functions.StoreFunctions, set=_functions.STORE_SET(self._set),
            try_get=_functions.STORE_TRY_GET(self._try_get),
            add=_functions.STORE_ADD(self._add), erase=_functions.STORE_ERASE(self._erase))

    def is_calling(self) -> bool:
        """Returns whether this thread is in one of the functions."""
        return getattr(self._thread, "is_calling", False)

    def _guarded(self, function: Callable[[], None]) -> int:
        self._thread.is_calling = True
        try:
            function()
            return _OK
        except BaseException as failure:  # reported as the cause of the failed call
            self.failure = failure
            return _DEVICE_FAULT
        finally:
            self._thread.is_calling = False

    def _value_of(self, key: bytes) -> Optional[bytes]:
        """Returns the value of a key, or None."""
        name = key.decode()
        if self.store.check([name + "/v"]):
            value = bytes(self.store.get(name + "/v"))
            if value.startswith(b"v"):
                return base64.b64decode(value[1:])
        if self.store.check([name + "/n"]):
            return b"%d" % self.store.add(name + "/n", 0)
        return None

    def _set(self, _context: Any, key: bytes, value: int, size: int, _time_to_live_ms: int,
             _timeout_ms: int) -> int:
        def run() -> None:
            data = ctypes.string_at(value, size) if size > 0 else b""
            self.store.set(key.decode() + "/v", "v" + base64.b64encode(data).decode())

        return self._guarded(run)

    def _try_get(self, _context: Any, keys: Any, count: int, _timeout_ms: int,
                 receive: Any, receiver: Any) -> int:
        def run() -> None:
            for index in range(count):
                value = self._value_of(keys[index])
                if value is not None:
                    receive(receiver, index, value, len(value))

        return self._guarded(run)

    def _add(self, _context: Any, key: bytes, amount: int, _time_to_live_ms: int,
             _timeout_ms: int, value: Any) -> int:
        def run() -> None:
            value[0] = self.store.add(key.decode() + "/n", amount)

        return self._guarded(run)

    def _erase(self, _context: Any, key: bytes, _timeout_ms: int, existed: Any) -> int:
        def run() -> None:
            name = key.decode()
            existed[0] = self._value_of(key) is not None
            if self.store.check([name + "/v"]):
                self.store.set(name + "/v", "x")
            if self.store.check([name + "/n"]):
                self.store.delete_key(name + "/n")

        return self._guarded(run)
