# SPDX-License-Identifier: Apache-2.0
"""Tests ashlar.symm with several processes, which join through a stand-in for a store of
torch.distributed."""

import contextlib
import ctypes
import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import ashlar
import symm_ranks
from ashlar import symm
from ashlar.symm import _arrays, _stores


def run_ranks(program, world_size):
    """Runs a program of symm_ranks.py on all ranks. Returns the keys that are left in the store."""
    store, port = symm_ranks.serve()
    ranks = [subprocess.Popen([sys.executable, symm_ranks.__file__, program, str(rank),
                               str(world_size), str(port)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
             for rank in range(world_size)]
    outputs = [rank.communicate(timeout=200)[0] for rank in ranks]
    for rank, output in enumerate(outputs):
        assert ranks[rank].returncode == 0, f"rank {rank}: {output}"
    return outputs, store.live()


@pytest.fixture
def group():
    """A group of one rank."""
    store = symm_ranks.KeyValues()
    joined = symm.Group.join(symm.Heap(), store, 0, 1, timeout_s=60)
    joined.test_store = store
    yield joined
    joined.leave(60)


@pytest.mark.parametrize("world_size", [2, 3])
def test_all_operations(world_size):
    outputs, left = run_ranks("operations", world_size)
    assert outputs == ["done\n"] * world_size
    assert left == []


@pytest.mark.skipif("ASHLAR_CUDA_DRIVER" not in os.environ, reason="no stand-in for the driver")
def test_memory_of_a_gpu():
    outputs, left = run_ranks("device", 2)
    assert outputs == ["done\n"] * 2
    assert left == []


def test_joins_process_groups():
    outputs, left = run_ranks("process_group", 3)
    assert outputs == ["done\n"] * 3
    assert left == []


def test_lost_rank_fails_the_group():
    outputs, _ = run_ranks("lost_rank", 2)
    assert outputs == ["done\n", ""]


def test_interpreter_ends_during_heartbeats():
    outputs, _ = run_ranks("end_without_leaving", 2)
    assert outputs == ["done\n"] * 2


def test_exception_of_the_store_is_the_cause():
    class Broken(symm_ranks.KeyValues):
        def set(self, key, value):
            raise ConnectionResetError("the server is gone")

    with pytest.raises(ashlar.DeviceError, match="the program's store") as raised:
        symm.Group.join(symm.Heap(), Broken(), 0, 1, timeout_s=60)
    assert isinstance(raised.value.__cause__, ConnectionResetError)


def test_store_can_be_collected_in_its_own_function():
    """Closing waits for the functions of the store, so it must not wait in one of them."""
    class Collected(symm_ranks.KeyValues):
        def set(self, key, value):
            store._finalizer()
            super().set(key, value)

    store = symm.Store.from_torch(Collected())
    with contextlib.suppress(ashlar.DeviceError):  # the store may be closed before the end
        symm.Group.join(symm.Heap(), store, 0, 1, timeout_s=60)
    assert not store._finalizer.alive


def test_adapter_follows_the_rules_of_stores():
    values = symm_ranks.KeyValues()
    adapter = _stores.TorchAdapter(values)
    assert adapter._value_of(b"a") is None
    adapter._set(None, b"a", None, 0, 0, 0)
    assert adapter._value_of(b"a") == b""
    number = ctypes.c_int64()
    for _ in range(2):
        adapter._add(None, b"n", 3, 0, 0, ctypes.pointer(number))
    assert (number.value, adapter._value_of(b"n")) == (6, b"6")
    existed = ctypes.c_int32()
    for key, expected in ((b"a", 1), (b"a", 0), (b"n", 1), (b"none", 0)):
        assert adapter._erase(None, key, 0, ctypes.pointer(existed)) == 0
        assert existed.value == expected
    assert adapter._value_of(b"a") is None and adapter._value_of(b"n") is None
    assert values.live() == []


def test_folder_store(tmp_path):
    store = symm.Store.open_folder(tmp_path / "store")
    group = symm.Group.join(symm.Heap(), store, 0, 1, timeout_s=60)
    assert (group.rank, store.failure) == (0, None)
    group.leave(60)


def test_tcp_store():
    served, port = symm.Store.host_tcp("127.0.0.1", 0, "a-token-for-this-test")
    store = symm.Store.open_tcp("127.0.0.1", port, "a-token-for-this-test", 60)
    group = symm.Group.join(symm.Heap(), store, 0, 1, timeout_s=60)
    group.leave(60)
    del served
    with pytest.raises(ashlar.InvalidArgument):
        symm.Store.open_tcp("127.0.0.1", port, "short", 60)


def test_views_keep_the_memory(group):
    view = group.heap.allocate(64).view("int32", (2, 4), 32)
    assert (view.dtype, view.shape, view.nbytes) == ("int32", (2, 4), 32)
    array = view.numpy()
    array[:] = 5
    del view
    gc.collect()
    assert array.sum() == 40
    assert "int32, shape (2, 4), host" in repr(group.heap.allocate(32).view("int32", (2, 4)))


def test_dlpack(group):
    buffer = group.heap.allocate(64)
    view = buffer.view("float64")
    array = np.from_dlpack(view)
    array_of_buffer = view.numpy()
    array_of_buffer[3] = 2.5
    assert array[3] == 2.5
    assert view.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        view.__dlpack__(copy=True)


def test_views_of_gpus_have_the_cuda_interface():
    view = _arrays.make_view(None, (4096, 64), "cuda:1", "bfloat16", (4, 2), 16)
    interface = view.__cuda_array_interface__
    assert interface["data"] == (4112, False)
    assert (interface["shape"], interface["typestr"]) == ((4, 2), "<u2")
    assert view.__dlpack_device__() == (2, 1)
    assert not hasattr(view, "__array_interface__")
    with pytest.raises(ashlar.InvalidArgument, match="cuda:1"):
        view.numpy()
    host = _arrays.make_view(None, (4096, 64), None, "uint8", None, 0)
    assert not hasattr(host, "__cuda_array_interface__")


class FakeTensor:
    """The part of torch.Tensor that ashlar.symm uses."""

    def __init__(self, array):
        self.array = array
        self.dtype = f"torch.{array.dtype}"

    def data_ptr(self):
        return self.array.ctypes.data

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    def is_contiguous(self):
        return self.array.flags.c_contiguous


def test_tensors_are_accepted(group):
    array = group.heap.allocate(64).view("float32").numpy()
    array[:] = 3
    handle = group.rendezvous(FakeTensor(array), 60)
    out = FakeTensor(np.zeros(16, np.float32))
    handle.all_reduce(FakeTensor(array), out=out, timeout_s=60)
    assert out.array.tolist() == [3] * 16
    with pytest.raises(ashlar.InvalidArgument, match="not contiguous"):
        handle.all_reduce(FakeTensor(array[::2]))


@pytest.mark.parametrize("arguments, message", [
    ({"dtype": "complex64"}, "complex64"),
    ({"dtype": "int32", "offset": 2}, "multiple of 4"),
    ({"offset": -4}, "-4"),
    ({"shape": 65}, "65 bytes"),
    ({"shape": (-1,)}, "negative"),
])
def test_invalid_views_are_rejected(group, arguments, message):
    with pytest.raises(ashlar.InvalidArgument, match=message):
        group.heap.allocate(64).view(**arguments)


def test_invalid_arrays_are_rejected(group):
    buffer = group.heap.allocate(64)
    handle = group.rendezvous(buffer, 60)
    own = buffer.view("float32").numpy()
    read_only = np.frombuffer(bytes(64), np.float32)
    for call, message in (
            (lambda: handle.all_reduce(np.zeros(4, np.float32)), "not in this rank's memory"),
            (lambda: handle.all_reduce(own[::2]), "not contiguous"),
            (lambda: handle.all_reduce(own, out=read_only), "read-only"),
            (lambda: handle.all_reduce(own, out=np.zeros(3)), "24 bytes"),
            (lambda: handle.all_reduce(own, "mean"), "mean"),
            (lambda: handle.get(0, b"bytes"), "read-only"),
            (lambda: handle.put(0, object()), "not an array"),
            (lambda: handle.put(0, bytes(65)), "."),
            (lambda: handle.put(7, bytes(4)), "rank"),
            (lambda: handle.all_gather(np.zeros(3, np.float32), own), "12 bytes"),
            (lambda: symm.Heap("tpu:0"), "tpu:0")):
        with pytest.raises(ashlar.InvalidArgument, match=message):
            call()
    with pytest.raises(ValueError, match="-1"):
        handle.barrier(timeout_s=-1)


def test_heap_of_a_device():
    heap = symm.Heap("sim:0")
    view = heap.allocate(4096).view("float32")
    assert view.device == "sim:0"
    with pytest.raises(ashlar.InvalidArgument, match="sim:0"):
        view.numpy()

