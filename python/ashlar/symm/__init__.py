# SPDX-License-Identifier: Apache-2.0
"""Symmetric memory: every rank allocates the same buffers, and ranks read and write each other's
memory, signal, wait and reduce. docs/how-to/symmetric_python.md shows how to use it.

    from ashlar import symm
    heap = symm.Heap()                                   # or symm.Heap("cuda:0")
    group = symm.Group.from_process_group(heap)          # the ranks of torch.distributed
    buffer = heap.allocate(4096)
    handle = group.rendezvous(buffer)
    handle.all_reduce(buffer.view("float32"))            # in place
    group.leave()

Collective calls must be made by all ranks of the group in the same order. A time limit of 0 means
no limit; Ctrl-C does not interrupt calls. Needs libashlar_torch.so, and numpy for host memory."""

import ctypes
import importlib
import re
import weakref
from typing import Any, Optional, Sequence, Tuple

from ashlar import _library
from ashlar.errors import InvalidArgument
from ashlar.symm import _functions
from ashlar.symm._arrays import Memory, Shape, View, element_type, make_view, memory_of
from ashlar.symm._functions import call, destroy, make, milliseconds
from ashlar.symm._stores import Store

__all__ = ["Buffer", "Group", "Handle", "Heap", "Store", "View"]

_OPERATIONS = ("sum", "min", "max", "prod", "avg", "and", "or", "xor")  # values of ashlar_symm_op


class Heap:
    """The symmetric memory of this rank: of the host, or of a device such as "cuda:0" or a
    torch.device. `pad_bytes` is the size of the signal pad of each buffer. A rank without a
    heartbeat for `lease_s` counts as lost. The options must be the same on all ranks."""

    def __init__(self, device: Any = None, *, pad_bytes: int = 0, heartbeat_s: float = 0.0,
                 lease_s: float = 0.0) -> None:
        self.device = None if device is None else _device_name(device)
        opened = ctypes.c_void_p()
        if self.device is not None:
            backend, _, index = self.device.partition(":")
            _library.check(_functions.library().ashlar_device_open(
                backend.encode(), int(index), ctypes.byref(opened)))
        options = _functions.options(
            _functions.HeapOptions, device=opened.value, pad_bytes=pad_bytes,
            heartbeat_ms=milliseconds(heartbeat_s), lease_ms=milliseconds(lease_s))
        self._handle = make("heap_create", ctypes.byref(options))
        weakref.finalize(self, destroy, "heap", self._handle).atexit = False

    def allocate(self, size: int) -> "Buffer":
        """Allocates this rank's buffer. All ranks make the same allocations in the same order."""
        return Buffer(self, size)


def _device_name(device: Any) -> str:
    """Returns "cuda:0" for a name or a torch.device."""
    text = str(device)
    match = re.fullmatch(r"(sim|cuda|hip)(?::(\d{1,4}))?", text)
    if match is None:
        raise InvalidArgument(f'device {text!r} (expected a name such as "cuda:0")')
    backend, index = match.group(1), match.group(2)
    if backend == "cuda" and not isinstance(device, str):
        torch = importlib.import_module("torch")
        backend = "hip" if getattr(torch.version, "hip", None) else "cuda"
        index = index or str(torch.cuda.current_device())
    return f"{backend}:{index or 0}"


class Buffer:
    """This rank's part of a symmetric allocation, which is freed with its last reference. Views and
    handles keep it."""

    def __init__(self, heap: Heap, size: int) -> None:
        self.heap = heap
        self.size = size
        self._handle = make("buffer_allocate", heap._handle, size)
        self.address: int = _functions.library().ashlar_symm_buffer_data(self._handle) or 0
        weakref.finalize(self, destroy, "buffer", self._handle).atexit = False

    def view(self, dtype: Any = "uint8", shape: Shape = None, offset: int = 0) -> View:
        """Returns an array of this rank's memory from `offset`, in bytes; default: all of it."""
        return make_view(self, (self.address, self.size), self.heap.device, dtype, shape, offset)


class Group:
    """A group of ranks. Join one with join(), from_environment() or from_process_group()."""

    def __init__(self, heap: Heap, handle: int, store: Optional[Store] = None) -> None:
        self.heap = heap
        self._handle = handle
        self._store = store  # must live as long as the group
        weakref.finalize(self, destroy, "group", handle)  # at exit, too: ends the heartbeats

    @classmethod
    def join(cls, heap: Heap, store: Any, rank: int, world_size: int, *, name: str = "world",
             job: str = "job", timeout_s: float = 0.0, channel_count: int = 0,
             may_share_device: bool = False) -> "Group":
        """Joins a group through a Store or a store of torch.distributed. `name` separates groups,
        and `job` separates jobs that share a store. Collective."""
        opened = store if isinstance(store, Store) else Store.from_torch(store)
        options = _functions.options(
            _functions.GroupOptions, rank=rank, world_size=world_size, name=name.encode(),
            job=job.encode(), timeout_ms=milliseconds(timeout_s), channel_count=channel_count,
            may_share_device=may_share_device)
        try:
            handle = make("group_join", heap._handle, opened._handle, ctypes.byref(options))
        except Exception as failure:
            raise failure from opened.failure
        return cls(heap, handle, opened)

    @classmethod
    def from_environment(cls, heap: Heap, *, name: str = "world",
                         timeout_s: float = 0.0) -> "Group":
        """Joins the group of all ranks that `ashlar run`, mpirun or another launcher started
        (docs/how-to/symmetric_launch.md)."""
        options = _functions.options(_functions.GroupOptions, name=name.encode(),
                                     timeout_ms=milliseconds(timeout_s))
        return cls(heap, make("group_join_from_environment", heap._handle,
                              ctypes.byref(options)))

    @classmethod
    def from_process_group(cls, heap: Heap, group: Any = None, *, name: str = "",
                           timeout_s: float = 0.0, may_share_device: bool = False) -> "Group":
        """Joins a group of the ranks of a process group of torch.distributed, through its store;
        default: all ranks. Groups of the same ranks need different names."""
        distributed = importlib.import_module("torch.distributed")
        c10d = importlib.import_module("torch.distributed.distributed_c10d")
        ranks = distributed.get_process_group_ranks(group)
        if not name:
            name = "pg-" + "-".join(map(str, ranks)) if group is not None else "world"
            if len(name) > 100:  # a part of a key is limited to 200 characters
                name = f"pg-{ranks[0]}-{ranks[-1]}-{len(ranks)}-{_digest(name)}"
        return cls.join(heap, c10d._get_default_store(), distributed.get_rank(group), len(ranks),
                        name=name, job="torch", timeout_s=timeout_s,
                        may_share_device=may_share_device)

    def sub_group(self, name: str, ranks: Sequence[int], timeout_s: float = 0.0) -> "Group":
        """Makes a group of some ranks of this group. Collective among these ranks."""
        numbers = (ctypes.c_int32 * len(ranks))(*ranks)
        handle = make("group_sub_group", self._handle, name.encode(), numbers, len(ranks),
                      milliseconds(timeout_s))
        return Group(self.heap, handle, self._store)

    @property
    def rank(self) -> int:
        """This rank's number."""
        return int(_functions.library().ashlar_symm_group_rank(self._handle))

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return int(_functions.library().ashlar_symm_group_world_size(self._handle))

    def check(self) -> None:
        """Raises the error with which the group has failed, if it has failed."""
        call("group_failure", self._handle)

    def rendezvous(self, memory: Any, timeout_s: float = 0.0) -> "Handle":
        """Returns a handle to all ranks' memory that corresponds to a Buffer, a View, or a tensor
        or array in a buffer. The first call for a buffer is collective."""
        if isinstance(memory, Buffer):
            place = Memory(memory.address, memory.size, None, memory)
        else:
            place = memory_of(memory)
        handle = make("group_rendezvous", self._handle, place.address, milliseconds(timeout_s))
        return Handle(self, handle, place)

    def finish(self, stream: Any) -> None:
        """Waits for a stream in which work of the group is queued, and raises its error."""
        call("group_finish", self._handle, _stream_handle(stream))

    def leave(self, timeout_s: float = 0.0) -> None:
        """Leaves the group. Collective. A rank that ends without it makes the group fail for the
        others."""
        call("group_leave", self._handle, milliseconds(timeout_s))


def _digest(text: str) -> str:
    return str(importlib.import_module("hashlib").sha256(text.encode()).hexdigest()[:32])


def _stream_handle(stream: Any) -> int:
    """Returns the driver's handle of a stream of PyTorch or CuPy, or of an integer."""
    for name in ("cuda_stream", "ptr", "handle"):
        found = getattr(stream, name, None)
        if isinstance(found, int):
            return found
    return int(stream)


def _signal(channel: int, timeout_s: float, stream: Any) -> Any:
    options = _functions.options(_functions.SignalOptions, channel=channel,
                                 timeout_ms=milliseconds(timeout_s))
    if stream is not None:
        options.stream = ctypes.pointer(ctypes.c_void_p(_stream_handle(stream)))
    return ctypes.byref(options)


class Handle:
    """All ranks' memory of one allocation, from the address of the rendezvous on. Offsets are in
    bytes, relative to that address. Arrays of other libraries can be sources and destinations;
    collectives work on arrays in this rank's part, at the same offset on all ranks. With a `stream`
    of the heap's device, an operation is queued; otherwise the call returns when it is done."""

    def __init__(self, group: Group, handle: int, memory: Memory) -> None:
        self.group = group
        self._handle = handle
        self._memory = memory  # this rank's part
        weakref.finalize(self, destroy, "handle", handle).atexit = False

    def view(self, rank: int, dtype: Any = "uint8", shape: Shape = None, offset: int = 0) -> View:
        """Returns an array of a rank's memory. Raises InvalidArgument if the rank is on another
        machine."""
        address = make("view", self._handle, rank)
        return make_view(self, (address, self._memory.nbytes), self.group.heap.device, dtype, shape,
                         offset)

    def signal_pad(self, rank: int, dtype: Any = "uint32") -> View:
        """Returns the signal pad of a rank, which is reserved for the program."""
        pad, size = ctypes.c_void_p(), ctypes.c_size_t()
        call("signal_pad", self._handle, rank, ctypes.byref(pad), ctypes.byref(size))
        return make_view(self, (pad.value or 0, size.value), self.group.heap.device, dtype, None, 0)

    # Copies.

    def put(self, rank: int, source: Any, offset: int = 0) -> None:
        """Copies an array to a rank's memory. The bytes have arrived when the call returns."""
        memory = memory_of(source)
        call("put", self._handle, rank, memory.address, memory.nbytes, offset)

    def get(self, rank: int, destination: Any, offset: int = 0) -> None:
        """Fills an array with a rank's memory."""
        memory = memory_of(destination, is_written=True)
        call("get", self._handle, rank, memory.address, memory.nbytes, offset)

    def post(self, rank: int, source: Any, offset: int = 0) -> None:
        """Like put, but the bytes have arrived only after quiet()."""
        memory = memory_of(source)
        call("post", self._handle, rank, memory.address, memory.nbytes, offset)

    def fence(self) -> None:
        """Orders earlier posts of this process before its later operations."""
        call("fence", self._handle)

    def quiet(self) -> None:
        """Waits until all earlier posts of this process have arrived."""
        call("quiet", self._handle)

    # Signals, between pairs of ranks, on one of several channels.

    def barrier(self, channel: int = 0, timeout_s: float = 0.0, stream: Any = None) -> None:
        """Waits until all ranks have called barrier on the channel."""
        call("barrier", self._handle, _signal(channel, timeout_s, stream))

    def put_signal(self, rank: int, channel: int = 0, timeout_s: float = 0.0,
                   stream: Any = None) -> None:
        """Sends a signal to a rank, after the previous one on the channel has been consumed."""
        call("put_signal", self._handle, rank, _signal(channel, timeout_s, stream))

    def wait_signal(self, rank: int, channel: int = 0, timeout_s: float = 0.0,
                    stream: Any = None) -> None:
        """Waits for a signal from a rank, and consumes it."""
        call("wait_signal", self._handle, rank, _signal(channel, timeout_s, stream))

    def add_signal(self, rank: int, amount: int = 1, channel: int = 0, stream: Any = None) -> None:
        """Adds to this rank's counter at a rank."""
        call("add_signal", self._handle, rank, amount, _signal(channel, 0.0, stream))

    def wait_for_value(self, rank: int, value: int, channel: int = 0, timeout_s: float = 0.0,
                       stream: Any = None) -> None:
        """Waits until the counter that a rank adds to is at least `value`."""
        call("wait_for_value", self._handle, rank, value, _signal(channel, timeout_s, stream))

    def counter_value(self, rank: int, channel: int = 0) -> int:
        """Returns the counter that a rank adds to."""
        value = ctypes.c_uint64()
        call("counter_value", self._handle, rank, channel, ctypes.byref(value))
        return value.value

    # Collectives. `dtype` replaces the array's element type, for example for bfloat16 in numpy.

    def all_reduce(self, array: Any, op: str = "sum", *, dtype: Any = None, out: Any = None,
                   timeout_s: float = 0.0, stream: Any = None) -> None:
        """Combines the arrays of all ranks, in place or into `out`."""
        memory = self._own(array)
        count, reduction = _reduction(memory, op, dtype)
        options = self._collective(memory, out, memory.nbytes, timeout_s, stream)
        call("all_reduce", self._handle, count, *reduction, options)

    def reduce(self, array: Any, root: int, op: str = "sum", *, dtype: Any = None, out: Any = None,
               timeout_s: float = 0.0, stream: Any = None) -> None:
        """Combines the arrays of all ranks into `out` of the root."""
        memory = self._own(array)
        count, reduction = _reduction(memory, op, dtype)
        used = out if self.group.rank == root else None
        options = self._collective(memory, used, memory.nbytes, timeout_s, stream)
        call("reduce", self._handle, count, root, *reduction, options)

    def reduce_scatter(self, array: Any, out: Any, op: str = "sum", *, dtype: Any = None,
                       timeout_s: float = 0.0, stream: Any = None) -> None:
        """Combines the arrays of all ranks, and puts this rank's part of the result into `out`."""
        memory = self._own(array)
        count, reduction = _reduction(memory, op, dtype)
        part = self._part(memory.nbytes, count)
        options = self._collective(memory, out, part, timeout_s, stream)
        call("reduce_scatter", self._handle, count // self.group.world_size, *reduction, options)

    def all_gather(self, source: Any, array: Any, *, timeout_s: float = 0.0,
                   stream: Any = None) -> None:
        """Gathers `source` of all ranks, in rank order, into `array`."""
        memory, given = self._own(array), memory_of(source)
        if given.nbytes * self.group.world_size != memory.nbytes:
            raise InvalidArgument(f"{given.nbytes} bytes of each of {self.group.world_size} ranks "
                                  f"into {memory.nbytes} bytes")
        options = self._collective(memory, None, 0, timeout_s, stream)
        call("all_gather", self._handle, given.address, given.nbytes, options)

    def broadcast(self, array: Any, root: int, *, timeout_s: float = 0.0,
                  stream: Any = None) -> None:
        """Copies the root's array to all ranks."""
        memory = self._own(array)
        options = self._collective(memory, None, 0, timeout_s, stream)
        call("broadcast", self._handle, memory.nbytes, root, options)

    def all_to_all(self, array: Any, out: Any, *, timeout_s: float = 0.0,
                   stream: Any = None) -> None:
        """Sends one part of the array to each rank. `out` gets one part from each rank."""
        memory = self._own(array)
        part = self._part(memory.nbytes, memory.nbytes)
        options = self._collective(memory, out, memory.nbytes, timeout_s, stream)
        call("all_to_all", self._handle, part, options)

    def _own(self, array: Any) -> Memory:
        """Returns the memory of an array, which must be in this rank's part."""
        memory = memory_of(array, is_written=True)
        begin, end = self._memory.address, self._memory.address + self._memory.nbytes
        if memory.address < begin or memory.address + memory.nbytes > end:
            raise InvalidArgument("the array is not in this rank's memory of the handle")
        return memory

    def _part(self, nbytes: int, count: int) -> int:
        """Returns the size of each rank's part of an array with `count` elements."""
        if count % self.group.world_size != 0:
            raise InvalidArgument(f"{count} elements for {self.group.world_size} ranks (expected "
                                  "a multiple)")
        return nbytes // self.group.world_size

    def _collective(self, memory: Memory, out: Any, out_bytes: int, timeout_s: float,
                    stream: Any) -> Any:
        options = _functions.options(
            _functions.CollectiveOptions, offset_bytes=memory.address - self._memory.address,
            timeout_ms=milliseconds(timeout_s))
        if out is not None:
            destination = memory_of(out, is_written=True)
            if destination.nbytes != out_bytes:
                raise InvalidArgument(f"out has {destination.nbytes} bytes (expected {out_bytes})")
            options.out = destination.address
        if stream is not None:
            options.stream = ctypes.pointer(ctypes.c_void_p(_stream_handle(stream)))
        return ctypes.byref(options)


def _reduction(memory: Memory, op: str, dtype: Any) -> Tuple[int, Tuple[int, int]]:
    """Returns the number of elements, and the values of ashlar_symm_type and ashlar_symm_op."""
    kind = memory.dtype if dtype is None else element_type(dtype)
    if kind is None:
        raise InvalidArgument("the array's element type is not supported (expected `dtype`)")
    if op not in _OPERATIONS:
        raise InvalidArgument(f"operation {op!r} (expected one of {', '.join(_OPERATIONS)})")
    if memory.nbytes % kind.size != 0:
        raise InvalidArgument(f"{memory.nbytes} bytes of elements of {kind.size} bytes")
    return memory.nbytes // kind.size, (kind.code, _OPERATIONS.index(op))
