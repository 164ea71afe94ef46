# SPDX-License-Identifier: Apache-2.0
"""Pools, and pausing them during host access."""

import threading
import time

import pytest

import ashlar


def test_pool_scope_routes_allocations(allocator):
    pool = allocator.make_pool()
    before = allocator.allocate(1 << 20)
    with pool:
        inside = allocator.allocate(1 << 20)
    after = allocator.allocate(1 << 20)
    assert pool.live() == [inside.address]
    assert pool.id[0] == 0 and pool.id[1] > 0 and "Pool" in repr(pool)
    assert {before.address, after.address}.isdisjoint(pool.live())
    del inside
    assert pool.live() == []


def test_other_threads_are_not_routed(allocator):
    pool = allocator.make_pool()
    elsewhere = []
    with pool:
        thread = threading.Thread(target=lambda: elsewhere.append(allocator.allocate(1 << 20)))
        thread.start()
        thread.join()
    assert pool.live() == [] and len(elsewhere) == 1


def test_released_pool_returns_memory(allocator):
    pool = allocator.make_pool()
    with pool:
        assert pool.use_count == 2
        allocator.allocate("10MiB").free()
    assert pool.use_count == 1
    allocator.trim()
    held = allocator.stats()["reserved_bytes.all.current"]
    assert held >= 10 << 20, "the pool is still retained"
    del pool
    allocator.trim()
    assert allocator.stats()["reserved_bytes.all.current"] == 0


def test_pool_rejects_nested_scopes(allocator):
    pool = allocator.make_pool()
    with pool:
        with pytest.raises(ashlar.InvalidArgument, match="already"):
            pool.__enter__()
    with pool:
        pass


def test_pause_releases_memory_and_keeps_addresses(allocator):
    pool = allocator.make_pool(tag="weights")
    with pool:
        buffer = allocator.allocate("10MiB")
    buffer.fill(7)
    address = buffer.address
    allocator.pause("weights", backup="host")
    assert allocator.stats()["reserved_bytes.all.current"] < 10 << 20
    allocator.resume("weights")
    assert buffer.address == address and buffer.read(5, 1) == b"\x07"
    with pytest.raises(ashlar.InvalidArgument):
        allocator.pause("no such tag")
    with pytest.raises(ashlar.InvalidArgument, match="backup"):
        allocator.pause("weights", backup="tape")


def test_pause_and_host_view_exclude_each_other(allocator):
    with allocator.make_pool(tag="weights"):
        buffer = allocator.allocate(4 << 20)
    buffer.fill(1)
    done, looked, paused = threading.Event(), [], []

    def open_host_views():
        while not done.is_set():
            try:
                with buffer.host_view() as view:
                    looked.append(int(view.numpy()[::4096].sum()))
            except ashlar.InvalidArgument:
                pass  # the pool is paused or about to be paused

    threads = [threading.Thread(target=open_host_views) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        try:
            allocator.pause("weights", backup="host")
        except ashlar.InvalidArgument:
            continue
        paused.append(1)
        allocator.resume("weights")
    done.set()
    for thread in threads:
        thread.join()
    assert set(looked) <= {1024}
    assert looked or paused


def test_host_view_is_rejected_during_pause(machine, allocator):
    stream = ashlar.Stream(machine.device(0))
    with allocator.make_pool(tag="weights"):
        buffer = allocator.allocate(4 << 20, stream)
    other = allocator.allocate(8)
    machine.pause_stream(stream)
    buffer.fill(1)
    paused = threading.Event()

    def pause():  # blocks until the stream has finished its work
        while not paused.is_set():
            try:
                allocator.pause("weights", backup="host")
                paused.set()
            except ashlar.InvalidArgument:
                pass  # a host view is open

    thread = threading.Thread(target=pause)
    thread.start()
    refused = 0
    end = time.monotonic() + 20
    while not refused and not paused.is_set() and time.monotonic() < end:
        try:
            with other.host_view():
                pass
        except ashlar.InvalidArgument as failure:
            assert "being paused" in str(failure)
            refused += 1
    machine.resume_stream(stream)
    thread.join()
    assert refused == 1
    with other.host_view():
        pass


def test_pause_is_rejected_while_host_view_is_open(allocator):
    with allocator.make_pool(tag="weights"):
        buffer = allocator.allocate(1 << 20)
    buffer.write(b"kept")
    with buffer.host_view() as view:
        array = view.numpy()
        with pytest.raises(ashlar.InvalidArgument, match="host views.*are open: 1,"):
            allocator.pause("weights")
    del array, view
    allocator.pause("weights", backup="host")
    with pytest.raises(ashlar.InvalidArgument):
        buffer.host_view().__enter__()
    allocator.resume("weights")
    assert buffer.read(0, 4) == b"kept"
