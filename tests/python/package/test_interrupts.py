# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C interrupts waiting calls, and hooks do not swallow it."""

import pytest

from conftest import TRACES, run_python

# `interrupted` sends SIGINT shortly after it starts a call. If the call does not return, the script
# times out.
START = f"""
import os, signal, sys, threading, time
import ashlar
TRACE = {str(TRACES / "leaky.pickle.xz")!r}
machine = ashlar.Machine(capacity="1GiB")
device = machine.device(0)
allocator = ashlar.Allocator(device)
stream = ashlar.Stream(device)
buffer = allocator.allocate(64, stream)

def interrupt_soon():
    threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()

def block_stream():
    machine.pause_stream(stream)
    buffer.fill(1)

def interrupted(work):
    try:
        interrupt_soon()
        work()
    except KeyboardInterrupt:
        print("interrupted")
"""


def interrupted(code):
    ended = run_python(START + code)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout == "interrupted\n"


@pytest.mark.parametrize("wait", [
    "stream.synchronize", "device.synchronize", "event.synchronize", "buffer.read",
    "lambda: buffer.write(b'1')", "lambda: buffer.read_into(bytearray(8))",
    "lambda: buffer.host_view().__enter__()",
])
def test_ctrl_c_interrupts_wait_for_stream(wait):
    assert interrupted(f"""
event = ashlar.Event(device)
block_stream()
event.record(stream)
interrupted({wait})
""")


def test_objects_work_after_interrupt():
    assert interrupted("""
block_stream()
interrupted(buffer.read)
machine.resume_stream(stream)
assert buffer.read() == b"\\x01" * 64
stream.synchronize()
""")


def test_ctrl_c_interrupts_reading_from_pipe(tmp_path):
    assert interrupted(f"""
os.mkfifo({str(tmp_path / "pipe")!r})
interrupted(lambda: ashlar.load({str(tmp_path / "pipe")!r}))
""")


def test_ctrl_c_interrupts_analysis():
    # The profiler records whether the call itself raised the exception.
    assert interrupted("""
allocator.start_history(None)
kept = [allocator.allocate(1 + i % 1000) for i in range(20000)]
recording = allocator.recording()
ends = []
def note(frame, event, function):
    if event in ("c_return", "c_exception") and function.__name__ == "tune":
        ends.append(event)
def ask():
    while True:
        recording.tune(min_capacity=True)
sys.setprofile(note)
interrupted(ask)
sys.setprofile(None)
assert ends[-1] == "c_exception", ends
""")


def test_ctrl_c_in_hook_is_raised_in_main_thread():
    assert interrupted("""
called = []
def hook(entry):
    called.append(1)
    end = time.monotonic() + 30
    while len(called) == 1 and time.monotonic() < end:
        pass
allocator.add_tracker(hook)
def work():
    allocator.allocate(8)
    for _ in range(1000):
        pass
interrupted(work)
""")


def test_signal_handler_without_exception_is_harmless():
    assert interrupted("""
seen = []
signal.signal(signal.SIGINT, lambda *_: (seen.append(1), machine.resume_stream(stream)))
block_stream()
interrupt_soon()
stream.synchronize()
assert seen == [1] and stream.is_idle()
print("interrupted")
""")


def test_other_threads_are_not_interrupted():
    assert interrupted("""
block_stream()
thread = threading.Thread(target=stream.synchronize)
thread.start()
interrupted(thread.join)
machine.resume_stream(stream)
thread.join()
""")
