# SPDX-License-Identifier: Apache-2.0
"""Programs that share GPU memory with other processes and other libraries."""

import os
import pathlib
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
