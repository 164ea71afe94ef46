# SPDX-License-Identifier: Apache-2.0
"""Tests the adapters for CuPy and Numba with stand-ins for their modules."""

import importlib
import sys
import types

import pytest

import ashlar
import ashlar.allocators
from conftest import live_bytes


@pytest.fixture
def shared(allocator, monkeypatch):
    """An allocator of a simulated device that all adapters use for device 0."""
    monkeypatch.setattr(ashlar.allocators, "_allocators", {})
    ashlar.allocators.set_allocator(allocator)
    return allocator


def load_adapter(monkeypatch, name, modules):
    for each, module in modules.items():
        monkeypatch.setitem(sys.modules, each, module)
    monkeypatch.delitem(sys.modules, f"ashlar.allocators.{name}", raising=False)
    return importlib.import_module(f"ashlar.allocators.{name}")


class FakeUnownedMemory:
    def __init__(self, ptr, size, owner, device_id):
        self.ptr, self.size, self.owner, self.device_id = ptr, size, owner, device_id


class FakeMemoryPointer:
    def __init__(self, memory, offset):
        self.memory, self.ptr = memory, memory.ptr + offset


def fake_cupy(stream):
    return types.SimpleNamespace(cuda=types.SimpleNamespace(
        UnownedMemory=FakeUnownedMemory, MemoryPointer=FakeMemoryPointer,
        get_current_stream=lambda: types.SimpleNamespace(ptr=stream.handle),
        runtime=types.SimpleNamespace(getDevice=lambda: 0, is_hip=False)))


def test_cupy_memory_is_ordered_by_the_current_stream(shared, monkeypatch):
    stream = ashlar.Stream(shared.device)
    adapter = load_adapter(monkeypatch, "cupy", {"cupy": fake_cupy(stream)})
    pointer = adapter.ashlar_cupy_allocator(3 << 20)
    assert pointer.ptr == pointer.memory.owner.address
    assert (pointer.memory.size, pointer.memory.device_id) == (3 << 20, 0)
    segments = shared.snapshot()["segments"]
    assert [segment["stream"] for segment in segments] == [stream.handle]
    assert live_bytes(shared) == 3 << 20
    del pointer
    assert live_bytes(shared) == 0


def test_cupy_request_of_zero_bytes_has_null_address(shared, monkeypatch):
    adapter = load_adapter(monkeypatch, "cupy", {"cupy": fake_cupy(ashlar.Stream(shared.device))})
    assert adapter.ashlar_cupy_allocator(0).ptr == 0
    assert live_bytes(shared) == 0


class FakeManager:
    """Stands in for numba.cuda.HostOnlyCUDAMemoryManager."""

    def __init__(self, context):
        self.context, self.allocations = context, {}


class FakeNumbaPointer:
    def __init__(self, context, pointer, size, finalizer):
        self.context, self.pointer, self.size, self.finalizer = context, pointer, size, finalizer


def numba_manager(monkeypatch):
    cuda = types.SimpleNamespace(
        HostOnlyCUDAMemoryManager=FakeManager, MemoryPointer=FakeNumbaPointer,
        MemoryInfo=lambda free, total: (free, total))
    numba = types.ModuleType("numba")
    numba.cuda = cuda
    adapter = load_adapter(monkeypatch, "numba", {"numba": numba})
    context = types.SimpleNamespace(device=types.SimpleNamespace(id=0))
    return adapter._numba_memory_manager(context)


def test_numba_memory_is_freed_by_its_finalizer(shared, monkeypatch):
    manager = numba_manager(monkeypatch)
    manager.initialize()
    memory = manager.memalloc(3 << 20)
    assert manager.interface_version == 1
    assert memory.size == 3 << 20
    assert memory.pointer.value == manager.allocations[memory.pointer.value].address
    assert live_bytes(shared) == 3 << 20
    memory.finalizer()
    assert live_bytes(shared) == 0
    memory.finalizer()  # no effect: a reset of the context may have dropped the buffer earlier


def test_numba_reports_memory_and_refuses_ipc(shared, monkeypatch):
    manager = numba_manager(monkeypatch)
    assert manager.get_memory_info() == (1 << 30, 1 << 30)
    with pytest.raises(NotImplementedError, match="no CUDA IPC handle"):
        manager.get_ipc_handle(manager.memalloc(512))


def test_allocators_are_made_once_per_device(monkeypatch):
    monkeypatch.setattr(ashlar.allocators, "_allocators", {})
    first = ashlar.allocators.allocator(0, "sim")
    assert ashlar.allocators.allocator(0) is first
    other = ashlar.Allocator("sim:0")
    ashlar.allocators.set_allocator(other)
    assert ashlar.allocators.allocator(0) is other
