# SPDX-License-Identifier: Apache-2.0
"""The end of the interpreter: with memory in use, with hooks, with threads that go on."""

import pytest

from conftest import run_python

START = """
import ashlar, sys, threading, atexit, os
machine = ashlar.Machine(capacity="1GiB")
allocator = ashlar.Allocator(machine.device(0))
"""


def ends_well(code, **environment):
    ended = run_python(START + code, **environment)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout


def test_memory_in_use_does_not_matter():
    ends_well("""
stream = ashlar.Stream(machine.device(0))
event = ashlar.Event(machine.device(0))
buffers = [allocator.allocate(1 << 20, stream) for _ in range(10)]
array = buffers[0].array("float32")
capsule = array.__dlpack__()
view = buffers[1].host_view().__enter__()
numbers = view.numpy()
pool = allocator.make_pool()
pool.__enter__()
inside = allocator.allocate(1000)
sys.modules["kept for good"] = [allocator, buffers, numbers]
""")


def test_the_device_of_the_process_does_not_matter():
    ends_well("kept = [ashlar.Allocator('sim:0').allocate(1000) for _ in range(10)]")


def test_hooks_are_silent_once_it_ends():
    printed = ends_well("""
class Late:
    def __init__(self):
        self.buffer = allocator.allocate(1 << 20)
    def __del__(self):
        self.buffer.free()
allocator.add_tracker(lambda entry: os.write(1, entry["action"].encode() + b" "))
late = Late()
sys.modules["late"] = late
os.write(1, b"| ")
""")
    before, _, after = printed.partition("|")
    assert "alloc" in before and "free" not in after


def test_exceptions_that_were_raised_do_not_keep_it():
    ends_well("""
try:
    allocator.allocate("2GiB")
except MemoryError as failure:
    sys.modules["kept"] = failure
""")


@pytest.mark.parametrize("daemon_work", [
    "allocator.allocate(1000).free()",
    "allocator.stats()",
    "allocator.allocate(64).read()",
    "allocator.snapshot()",
])
def test_daemon_threads_may_be_in_the_middle_of_something(daemon_work):
    ends_well(f"""
allocator.start_history()
seen = []
allocator.add_tracker(lambda entry: seen.append(1))
def work():
    while True:
        {daemon_work}
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
while len(seen) < 20 and {daemon_work.count("allocate")}:
    pass
""")


def test_a_hook_that_never_returns_does_not_hold_the_end_for_ever():
    ends_well("""
inside = threading.Event()
def hook(entry):
    inside.set()
    threading.Event().wait()
allocator.add_tracker(hook)
threading.Thread(target=lambda: allocator.allocate(8), daemon=True).start()
inside.wait()
""")


def test_a_second_interpreter_does_not_matter():
    ends_well("""
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    sys.exit(0)  # this Python has none
other = interpreters.create()
seen = []
allocator.add_tracker(lambda entry: seen.append(entry["action"]))
array = allocator.allocate(64).array()
capsule = array.__dlpack__()
with allocator.allocate(64).host_view() as view:
    numbers = view.memoryview()
del array, capsule, view, numbers
thread = threading.Thread(target=lambda: allocator.allocate(8).array().__dlpack__())
thread.start()
thread.join()
assert seen.count("free_completed") == 3, seen
interpreters.destroy(other)
""")


def test_a_held_stream_does_not_hold_the_end():
    ends_well("""
stream = ashlar.Stream(machine.device(0))
machine.hold(stream)
buffer = allocator.allocate(64, stream)
buffer.fill(1)
threading.Thread(target=stream.synchronize, daemon=True).start()
""")
