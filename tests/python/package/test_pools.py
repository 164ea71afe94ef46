"""Pools."""

import threading

import pytest

import ashlar


def test_what_is_allocated_in_its_scope_is_the_pools(allocator):
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


def test_a_pool_goes_back_when_it_is_let_go(allocator):
    pool = allocator.make_pool()
    with pool:
        assert pool.use_count == 2
        allocator.allocate("10MiB").free()
    assert pool.use_count == 1
    allocator.trim()
    held = allocator.stats()["reserved_bytes.all.current"]
    assert held >= 10 << 20, "somebody still holds the pool"
    del pool
    allocator.trim()
    assert allocator.stats()["reserved_bytes.all.current"] == 0


def test_a_pool_is_in_one_scope_at_a_time(allocator):
    pool = allocator.make_pool()
    with pool:
        with pytest.raises(ashlar.UsageError, match="already"):
            pool.__enter__()
    with pool:
        pass


def test_pausing_gives_memory_back_and_keeps_addresses(allocator):
    pool = allocator.make_pool(tag="weights")
    with pool:
        buffer = allocator.allocate("10MiB")
    buffer.fill(7)
    address = buffer.address
    allocator.pause("weights", backup="host")
    assert allocator.stats()["reserved_bytes.all.current"] < 10 << 20
    allocator.resume("weights")
    assert buffer.address == address and buffer.read(5, 1) == b"\x07"
    with pytest.raises(ashlar.UsageError):
        allocator.pause("no such tag")
    with pytest.raises(ashlar.UsageError, match="backup"):
        allocator.pause("weights", backup="tape")
