# SPDX-License-Identifier: Apache-2.0
"""Allocators, limits, statistics, streams and events."""

import gc
import pickle

import numpy
import pytest

import ashlar
from conftest import live_bytes, run_python


def test_buffer_has_repr_and_properties(allocator, machine):
    buffer = allocator.allocate(1000)
    assert buffer.size == 1000
    assert buffer.address % 512 == 0 and buffer.address > 0
    assert buffer.stream == 0
    assert buffer.device == machine.device(0)
    assert buffer.device != machine.device(1)
    assert "1000 B" in repr(buffer) and "sim:0" in repr(buffer)


def test_accepts_sizes_as_text_and_numpy_integers(allocator):
    assert allocator.allocate("1.5MiB").size == 3 << 19
    assert allocator.allocate(numpy.int32(7)).size == 7
    for wrong in ("12x", -1, 1.5, None, True, 1 << 70):
        with pytest.raises(ashlar.InvalidArgument, match="size: .*(expected|such as)"):
            allocator.allocate(wrong)


def test_allocates_zero_bytes(allocator):
    with allocator.allocate(0) as empty:
        assert (empty.size, empty.address, empty.read()) == (0, 0, b"")
        empty.fill(1)
        empty.write(b"")
        with empty.host_view() as view:
            assert view.numpy().shape == (0,)


def test_frees_by_call_scope_and_last_reference(allocator):
    first = allocator.allocate(1000)
    first.free()
    assert live_bytes(allocator) == 0
    with allocator.allocate(2000):
        assert live_bytes(allocator) == 2000
    assert live_bytes(allocator) == 0
    last = allocator.allocate(3000)
    assert live_bytes(allocator) == 3000
    del last
    assert live_bytes(allocator) == 0


def test_freed_buffer_rejects_everything_but_free(allocator):
    buffer = allocator.allocate(1000)
    buffer.free()
    buffer.free()
    assert buffer.is_freed and "freed" in repr(buffer)
    for use in (lambda: buffer.size, lambda: buffer.address, buffer.read, buffer.array,
                buffer.host_view, buffer.__enter__, buffer.__dlpack__):
        with pytest.raises(ashlar.InvalidArgument, match="was freed"):
            use()


def test_buffers_and_pools_keep_their_allocator_alive():
    buffer = ashlar.Allocator(ashlar.Machine(capacity="1GiB").device(1)).allocate(8)
    gc.collect()
    buffer.write(b"ashlar..")
    assert buffer.read() == b"ashlar.."
    assert buffer.device.name == "sim:1"


def test_bytes_round_trip(allocator):
    buffer = allocator.allocate(16)
    buffer.fill(7)
    buffer.write(numpy.arange(4, dtype="uint8"), offset=2)
    assert buffer.read() == bytes([7, 7, 0, 1, 2, 3]) + bytes([7] * 10)
    assert buffer.read(offset=3, size=2) == bytes([1, 2])
    into = numpy.zeros(3, dtype="uint8")
    assert buffer.read_into(into, offset=2) == 3 and into.tolist() == [0, 1, 2]
    with pytest.raises(BufferError):
        buffer.read_into(b"cannot be written")
    with pytest.raises(ashlar.InvalidArgument, match="into has gaps"):
        buffer.read_into(numpy.zeros(8, dtype="uint8")[::2])
    for offset, size in ((0, 17), (17, 0), (1, 16), ((1 << 64) - 1, 2)):
        with pytest.raises(ashlar.InvalidArgument, match="not in the buffer"):
            buffer.read(offset, size)
    with pytest.raises(ashlar.InvalidArgument, match="not in the buffer"):
        buffer.write(b"x" * 17)
    with pytest.raises(ashlar.InvalidArgument, match="gaps"):
        buffer.write(numpy.zeros(8, dtype="uint8")[::2])
    with pytest.raises(ashlar.InvalidArgument, match="column-major order"):
        buffer.write(numpy.zeros((2, 4), dtype="uint8").T)


def test_rejects_invalid_numbers(machine, allocator):
    buffer = allocator.allocate(16)
    for wrong in (-1, "x", 1.5, 1 << 70, None):
        with pytest.raises(ashlar.InvalidArgument, match="offset: "):
            buffer.read(wrong, 1)
        with pytest.raises(ashlar.InvalidArgument, match="offset: "):
            buffer.write(b"1", wrong)
    for wrong in (-1, "x", 1.5, 1 << 70):
        with pytest.raises(ashlar.InvalidArgument, match="size: "):
            buffer.read(0, wrong)
    for wrong in (256, -1, 1.5, "7", None, True):
        with pytest.raises(ashlar.InvalidArgument, match="value: .*expected 0 to 255"):
            buffer.fill(wrong)
    for wrong in (-1, 1 << 70, "0", 1.5):
        for use in (machine.device, machine.costs, machine.lose, machine.revive):
            with pytest.raises(ashlar.InvalidArgument, match="index: "):
                use(wrong)
        with pytest.raises(ashlar.InvalidArgument, match="device_count: "):
            ashlar.Machine(wrong)
        with pytest.raises(ashlar.InvalidArgument, match="max_entries: "):
            allocator.start_history(max_entries=wrong)


def test_reading_needs_no_extra_memory():
    output = run_python("""
import resource, ashlar
def most_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
buffer = ashlar.Allocator("sim:0").allocate("128MiB")
buffer.fill(1)
buffer.read(0, 1)
before = most_kib()
assert len(buffer.read()) == 128 << 20
print((most_kib() - before) / (128 << 10))
""")
    assert 0.5 < float(output.stdout) < 1.5, output.stderr


def test_out_of_memory_raises_memory_error_with_report(allocator):
    with pytest.raises(MemoryError) as caught:
        allocator.allocate("2GiB")
    assert isinstance(caught.value, ashlar.OutOfMemoryError)
    assert isinstance(caught.value, ashlar.Error)
    assert caught.value.kind == "out of memory"
    assert "tried to allocate 2.00 GiB" in str(caught.value)
    assert ashlar.OutOfMemory is ashlar.OutOfMemoryError
    assert allocator.stats()["num_ooms"] == 1


def test_invalid_argument_is_a_value_error(machine):
    with pytest.raises(ValueError, match="no_such_option") as caught:
        ashlar.Allocator(machine.device(0), "no_such_option:1")
    assert isinstance(caught.value, ashlar.Error)
    for name in ("sim:99", "sim:", "sim:-1", "sim:0x", "tpu:0", ""):
        with pytest.raises(ashlar.InvalidArgument):
            ashlar.Allocator(name)
    with pytest.raises(ashlar.InvalidArgument, match="device: 7 is not a device"):
        ashlar.Allocator(7)


def test_lost_device_raises_device_error_with_call(machine, allocator):
    buffer = allocator.allocate(64)
    machine.lose(0, "a cable was pulled")
    with pytest.raises(ashlar.DeviceError, match="a cable was pulled") as caught:
        buffer.read()
    assert caught.value.kind == "device lost" and caught.value.call == "lose"
    machine.revive(0)
    buffer.read()


def test_errors_can_be_pickled():
    for kind in (ashlar.Error, ashlar.OutOfMemoryError, ashlar.InvalidArgument, ashlar.FormatError,
                 ashlar.FileError, ashlar.DeviceError, ashlar.TimeoutError, ashlar.PeerError):
        unpickled = pickle.loads(pickle.dumps(kind("why")))
        assert type(unpickled) is kind and str(unpickled) == "why"
    assert issubclass(ashlar.TimeoutError, TimeoutError)
    assert issubclass(ashlar.PeerError, ConnectionError)


def test_stats_are_a_dict_of_public_names(allocator):
    buffer = allocator.allocate(1000)
    stats = allocator.stats()
    assert isinstance(stats, dict)
    assert stats["allocation.all.current"] == 1
    assert stats["requested_bytes.all.peak"] == 1000
    buffer.free()
    allocator.reset_peak_stats()
    allocator.reset_total_stats()
    stats = allocator.stats()
    assert stats["requested_bytes.all.peak"] == 0
    assert stats["allocation.all.allocated"] == 0


def test_trim_returns_cached_memory(allocator):
    allocator.allocate("100MiB").free()
    assert allocator.largest_cached_bytes >= 100 << 20
    assert allocator.trim_to("50MiB", wait=True) > 0
    assert allocator.stats()["reserved_bytes.all.current"] <= 50 << 20
    allocator.trim()
    assert allocator.stats()["reserved_bytes.all.current"] == 0


def test_memory_fraction_limits_allocations(allocator):
    allocator.memory_fraction = 0.5
    assert allocator.memory_fraction == 0.5
    with pytest.raises(MemoryError):
        allocator.allocate("600MiB")
    allocator.memory_fraction = 1
    allocator.allocate("600MiB")
    with pytest.raises(ashlar.InvalidArgument):
        allocator.memory_fraction = 1.5


def test_caching_can_be_turned_off(allocator):
    allocator.caching = False
    assert not allocator.caching
    allocator.allocate("10MiB").free()
    assert allocator.stats()["reserved_bytes.all.current"] == 0


def test_allocator_has_repr_and_options(machine):
    allocator = ashlar.Allocator(machine.device(0), "engine:classic,max_split_size_mb:64")
    assert allocator.options == "engine:classic,max_split_size_mb:64"
    assert "max_split_size_mb:64" in repr(allocator) and "sim:0" in repr(allocator)
    assert allocator.device == machine.device(0)


def test_work_of_one_stream_runs_in_order(machine, allocator):
    stream = ashlar.Stream(machine.device(0))
    buffer = allocator.allocate(4, stream)
    assert buffer.stream.handle == stream.handle
    machine.pause_stream(stream)
    buffer.fill(9)
    assert not stream.is_idle()
    machine.resume_stream(stream)
    stream.synchronize()
    assert stream.is_idle() and buffer.read() == b"\x09" * 4


def test_recorded_stream_delays_reuse(machine, allocator):
    own, other = ashlar.Stream(machine.device(0)), ashlar.Stream(machine.device(0))
    buffer = allocator.allocate(1 << 20, own)
    address = buffer.address
    machine.pause_stream(other)
    work = allocator.allocate(64, other)
    work.fill(1)
    buffer.record_stream(other)
    buffer.free()
    assert allocator.allocate(1 << 20, own).address != address
    machine.resume_stream(other)
    other.synchronize()
    again = [allocator.allocate(1 << 20, own) for _ in range(3)]
    assert address in [each.address for each in again]


def test_memory_keeps_its_stream_alive(machine, allocator):
    stream = ashlar.Stream(machine.device(0))
    buffer = allocator.allocate(64, stream)
    del stream
    gc.collect()
    buffer.fill(3)
    assert buffer.read(0, 1) == b"\x03"


def test_accepts_streams_of_other_libraries(machine, allocator):
    class TorchStream:
        cuda_stream = 0

    class CupyStream:
        ptr = 0

    class CudaStream:
        def __cuda_stream__(self):
            return (0, 0)

    for stream in (None, 0, numpy.int64(0), TorchStream(), CupyStream(), CudaStream()):
        assert allocator.allocate(8, stream).stream == 0
    for wrong in ("0", -1, 1.5, object(), True, 1 << 70):
        with pytest.raises(ashlar.InvalidArgument, match="is not a stream"):
            allocator.allocate(8, wrong)
    with pytest.raises(ashlar.InvalidArgument, match="expected one of sim:0"):
        allocator.allocate(8, ashlar.Stream(machine.device(1)))


def test_handles_of_one_stream_are_equal(machine, allocator):
    stream, other = ashlar.Stream(machine.device(0)), ashlar.Stream(machine.device(0))
    same = allocator.allocate(8, stream).stream
    assert same == stream and hash(same) == hash(stream) and same is not stream
    assert stream != other and stream != stream.handle
    assert {stream: 1}[same] == 1
    assert not hasattr(stream, "__cuda_stream__"), "not a CUDA stream"


def test_events_order_streams_and_measure_time(machine):
    device = machine.device(0)
    allocator = ashlar.Allocator(device)
    first, second = ashlar.Stream(device), ashlar.Stream(device)
    begin, end = ashlar.Event(device, timing=True), ashlar.Event(device, timing=True)
    begin.record(first)
    machine.pause_stream(first)
    allocator.allocate(64, first).fill(1)
    end.record(first)
    end.wait(second)
    assert not end.is_done()
    machine.resume_stream(first)
    end.synchronize()
    assert end.is_done() and begin.elapsed_ms(end) >= 0
    second.synchronize()


def test_seeded_machine_runs_work_in_steps():
    machine = ashlar.Machine(device_count=1, capacity="1GiB", seed=7)
    allocator = ashlar.Allocator(machine.device())
    buffer = allocator.allocate(64)
    buffer.fill(5)
    while machine.step():
        pass
    assert buffer.read(0, 1) == b"\x05"
    assert machine.costs()["modelled_us"] > 0


def test_devices_have_properties(machine):
    device = machine.device(1)
    assert device.properties["backend"] == "sim"
    assert device.properties["capacity_bytes"] == 1 << 30
    assert device.memory_stats() == {"free_bytes": 1 << 30, "total_bytes": 1 << 30}
    assert "sim:0" in ashlar.devices()
    assert str(device) == "sim:1" and "1.00 GiB" in repr(device)
    assert len({device, machine.device(1), machine.device(0)}) == 2
    device.synchronize()
    with pytest.raises(ashlar.InvalidArgument):
        machine.device(2)
    with pytest.raises(ashlar.InvalidArgument):
        ashlar.Machine(device_count=0)
