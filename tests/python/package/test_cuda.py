# SPDX-License-Identifier: Apache-2.0
"""Exchange protocols of a CUDA device, with the stand-in driver."""

import os

import pytest

import ashlar

pytestmark = pytest.mark.skipif("ASHLAR_CUDA_DRIVER" not in os.environ,
                                reason="no stand-in driver: ASHLAR_CUDA_DRIVER does not name one")
CUDA = 2  # DLPack's device type


@pytest.fixture
def allocator():
    return ashlar.Allocator("cuda:0")


def test_buffer_has_cuda_array_interface(allocator):
    stream = ashlar.Stream("cuda:0")
    buffer = allocator.allocate(24, stream)
    assert buffer.__cuda_array_interface__ == {
        "version": 3, "shape": (24,), "typestr": "|u1", "data": (buffer.address, False),
        "strides": None, "stream": stream.handle}
    on_default = allocator.allocate(24).array("float32", (2, 3))
    assert on_default.__cuda_array_interface__["shape"] == (2, 3)
    assert on_default.__cuda_array_interface__["typestr"] == "<f4"
    assert on_default.__cuda_array_interface__["stream"] == 1
    assert not hasattr(allocator.allocate(8).array("bfloat16"), "__cuda_array_interface__")


def test_dlpack_device_is_cuda(allocator):
    array = allocator.allocate(24).array("float32", (2, 3))
    assert array.__dlpack_device__() == (CUDA, 0)
    taker = ashlar.Stream("cuda:0")
    for stream in (None, 1, -1, taker.handle):
        assert "dltensor" in repr(array.__dlpack__(stream=stream))
    assert "dltensor" in repr(array.__dlpack__(stream=taker))
    with pytest.raises(BufferError, match="does not allow 0"):
        array.__dlpack__(stream=0)


def test_empty_array_has_null_address(allocator):
    array = allocator.allocate(24).array("float32", (0, 3))
    assert array.__cuda_array_interface__["data"] == (0, False)


def test_streams_support_cuda_stream_protocol(allocator):
    stream = ashlar.Stream("cuda:0")
    assert stream.__cuda_stream__() == (0, stream.handle)

    class OtherStream:
        def __cuda_stream__(self):
            return (0, stream.handle)

    assert allocator.allocate(8, OtherStream()).stream == stream.handle


def test_host_view_is_rejected_for_cuda(allocator):
    buffer = allocator.allocate(4)
    buffer.write(b"abcd")
    assert buffer.read() == b"abcd"
    with pytest.raises(ashlar.InvalidArgument, match="the host cannot access memory of cuda:0"):
        buffer.host_view()


def test_the_device_is_listed():
    assert "cuda:0" in ashlar.devices()
    assert ashlar.Device("cuda:0").properties["backend"] == "cuda"
