# SPDX-License-Identifier: Apache-2.0
"""Forked children create their own objects and reject those of the parent."""

import pytest

from conftest import run_python

START = """
import multiprocessing, os, sys, threading
import ashlar
machine = ashlar.Machine(capacity="1GiB")
allocator = ashlar.Allocator(machine.device(0))

def in_a_child(work):
    child = os.fork()
    if child == 0:
        work()
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

def refused(work):
    try:
        work()
    except ashlar.InvalidArgument as failure:
        assert "belongs to the parent process" in str(failure), failure
        return True
    return False
"""


def run_forking(code):
    ended = run_python(START + code)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout


def test_child_rejects_objects_of_parent():
    printed = run_forking("""
stream, event = ashlar.Stream(machine.device(0)), ashlar.Event(machine.device(0))
buffer, pool, host = allocator.allocate(64, stream), allocator.make_pool(), None
array, view = buffer.array(), buffer.host_view()
pinned = ashlar.HostAllocator(machine.device(0))
host = pinned.allocate(64)
def work():
    for each in (buffer.read, lambda: buffer.write(b"1"), lambda: buffer.fill(1), array.__dlpack__,
                 view.__enter__, stream.synchronize, stream.is_idle, event.record,
                 event.synchronize, lambda: allocator.allocate(8), allocator.stats, allocator.trim,
                 allocator.snapshot, pool.trim, pool.__enter__, machine.step, machine.device,
                 machine.device, lambda: machine.pause_stream(stream), lambda: allocator.pause("x"),
                 lambda: ashlar.Stream(stream.device), lambda: buffer.record_stream(stream),
                 pinned.stats, lambda: pinned.allocate(8), host.numpy,
                 allocator.device.synchronize):
        assert refused(each), each
    assert "parent" in repr(buffer)
    buffer.free()
    print("refused")
in_a_child(work)
buffer.write(b"parent")
print(buffer.read(0, 6))
""")
    assert printed == "refused\nb'parent'\n"


def test_process_pool_creates_own_objects():
    printed = run_forking("""
shared = ashlar.Allocator("sim:0").allocate(64)
def work(number):
    assert refused(shared.read)
    own = ashlar.Allocator("sim:0").allocate(8)
    own.write(bytes([number] * 8))
    return own.read()[0]
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(work, range(6)))
""")
    assert printed == "[0, 1, 2, 3, 4, 5]\n"


@pytest.mark.parametrize("last", ["sys.exit(0)", "os._exit(0)"])
def test_child_exits_if_parent_thread_was_in_hook(last):
    printed = run_forking(f"""
inside, leave = threading.Event(), threading.Event()
def hook(entry):
    inside.set()
    leave.wait()
allocator.add_tracker(hook)
thread = threading.Thread(target=lambda: allocator.allocate(8))
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    {last}
print(os.waitpid(child, 0)[1])
leave.set()
thread.join()
""")
    assert printed == "0\n"


def test_fork_within_hook_works():
    printed = run_forking("""
children = []
def hook(entry):
    if not children:
        children.append(os.fork())
allocator.add_tracker(hook)
buffer = None
try:
    buffer = allocator.allocate(8)
finally:
    if children[0] == 0:
        sys.exit(0)
print(os.waitpid(children[0], 0)[1])
""")
    assert printed == "0\n"


def test_recordings_work_in_children():
    printed = run_forking("""
allocator.start_history()
allocator.allocate(1000).free()
recording = allocator.recording()
with multiprocessing.get_context("fork").Pool(1) as pool:
    pass
in_a_child(lambda: print(recording.summary()["peak_requested_bytes"]))
""")
    assert printed == "1000\n"


@pytest.mark.parametrize(
    "engine", ["engine:paged", "engine:classic", "engine:classic,expandable_segments:True",
               "engine:async"])
def test_children_do_not_hang_while_threads_allocate(engine):
    printed = run_forking(f"""
import signal
own = ashlar.Allocator(machine.device(0), {engine!r})
host = ashlar.HostAllocator(machine.device(0))
kept, kept_host, stream = own.allocate(64), host.allocate(64), ashlar.Stream(machine.device(0))
own.start_history()
is_stopping = threading.Event()
def load():
    while not is_stopping.is_set():
        first, second = own.allocate(1000, stream), own.allocate(3 << 20)
        second.record_stream(stream)
        host.allocate(4096)
threads = [threading.Thread(target=load) for _ in range(3)]
for thread in threads:
    thread.start()
def use_and_free():
    global own, host
    assert refused(lambda: own.allocate(64)) and refused(own.stats)
    assert refused(lambda: host.allocate(64))
    kept.free()
    kept_host.free()
    own = host = None
def use_own():
    ashlar.Allocator("sim:0", {engine!r}).allocate(64).write(b"1")
for number in range(30):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        (use_and_free, use_own, lambda: None)[number % 3]()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0, number
is_stopping.set()
for thread in threads:
    thread.join()
kept.write(b"parent")
print(kept.read(0, 6))
""")
    assert printed == "b'parent'\n"
