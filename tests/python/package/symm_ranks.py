# SPDX-License-Identifier: Apache-2.0
"""A stand-in for torch.distributed's stores, and the programs of the ranks in test_symm.py.

  symm_ranks.py PROGRAM RANK WORLD_SIZE PORT"""

import multiprocessing.managers
import os
import sys
import threading
import types

TOKEN = b"symm_ranks"
LIMIT_S = 60


class KeyValues:
    """The server's part: the functions that stores of torch.distributed have. `get` of a missing
    key fails, because a real store would block."""

    def __init__(self):
        self.mutex = threading.Lock()
        self.values = {}

    def set(self, key, value):
        with self.mutex:
            self.values[key] = value.encode() if isinstance(value, str) else bytes(value)

    def get(self, key):
        with self.mutex:
            return self.values[key]

    def add(self, key, amount):
        with self.mutex:
            value = int(self.values.get(key, b"0")) + amount
            self.values[key] = b"%d" % value
            return value

    def check(self, keys):
        with self.mutex:
            return all(key in self.values for key in keys)

    def delete_key(self, key):
        with self.mutex:
            return self.values.pop(key, None) is not None

    def live(self):
        """Returns the keys that were not erased."""
        with self.mutex:
            return sorted(key for key, value in self.values.items() if value != b"x")


class Manager(multiprocessing.managers.BaseManager):
    pass


def serve():
    """Serves a store. Returns the manager and its port."""
    store = KeyValues()
    Manager.register("store", callable=lambda: store)
    manager = Manager(("127.0.0.1", 0), TOKEN)
    server = manager.get_server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return store, server.address[1]


def connect(port):
    Manager.register("store")
    manager = Manager(("127.0.0.1", port), TOKEN)
    manager.connect()
    return manager.store()


def operations(symm, np, store, rank, world_size):
    """All operations on host memory."""
    heap = symm.Heap()
    group = symm.Group.join(heap, store, rank, world_size, name="all", timeout_s=LIMIT_S)
    assert (group.rank, group.world_size) == (rank, world_size)
    group.check()
    buffer = heap.allocate(4096)
    handle = group.rendezvous(buffer, LIMIT_S)
    own = buffer.view("float32").numpy()
    peer = (rank + 1) % world_size
    ranks = range(world_size)

    own[:] = rank
    handle.barrier(timeout_s=LIMIT_S)
    assert handle.view(peer, "float32", 4, 16).numpy().tolist() == [peer] * 4
    handle.barrier(timeout_s=LIMIT_S)
    handle.put(peer, np.full(3, 7 + rank, np.float32), 8)
    handle.post(peer, b"post" + bytes([rank] * 4), 32)
    handle.fence()
    handle.quiet()
    handle.put_signal(peer, 1, LIMIT_S)
    before = (rank - 1) % world_size
    handle.wait_signal(before, 1, LIMIT_S)
    assert own[2:5].tolist() == [7 + before] * 3
    assert bytes(own.view(np.uint8)[32:40]) == b"post" + bytes([before] * 4)
    copied = bytearray(12)
    handle.get(peer, copied, 8)
    assert np.frombuffer(copied, np.float32).tolist() == [7 + rank] * 3
    handle.add_signal(peer, 5)
    handle.wait_for_value(before, 5, timeout_s=LIMIT_S)
    assert handle.counter_value(before) == 5
    pad = handle.signal_pad(peer)
    pad.numpy()[0] = 11
    handle.barrier(timeout_s=LIMIT_S)
    assert handle.signal_pad(rank).numpy()[0] == 11

    own[:] = rank + 1
    handle.all_reduce(own[:8], timeout_s=LIMIT_S)
    assert own[:9].tolist() == [sum(ranks) + world_size] * 8 + [rank + 1]
    out = np.zeros(8, np.float32)
    handle.all_reduce(own[8:16], "max", out=out, timeout_s=LIMIT_S)
    assert out.tolist() == [world_size] * 8
    handle.reduce(own[8:16], 0, "min", out=out if rank == 0 else None, timeout_s=LIMIT_S)
    assert rank != 0 or out.tolist() == [1] * 8
    integers = buffer.view("int32", 2 * world_size)
    integers.numpy()[:] = np.arange(2 * world_size)
    part = np.zeros(2, np.int32)
    handle.reduce_scatter(integers, part, timeout_s=LIMIT_S)
    assert part.tolist() == [world_size * 2 * rank, world_size * (2 * rank + 1)]
    handle.all_gather(np.array([rank, -rank], np.int32), integers, timeout_s=LIMIT_S)
    assert integers.numpy().tolist() == [value for each in ranks for value in (each, -each)]
    swapped = np.zeros(2 * world_size, np.int32)
    handle.all_to_all(integers, swapped, timeout_s=LIMIT_S)
    assert swapped.tolist() == [rank, -rank] * world_size
    halves = buffer.view("bfloat16", 2)
    halves.numpy()[:] = 0x3F80  # 1.0
    handle.all_reduce(halves, timeout_s=LIMIT_S)
    assert halves.numpy()[0] == {2: 0x4000, 3: 0x4040}[world_size]
    own[:4] = rank
    handle.broadcast(own[:4], 1, timeout_s=LIMIT_S)
    assert own[:4].tolist() == [1] * 4

    middle = group.rendezvous(own[16:32])  # local: the buffer is known
    own[16] = rank
    middle.all_reduce(own[16:17], timeout_s=LIMIT_S)
    assert own[16] == sum(ranks)
    pair = group.sub_group("pair", list(ranks), LIMIT_S)
    pair.leave(LIMIT_S)
    group.leave(LIMIT_S)


class FakeStream:
    """A stream of PyTorch."""

    cuda_stream = 0


def device(symm, np, store, rank, world_size):
    """Memory of a GPU that the ranks share, with queued operations."""
    heap = symm.Heap("cuda:0")
    group = symm.Group.join(heap, store, rank, world_size, timeout_s=LIMIT_S,
                            may_share_device=True)
    buffer = heap.allocate(4096)
    handle = group.rendezvous(buffer, LIMIT_S)
    view = buffer.view("float32", 16)
    assert view.__cuda_array_interface__["data"] == (buffer.address, False)
    out = heap.allocate(64).view("float32")
    handle.put(rank, np.full(16, rank + 1, np.float32))
    handle.all_reduce(view, timeout_s=LIMIT_S)
    handle.barrier(stream=FakeStream())
    handle.all_reduce(view, "max", out=out, stream=FakeStream())
    group.finish(FakeStream())
    total = sum(range(world_size + 1))
    values = np.zeros(16, np.float32)
    handle.get((rank + 1) % world_size, values)
    assert values.tolist() == [total] * 16, values
    group.leave(LIMIT_S)


def process_group(symm, np, store, rank, world_size):
    """Joins through stand-ins for torch.distributed's modules."""
    distributed = types.ModuleType("torch.distributed")
    distributed.get_process_group_ranks = lambda group: list(group or range(world_size))
    distributed.get_rank = lambda group=None: list(group or range(world_size)).index(rank)
    c10d = types.ModuleType("torch.distributed.distributed_c10d")
    c10d._get_default_store = lambda: store
    sys.modules.update({"torch.distributed": distributed, c10d.__name__: c10d})
    heap = symm.Heap()
    world = symm.Group.from_process_group(heap, timeout_s=LIMIT_S)
    assert (world.rank, world.world_size) == (rank, world_size)
    if rank > 0:
        some = symm.Group.from_process_group(heap, list(range(1, world_size)), timeout_s=LIMIT_S)
        assert (some.rank, some.world_size) == (rank - 1, world_size - 1)
        some.leave(LIMIT_S)
    world.leave(LIMIT_S)


def lost_rank(symm, np, store, rank, world_size):
    """Rank 1 dies; the others hear of it."""
    import ashlar
    heap = symm.Heap(heartbeat_s=0.1, lease_s=2.0)
    group = symm.Group.join(heap, store, rank, world_size, timeout_s=LIMIT_S)
    handle = group.rendezvous(heap.allocate(64), LIMIT_S)
    handle.barrier(timeout_s=LIMIT_S)
    if rank == 1:
        os._exit(0)
    try:
        handle.barrier(timeout_s=LIMIT_S)
    except ashlar.PeerError as failure:
        assert "rank 1" in str(failure), failure
        return
    raise AssertionError("no PeerError")


def end_without_leaving(symm, np, store, rank, world_size):
    """The interpreter ends while heartbeats call the store."""
    heap = symm.Heap(heartbeat_s=0.001, lease_s=30.0)
    group = symm.Group.join(heap, store, rank, world_size, timeout_s=LIMIT_S)
    handle = group.rendezvous(heap.allocate(64), LIMIT_S)
    handle.barrier(timeout_s=LIMIT_S)
    sys.kept = handle  # keeps the group alive until the interpreter's end


def main(name, rank, world_size, port):
    import numpy
    from ashlar import symm
    globals()[name](symm, numpy, connect(int(port)), int(rank), int(world_size))
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
