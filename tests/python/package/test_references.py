# SPDX-License-Identifier: Apache-2.0
"""Reference counts: repeated calls of each kind must neither increase Python's memory nor keep
objects alive. Sanitizers do not detect such leaks."""

import gc
import pathlib
import sys

import numpy
import pytest

import ashlar
from conftest import TRACES

LEAKY = TRACES / "leaky.pickle.xz"
DTYPE = numpy.dtype("float32")
SHAPE = (2, 3)
DATA = bytearray(24)


class Foreign:
    """A stream from another library."""

    cuda_stream = 0


FOREIGN = Foreign()
SHARED = (DTYPE, SHAPE, DATA, FOREIGN, LEAKY, numpy.float32)


class Calls:
    """One method per kind of call."""

    def __init__(self):
        self.machine = ashlar.Machine(capacity="1GiB")
        self.device = self.machine.device(0)
        self.allocator = ashlar.Allocator(self.device)
        self.host = ashlar.HostAllocator(self.device)
        self.buffer = self.allocator.allocate(24)
        self.recording = ashlar.load(LEAKY)
        self.snapshot = self.allocator.snapshot()
        self.content = LEAKY.read_bytes()
        self.stream = ashlar.Stream(self.device)

    def allocate(self):
        self.allocator.allocate(64, FOREIGN).free()
        self.allocator.allocate(64, self.stream).record_stream(self.stream)

    def transfer(self):
        self.buffer.write(DATA)
        self.buffer.read_into(DATA)
        assert len(self.buffer.read(8)) == 16

    def view(self):
        with self.buffer.host_view(DTYPE, SHAPE) as view:
            numpy.asarray(view, dtype="float64")
            numpy.from_dlpack(view)
            view.memoryview()

    def export_array(self):
        array = self.buffer.array(numpy.float32, SHAPE)
        array.__dlpack__(stream=self.stream, max_version=(1, 0))
        repr(array), array.shape, array.device

    def use_pinned_memory(self):
        with self.host.allocate(24) as buffer:
            buffer.numpy(DTYPE, SHAPE)
            memoryview(buffer)
            buffer.record_stream(self.stream)
            numpy.from_dlpack(buffer)
        self.host.stats()

    def inspect_allocator(self):
        self.allocator.stats()._repr_html_()
        self.allocator.snapshot()
        repr(self.allocator), repr(self.device), repr(self.buffer), self.device.properties

    def record_history(self):
        self.allocator.start_history(max_entries=10)
        with self.allocator.region("step"):
            self.allocator.allocate(10).free()
        self.allocator.recording().summary()
        self.allocator.stop_history()

    def analyze_recording(self):
        self.recording.leaks()
        self.recording.diff(self.recording)
        self.recording.causes()._repr_html_()

    def load_recordings(self):
        ashlar.load(LEAKY).summary()
        ashlar.load(self.content).summary()
        ashlar.load(self.snapshot).summary()

    def use_pool(self):
        with self.allocator.make_pool(tag="some"):
            self.allocator.allocate(8).free()

    def use_hooks(self):
        allocator = ashlar.Allocator(self.device)
        allocator.add_tracker(lambda entry: None)
        allocator.add_oom_observer(lambda notice: None)
        allocator.allocate(8).free()

    def order_streams(self):
        event = ashlar.Event(self.device)
        event.record(self.stream)
        event.synchronize()
        assert self.stream == self.buffer_of_stream().stream

    def buffer_of_stream(self):
        return self.allocator.allocate(8, self.stream)

    def make_invalid_calls(self):
        for wrong in (lambda: self.allocator.allocate("12x"), lambda: self.buffer.read(0, -1),
                      lambda: self.allocator.allocate(8, "no stream"),
                      lambda: self.buffer.array(">f4"), lambda: self.buffer.array("f4", 1.5),
                      lambda: ashlar.load("a\0b"), lambda: ashlar.load("/no/such/file"),
                      lambda: ashlar.load(b"no snapshot"), lambda: self.recording.diff(None)):
            with pytest.raises((ashlar.Error, TypeError)):
                wrong()


CALLS = Calls()
KINDS = [name for name, value in vars(Calls).items()
         if callable(value) and not name.startswith(("_", "buffer_of"))]


@pytest.mark.parametrize("kind", KINDS)
def test_calls_do_not_leak_references(kind):
    call = getattr(CALLS, kind)
    objects = [*SHARED, CALLS.stream, CALLS.buffer, CALLS.allocator, CALLS.recording]

    def counts():
        return [sys.getrefcount(each) for each in objects]

    def repeat(times):
        for _ in range(times):
            call()
        gc.collect()

    def grown_by(times):
        blocks = sys.getallocatedblocks()
        repeat(times)
        return sys.getallocatedblocks() - blocks

    repeat(5)  # fills caches
    before = counts()
    # A leak in every second call would add 15 blocks in each round of 30 calls. The caches of
    # Python and numpy stop growing after a few hundred calls, so rounds are repeated until one adds
    # fewer.
    grown = []
    while len(grown) < 60 and (not grown or grown[-1] >= 15):
        grown.append(grown_by(30))
    assert counts() == before
    assert grown[-1] < 15, f"{grown} blocks more"


def test_leak_detection_works():
    assert pathlib.Path(LEAKY).is_file() and len(KINDS) >= 12
    kept = []
    blocks = sys.getallocatedblocks()
    for _ in range(30):
        kept.append(CALLS.allocator.allocate(8))
    assert sys.getallocatedblocks() - blocks >= 15
