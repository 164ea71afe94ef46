# SPDX-License-Identifier: Apache-2.0
"""Threads and the GIL: calls that wait release the GIL, and concurrent calls have no data races."""

import collections
import random
import threading
import time

import numpy
import pytest

import ashlar
from conftest import TRACES, live_bytes


def run_all(*functions):
    """Runs the functions concurrently and raises the first exception."""
    failures = []

    def guarded(function):
        try:
            function()
        except BaseException as failure:  # pylint: disable=broad-except
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=[function]) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_waiting_calls_release_the_gil(machine, allocator):
    stream = ashlar.Stream(machine.device(0))
    event = ashlar.Event(machine.device(0))
    buffer = allocator.allocate(8, stream)
    machine.pause_stream(stream)
    buffer.fill(1)
    event.record(stream)
    waits = [stream.synchronize, event.synchronize, machine.device(0).synchronize, buffer.read,
             lambda: buffer.write(b"12345678"), lambda: buffer.host_view().__enter__()]
    threads = [threading.Thread(target=wait) for wait in waits]
    for thread in threads:
        thread.start()
    # If a call held the GIL, this line would not be reached.
    assert sum(range(10000)) and all(thread.is_alive() for thread in threads)
    machine.resume_stream(stream)
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("method", ["report", "tune", "replay"])
def test_analysis_releases_the_gil(method):
    analyze = getattr(ashlar.load(TRACES / "leaky.pickle.xz"), method)
    call_state = 0  # odd during a call
    is_over = threading.Event()

    def analyze_repeatedly():
        nonlocal call_state
        while not is_over.is_set():
            call_state += 1
            analyze()
            call_state += 1

    analyzer = threading.Thread(target=analyze_repeatedly)
    analyzer.start()
    # If the call held the GIL, this loop could not observe the same call four times.
    deadline = time.monotonic() + 60
    observations = collections.Counter()
    while max(observations.values(), default=0) < 4 and time.monotonic() < deadline:
        seen = call_state
        observations[seen] += seen % 2
        time.sleep(0.0001)
    is_over.set()
    analyzer.join()
    assert max(observations.values()) >= 4


class Worker:
    """Allocates, writes, checks and frees on its own stream."""

    def __init__(self, allocator, machine, seed):
        self.allocator = allocator
        self.stream = ashlar.Stream(machine.device(0))
        self.random = random.Random(seed)

    def __call__(self):
        live = []
        for step in range(150):
            buffer = self.allocator.allocate(self.random.randrange(1, 1 << 16), self.stream)
            mark = step % 251
            buffer.fill(mark)
            live.append((buffer, mark))
            if self.random.random() < 0.6:
                freed, mark = live.pop(self.random.randrange(len(live)))
                with freed.host_view() as view:
                    taken = numpy.from_dlpack(view)
                    assert taken[0] == mark and taken[-1] == mark
                freed.free()
                if self.random.random() < 0.5:
                    del taken  # otherwise the next assignment or the end of the function frees it
        for buffer, mark in live:
            assert buffer.read(0, 1) == bytes([mark])


@pytest.mark.parametrize("engine", ["paged", "classic"])
def test_threads_allocate_concurrently(machine, engine):
    allocator = ashlar.Allocator(machine.device(0), f"engine:{engine}")
    done = threading.Event()
    seen = []
    allocator.add_tracker(lambda entry: seen.append(entry["action"]))
    allocator.start_history("all", max_entries=1000)

    def hold_the_gil():
        total = 0
        while not done.is_set():
            total += sum(range(1000))

    def query():
        while not done.is_set():
            allocator.stats()
            allocator.snapshot()
            repr(allocator)

    def work():
        try:
            run_all(*(Worker(allocator, machine, seed) for seed in range(4)))
        finally:
            done.set()

    run_all(hold_the_gil, query, work)
    assert live_bytes(allocator) == 0
    assert seen.count("alloc") == 4 * 150
    assert seen.count("free_completed") == 4 * 150


def test_concurrent_free_is_safe(allocator):
    for _ in range(50):
        buffer = allocator.allocate(1000)
        barrier = threading.Barrier(4)

        def free():
            barrier.wait()
            buffer.free()

        run_all(free, free, free, free)
        assert buffer.is_freed and live_bytes(allocator) == 0


def test_concurrent_read_and_free_is_safe(allocator):
    for _ in range(50):
        buffer = allocator.allocate(1000)
        buffer.fill(5)
        barrier = threading.Barrier(2)

        def read():
            barrier.wait()
            try:
                assert buffer.read() == b"\x05" * 1000
            except ashlar.InvalidArgument:
                pass

        def free():
            barrier.wait()
            buffer.free()

        run_all(read, free)


def test_hooks_of_many_threads_are_serialized(allocator):
    heard = []
    allocator.add_oom_observer(lambda notice: heard.append(notice["wanted_bytes"]))

    def fail():
        for _ in range(10):
            with pytest.raises(MemoryError):
                allocator.allocate("2GiB")

    run_all(fail, fail, fail, fail)
    assert heard == [2 << 30] * 40
