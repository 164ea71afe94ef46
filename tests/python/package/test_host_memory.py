# SPDX-License-Identifier: Apache-2.0
"""Pinned host memory: zero-copy access and caching."""

import gc
import os
import sys
import threading

import numpy
import pytest

import ashlar

CPU, CUDA_HOST = 1, 3  # DLPack's device types


@pytest.fixture
def host(machine):
    return ashlar.HostAllocator(machine.device(0))


def in_use(host):
    return host.stats()["requested_bytes.current"]


def test_buffer_has_repr_and_properties(host, machine):
    buffer = host.allocate("1.5KiB")
    assert buffer.size == 1536 and buffer.address % 4096 == 0
    assert buffer.device == machine.device(0) == host.device
    assert "1.50 KiB" in repr(buffer) and "sim:0" in repr(host)
    for wrong in ("12x", -1, 1.5, None, True):
        with pytest.raises(ashlar.InvalidArgument, match="size: "):
            host.allocate(wrong)


def test_numpy_array_shares_memory(host):
    buffer = host.allocate(24)
    array = buffer.numpy("float32", (2, 3))
    array[:] = 7
    assert numpy.asarray(buffer).view("float32").tolist() == [7] * 6
    assert numpy.frombuffer(buffer, "float32")[5] == 7
    assert memoryview(buffer).nbytes == 24 and not memoryview(buffer).readonly
    buffer.memoryview()[0:4] = b"\0\0\0\0"
    assert array[0, 0] == 0


def test_device_copies_to_and_from_host_buffer(host, allocator):
    source, target = host.allocate(1000), host.allocate(1000)
    source.numpy()[:] = numpy.arange(1000) % 251
    on_device = allocator.allocate(1000)
    on_device.write(source)
    assert on_device.read_into(target) == 1000
    assert (target.numpy() == source.numpy()).all()


@pytest.mark.parametrize("look", [
    lambda buffer: buffer.numpy(), memoryview, lambda buffer: buffer.memoryview(),
    numpy.from_dlpack, numpy.asarray, lambda buffer: buffer.__dlpack__(),
    lambda buffer: buffer.__dlpack__(max_version=(1, 0)),
])
def test_views_keep_memory_alive(host, look):
    buffer = host.allocate(100)
    seen = look(buffer)
    buffer.free()
    assert buffer.is_freed and "freed" in repr(buffer)
    del buffer
    gc.collect()
    assert in_use(host) == 100
    del seen
    gc.collect()
    assert in_use(host) == 0


def test_freed_buffer_rejects_everything_but_free(host):
    with host.allocate(8) as buffer:
        assert in_use(host) == 8
    assert in_use(host) == 0
    buffer.free()
    for use in (lambda: buffer.size, buffer.numpy, buffer.__dlpack__, buffer.__enter__):
        with pytest.raises(ashlar.InvalidArgument, match="was freed"):
            use()
    with pytest.raises(BufferError, match="was freed"):
        memoryview(buffer)


def test_recorded_stream_delays_reuse(host, machine, allocator):
    stream = ashlar.Stream(machine.device(0))
    busy = allocator.allocate(8, stream)
    machine.pause_stream(stream)
    busy.fill(1)
    buffer = host.allocate(1000)
    address = buffer.address
    buffer.record_stream(stream)
    buffer.free()
    assert host.allocate(1000).address != address, "the stream may still use it"
    machine.resume_stream(stream)
    stream.synchronize()
    again = [host.allocate(1000) for _ in range(4)]
    assert address in [each.address for each in again]


def test_memory_keeps_recorded_stream_alive(host, machine):
    stream = ashlar.Stream(machine.device(0))
    buffer = host.allocate(1000)
    buffer.record_stream(stream)
    del stream
    gc.collect()
    buffer.free()
    host.trim()
    assert host.allocate(1000).size == 1000


def test_caches_memory_until_trim(host):
    host.allocate("1MiB").free()
    stats = host.stats()
    assert isinstance(stats, dict) and isinstance(stats, ashlar.HostStats)
    assert stats["allocated_bytes.current"] >= 1 << 20
    assert "1.00 MiB" in stats._repr_html_()
    host.reset_peak_stats()
    host.reset_total_stats()
    host.trim()
    assert host.stats()["allocated_bytes.current"] == 0


def test_allocates_zero_bytes(host):
    with host.allocate(0) as empty:
        assert (empty.size, empty.address, empty.numpy().shape) == (0, 0, (0,))


def test_buffers_keep_their_allocator_alive():
    buffer = ashlar.HostAllocator(ashlar.Machine(capacity="1GiB").device(1)).allocate(8)
    gc.collect()
    buffer.numpy()[:] = 3
    assert bytes(memoryview(buffer)) == b"\x03" * 8


def test_options_are_checked(machine):
    with pytest.raises(ashlar.InvalidArgument, match="no_such_option"):
        ashlar.HostAllocator(machine.device(0), "no_such_option:1")
    assert ashlar.HostAllocator(machine.device(0), "pinned_use_background_threads:True").options


def test_dlpack_reports_device(host):
    buffer = host.allocate(8)
    assert buffer.__dlpack_device__() == (CPU, 0)
    with pytest.raises(BufferError, match="host memory has none"):
        buffer.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="not copied"):
        buffer.__dlpack__(copy=True)


@pytest.mark.skipif("ASHLAR_CUDA_DRIVER" not in os.environ, reason="no stand-in driver")
def test_cuda_memory_is_pinned_for_cuda():
    assert ashlar.HostAllocator("cuda:0").allocate(8).__dlpack_device__() == (CUDA_HOST, 0)


def test_threads_use_one_allocator(host):
    def work():
        for size in range(1, 200):
            buffer = host.allocate(size)
            buffer.numpy()[:] = size % 251
            assert buffer.numpy()[-1] == size % 251

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert in_use(host) == 0 and sys.getrefcount(host) < 10
