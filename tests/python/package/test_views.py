# SPDX-License-Identifier: Apache-2.0
"""Host views, arrays and DLPack, and the lifetime of their memory."""

import ctypes
import gc
import threading

import numpy
import pytest

import ashlar
from conftest import live_bytes

EXTENSION_DEVICE = 12  # DLPack's device type for memory that the host cannot access


class Holder:
    """An object that returns the same capsule on every call."""

    def __init__(self, capsule, device=(1, 0)):
        self.capsule = capsule
        self.device = device

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return self.device


def test_host_view_shows_device_memory(allocator):
    buffer = allocator.allocate(24)
    buffer.write(numpy.arange(6, dtype="float32"))
    with buffer.host_view("float32", (2, 3)) as view:
        array = view.numpy()
        assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
        array[1, 2] = 50
        assert numpy.asarray(view)[1, 2] == 50
        assert view.shape == (2, 3) and view.dtype == "float32" and view.is_open
    assert numpy.frombuffer(buffer.read(), "float32").tolist() == [0, 1, 2, 3, 4, 50]


def test_host_view_waits_for_stream(machine, allocator):
    stream = ashlar.Stream(machine.device(0))
    buffer = allocator.allocate(4, stream)
    buffer.fill(1)
    machine.pause_stream(stream)
    buffer.fill(2)
    threading.Timer(0.05, machine.resume_stream, [stream]).start()
    with buffer.host_view() as view:
        assert view.numpy().tolist() == [2, 2, 2, 2]


def test_host_view_is_limited_to_scope(allocator):
    view = allocator.allocate(8).host_view()
    for use in (view.numpy, view.memoryview, view.__dlpack__):
        with pytest.raises(ashlar.InvalidArgument, match="not open"):
            use()
    with view:
        view.numpy()
        with pytest.raises(ashlar.InvalidArgument, match="already open"):
            view.__enter__()
    assert not view.is_open and "closed" in repr(view)
    with pytest.raises(ashlar.InvalidArgument, match="not open"):
        view.numpy()


def test_arrays_keep_memory_after_scope(allocator):
    buffer = allocator.allocate(8)
    with buffer.host_view() as view:
        array = view.numpy()
        array[:] = 3
    buffer.free()
    del buffer, view
    assert live_bytes(allocator) == 8
    part = array[2:4]
    del array
    assert part.tolist() == [3, 3] and live_bytes(allocator) == 8
    del part
    gc.collect()
    assert live_bytes(allocator) == 0


def test_closed_view_releases_memory(allocator):
    buffer = allocator.allocate(8)
    view = buffer.host_view()
    with view:
        pass
    with view:  # again
        pass
    buffer.free()
    assert live_bytes(allocator) == 0
    with pytest.raises(ashlar.InvalidArgument, match="was freed"):
        view.__enter__()


def test_read_only_views_cannot_be_written(allocator):
    buffer = allocator.allocate(8)
    with buffer.host_view(writable=False) as view:
        with pytest.raises(ValueError):
            view.numpy()[0] = 1
        with pytest.raises(BufferError, match="only be read"):
            numpy.from_dlpack(view)
        assert "dltensor_versioned" in repr(view.__dlpack__(max_version=(1, 0)))


def test_numpy_types_round_trip(allocator):
    for name in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
                 "float16", "float32", "float64", "complex64", "complex128", "bool"):
        buffer = allocator.allocate(64)
        with buffer.host_view(numpy.dtype(name)) as view:
            array = view.numpy()
            assert array.dtype == name and array.nbytes == 64
            array[:] = 1
            if name != "bool":  # not supported by DLPack in numpy 1.24
                assert numpy.from_dlpack(view).dtype == name
        assert allocator.allocate(64).array(numpy.float32).dtype == "float32"
    with allocator.allocate(64).host_view("bfloat16") as view:
        with pytest.raises(ashlar.InvalidArgument, match="numpy does not support bfloat16"):
            view.numpy()
        view.__dlpack__()


def test_rejects_shapes_that_do_not_fit(allocator):
    buffer = allocator.allocate(100)
    assert buffer.array("float32").shape == (25,)
    assert buffer.array("float32", 5).shape == (5,)
    assert buffer.array("float32", ()).size == 4
    assert buffer.array("float32", [5, 0, 1 << 62]).size == 0
    assert buffer.array("float32", (5, 5)).size == 100
    for shape in ((26,), (5, 6), (1 << 62, 1 << 62), (1 << 63 - 1, 2)):
        with pytest.raises(ashlar.InvalidArgument, match="does not fit into 100 B"):
            buffer.array("float32", shape)
    with pytest.raises(ashlar.InvalidArgument, match="below 0"):
        buffer.array("float32", (-1, 5))
    with pytest.raises(ashlar.InvalidArgument, match="is not a number"):
        buffer.array("float32", ("5",))
    with pytest.raises(ashlar.InvalidArgument, match="do not fit anywhere"):
        buffer.array("float32", (1 << 64,))
    for wrong in (1.5, object()):
        with pytest.raises(ashlar.InvalidArgument, match="shape: .*expected a number"):
            buffer.array("float32", wrong)
    with pytest.raises(ashlar.InvalidArgument, match="is unknown .expected one of uint8"):
        buffer.array("float33")


def test_accepts_dtypes_of_other_libraries(allocator):
    buffer = allocator.allocate(64)

    class TorchDtype:
        def __str__(self):
            return "torch.bfloat16"

    for given, name in ((float, "float64"), (bool, "bool"), ("f4", "float32"), ("<i2", "int16"),
                        (numpy.bool_, "bool"), (numpy.longlong, "int64"), ("torch.int8", "int8"),
                        (TorchDtype(), "bfloat16"), (complex, "complex128")):
        assert buffer.array(given).dtype == name
    for wrong in (None, 7, "", "i4,i4", object, "torch.", numpy.dtype("S4"), "\udc80"):
        with pytest.raises(ashlar.InvalidArgument,
                           match="dtype: .* is unknown .expected one of uint8"):
            buffer.array(wrong)


def test_rejects_big_endian_types(allocator):
    buffer = allocator.allocate(64)
    for wrong in (">f4", numpy.dtype(">i8"), numpy.dtype("float32").newbyteorder(">")):
        for use in (buffer.array, buffer.host_view):
            with pytest.raises(ashlar.InvalidArgument, match="high bytes first"):
                use(wrong)


def test_numpy_imports_host_view_by_dlpack(allocator):
    buffer = allocator.allocate(16)
    with buffer.host_view("int32", (2, 2)) as view:
        taken = numpy.from_dlpack(view)
        view.numpy()[1, 1] = 9
    buffer.free()
    del view
    assert taken[1, 1] == 9 and live_bytes(allocator) == 16
    del taken
    assert live_bytes(allocator) == 0


def test_unused_capsule_releases_memory(allocator):
    for request in ({}, {"max_version": (1, 2)}):
        buffer = allocator.allocate(16)
        with buffer.host_view() as view:
            capsule = view.__dlpack__(**request)
        buffer.free()
        del view
        assert live_bytes(allocator) == 16
        del capsule
        assert live_bytes(allocator) == 0


def test_capsule_is_consumed_once(allocator):
    buffer = allocator.allocate(16)
    with buffer.host_view() as view:
        holder = Holder(view.__dlpack__())
    buffer.free()
    taken = numpy.from_dlpack(holder)
    with pytest.raises(ValueError):
        numpy.from_dlpack(holder)
    assert "used_dltensor" in repr(holder.capsule)
    del view, holder
    assert live_bytes(allocator) == 16
    del taken
    assert live_bytes(allocator) == 0


def test_tensor_deleter_runs_on_any_thread(allocator):
    buffer = allocator.allocate(16)
    with buffer.host_view() as view:
        capsule = view.__dlpack__()
    buffer.free()
    del view
    # Consumes the capsule like C++ code: renames it now, and calls the deleter later.
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    managed = pointer_of(capsule, b"dltensor")
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    used = ctypes.c_char_p(b"used_dltensor")
    assert rename(capsule, used) == 0
    del capsule
    assert live_bytes(allocator) == 16
    deleter = ctypes.cast(managed + 56, ctypes.POINTER(ctypes.c_void_p))[0]
    ended = threading.Thread(target=ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter),
                             args=[managed])  # ctypes releases the GIL
    ended.start()
    ended.join()
    assert live_bytes(allocator) == 0


def test_numpy_rejects_device_memory(allocator):
    buffer = allocator.allocate(16)
    assert buffer.__dlpack_device__() == (EXTENSION_DEVICE, 0)
    assert buffer.array("int32", (2, 2)).__dlpack_device__() == (EXTENSION_DEVICE, 0)
    with pytest.raises((BufferError, RuntimeError)):
        numpy.from_dlpack(buffer)
    for each in (buffer, buffer.array()):
        assert not hasattr(each, "__cuda_array_interface__")


def test_arrays_keep_memory_alive(allocator):
    array = allocator.allocate(16).array("float64", (2,))
    gc.collect()
    assert live_bytes(allocator) == 16 and "float64 (2,)" in repr(array)
    capsule = array.__dlpack__()
    del array
    assert live_bytes(allocator) == 16
    del capsule
    assert live_bytes(allocator) == 0


def test_unsupported_dlpack_requests_raise_buffer_error(allocator):
    array = allocator.allocate(16).array()
    with pytest.raises(BufferError, match="not copied"):
        array.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="another device"):
        array.__dlpack__(dl_device=(1, 0))
    with allocator.allocate(16).host_view() as view:
        with pytest.raises(BufferError, match="host memory has none"):
            view.__dlpack__(stream=1)
    assert "dltensor" in repr(array.__dlpack__(dl_device=(EXTENSION_DEVICE, 0), copy=False))


def test_exported_memory_synchronizes_streams(machine, allocator):
    own, consumer = ashlar.Stream(machine.device(0)), ashlar.Stream(machine.device(0))
    buffer = allocator.allocate(1 << 20, own)
    address = buffer.address
    machine.pause_stream(consumer)
    busy = allocator.allocate(64, consumer)
    busy.fill(1)
    capsule = buffer.array().__dlpack__(stream=consumer.handle)
    buffer.free()
    del capsule
    assert allocator.allocate(1 << 20, own).address != address, "the consumer may still use it"
    machine.resume_stream(consumer)


def test_exported_memory_keeps_stream_alive(machine, allocator):
    own, consumer = ashlar.Stream(machine.device(0)), ashlar.Stream(machine.device(0))
    buffer = allocator.allocate(1 << 20, own)
    capsule = buffer.array().__dlpack__(stream=consumer)
    handle = consumer.handle
    del consumer
    gc.collect()
    ashlar.Event(machine.device(0)).record(handle)  # rejects a destroyed stream
    buffer.free()
    del capsule
    ashlar.Event(machine.device(0)).record(handle)


def dlpack_fields(capsule, name=b"dltensor"):
    """Returns (data, strides) of the capsule's structure."""
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    at = pointer_of(capsule, name)
    count = ctypes.c_int32.from_address(at + 16).value
    strides = ctypes.cast(ctypes.c_void_p.from_address(at + 32).value,
                          ctypes.POINTER(ctypes.c_int64))
    return ctypes.c_void_p.from_address(at).value, [strides[i] for i in range(count)]


def test_empty_arrays_have_null_address(allocator):
    buffer = allocator.allocate(64)
    assert dlpack_fields(buffer.array("int8", (0, 4)).__dlpack__())[0] is None
    assert dlpack_fields(buffer.array("int8", (4,)).__dlpack__())[0] == buffer.address
    huge = buffer.array("int8", (0, 1 << 62, 1 << 62))
    assert dlpack_fields(huge.__dlpack__())[1] == [1, 1, 1]
    assert dlpack_fields(buffer.array("int8", (2, 3, 4)).__dlpack__())[1] == [12, 4, 1]


def test_array_protocol_copies_only_if_needed(allocator):
    with allocator.allocate(16).host_view("int32") as view:
        shared = view.__array__(copy=False)
        shared[0] = 5
        assert view.numpy()[0] == 5
        assert view.__array__("int32", copy=False)[0] == 5
        with pytest.raises(ValueError, match="needs a copy"):
            view.__array__("float64", copy=False)
        copied = view.__array__(copy=True)
        copied[0] = 6
        assert view.numpy()[0] == 5 and view.__array__("float64").dtype == "float64"
        assert view.__array__("int32").base is not None


def test_capsule_is_released_on_exception(allocator):
    seen = []
    allocator.add_tracker(lambda entry: seen.append(entry["action"]))

    def capsule():
        return allocator.allocate(64).array().__dlpack__()

    with pytest.raises(ZeroDivisionError):
        print(capsule(), 1 / 0)
    assert seen[-1] == "free_completed" and live_bytes(allocator) == 0
