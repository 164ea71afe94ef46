# SPDX-License-Identifier: Apache-2.0
"""Interpreter exit with live memory, hooks and running threads."""

import pytest

from conftest import run_python

START = """
import ashlar, sys, threading, atexit, os
machine = ashlar.Machine(capacity="1GiB")
allocator = ashlar.Allocator(machine.device(0))
"""


def assert_clean_exit(code, **environment):
    ended = run_python(START + code, **environment)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout


def test_exits_with_live_memory():
    assert_clean_exit("""
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


def test_exits_with_process_device():
    assert_clean_exit("kept = [ashlar.Allocator('sim:0').allocate(1000) for _ in range(10)]")


def test_hooks_are_not_called_during_exit():
    printed = assert_clean_exit("""
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


def test_exits_after_exceptions():
    assert_clean_exit("""
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
def test_exits_while_daemon_threads_run(daemon_work):
    assert_clean_exit(f"""
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


def test_blocked_hook_does_not_prevent_exit():
    assert_clean_exit("""
inside = threading.Event()
def hook(entry):
    inside.set()
    threading.Event().wait()
allocator.add_tracker(hook)
threading.Thread(target=lambda: allocator.allocate(8), daemon=True).start()
inside.wait()
""")


def test_exits_with_second_interpreter():
    assert_clean_exit("""
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    sys.exit(0)  # this Python lacks the module
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


def test_paused_stream_does_not_prevent_exit():
    assert_clean_exit("""
stream = ashlar.Stream(machine.device(0))
machine.pause_stream(stream)
buffer = allocator.allocate(64, stream)
buffer.fill(1)
threading.Thread(target=stream.synchronize, daemon=True).start()
""")
