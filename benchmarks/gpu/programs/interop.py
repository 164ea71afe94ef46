# SPDX-License-Identifier: Apache-2.0
"""Programs that share GPU memory with other processes and other libraries."""

import json
import os
import pathlib
import socket
import sys


def _enable_if_ashlar():
    """Enables Ashlar in a child process, as the child's main module would."""
    if os.environ.get("PROGRAM_WAY") == "ashlar":
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
        import ashlar.torch
        if not ashlar.torch.is_enabled():
            ashlar.torch.enable(native=True)


def _double_all(incoming, outgoing):
    """A child process: doubles the tensors that it receives in place, and returns their sums."""
    _enable_if_ashlar()
    while True:
        tensor = incoming.get()
        if tensor is None:
            return
        tensor.mul_(2)
        outgoing.put(float(tensor.sum()))
        del tensor


def _double_natively(incoming, outgoing):
    os.environ["PROGRAM_WAY"] = "native"
    _double_all(incoming, outgoing)


def _exchange(torch, child):
    context = torch.multiprocessing.get_context("spawn")
    incoming, outgoing = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(incoming, outgoing))
    process.start()
    sums, own = [], []
    for count in (1000, 1 << 20, 5 << 20):
        tensor = torch.ones(count, device="cuda")
        torch.cuda.synchronize()
        incoming.put(tensor)
        sums.append(outgoing.get(timeout=120))
        own.append(float(tensor.sum()))
    incoming.put(None)
    process.join(60)
    return {"sums": sums, "own": own, "exit": process.exitcode}


def multiprocessing_tensors(torch):
    """CUDA tensors in torch.multiprocessing; both processes use the same allocator."""
    return _exchange(torch, _double_all)


def multiprocessing_with_native(torch):
    """The receiving process uses PyTorch's allocator."""
    return _exchange(torch, _double_natively)


def _share_with_a_peer(rank, folder, port):
    """One of two ranks on one GPU, which join through torch.distributed's TCPStore."""
    _enable_if_ashlar()
    import torch
    import torch.distributed as distributed
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
    from ashlar import symm
    torch.cuda.set_device(0)
    distributed.init_process_group("gloo", rank=rank, world_size=2,
                                   init_method=f"tcp://127.0.0.1:{port}")
    heap = symm.Heap(torch.device("cuda", 0))
    group = symm.Group.from_process_group(heap, timeout_s=60, may_share_device=True)
    buffer = heap.allocate(1 << 20)
    handle = group.rendezvous(buffer, 60)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        own = buffer.view("float32").tensor()
        own.fill_(rank + 1)
        handle.barrier(stream=stream)
        theirs = handle.view(1 - rank, "float32").tensor().clone()
        handle.barrier(stream=stream)
        handle.all_reduce(own[:1000], stream=stream)
        total = torch.empty(1000, device="cuda")
        handle.all_reduce(own[1000:2000], "max", out=total, stream=stream)
        halves = buffer.view("bfloat16", 64, 1 << 19).tensor().fill_(1.5)
        handle.all_reduce(halves, stream=stream)
    group.finish(stream)
    exported = torch.from_dlpack(buffer.view("float32", (2, 500)))
    result = {"theirs": float(theirs.sum()), "reduced": float(own[:1000].sum()),
              "max": float(total.sum()), "halves": float(halves.float().sum()),
              "shape": list(exported.shape), "exported": float(exported.sum())}
    torch.cuda.synchronize()
    group.leave(60)
    distributed.destroy_process_group()
    with open(f"{folder}/rank-{rank}.json", "w", encoding="utf-8") as file:
        json.dump(result, file)


def symmetric_python(torch):
    """ashlar.symm on tensors of PyTorch, in two processes."""
    folder = os.getcwd()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    torch.multiprocessing.spawn(_share_with_a_peer, (folder, port), nprocs=2)
    results = {}
    for rank in range(2):
        with open(f"{folder}/rank-{rank}.json", encoding="utf-8") as file:
            results[f"rank {rank}"] = json.load(file)
    return results


def cupy(torch):
    """CuPy in the same process: DLPack in both directions, and CuPy's own pool."""
    import cupy as library
    tensor = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
    array = library.from_dlpack(tensor)
    array *= 2
    own = library.ones(1 << 20, dtype=library.float32)
    back = torch.from_dlpack(array + own)
    library.cuda.Stream.null.synchronize()
    return {"sum": float(back.double().sum()), "shared": float(tensor[-1])}


def cupy_from_torch(torch):
    """CuPy takes its memory from PyTorch's allocator."""
    import cupy as library

    def allocate(bytes_):
        storage = torch.UntypedStorage(bytes_, device="cuda:0")
        memory = library.cuda.UnownedMemory(storage.data_ptr(), bytes_, storage, 0)
        return library.cuda.MemoryPointer(memory, 0)

    with library.cuda.using_allocator(allocate):
        array = library.arange(1 << 20, dtype=library.float64)
        total = float((array * array).sum())
    return {"total": total}
