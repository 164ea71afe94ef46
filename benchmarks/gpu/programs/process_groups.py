# SPDX-License-Identifier: Apache-2.0
"""Programs with process groups of one rank."""

import os


def _start(torch):
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
    store = torch.distributed.FileStore(os.path.abspath("store"), 1)
    torch.cuda.set_device(0)
    torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1,
                                         device_id=torch.device("cuda:0"))


def _steps(torch, model, count=4):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        loss = model(torch.linspace(-1, 1, 32 * 128, device="cuda").view(32, 128)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def _model(torch):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(),
                               torch.nn.Linear(256, 128)).cuda()


def ddp(torch):
    _start(torch)
    model = torch.nn.parallel.DistributedDataParallel(_model(torch), device_ids=[0])
    losses = _steps(torch, model)
    torch.distributed.destroy_process_group()
    return {"losses": losses}


def fsdp2(torch):
    from torch.distributed.fsdp import fully_shard
    _start(torch)
    model = _model(torch)
    for layer in (model[0], model[2], model):
        fully_shard(layer)
    losses = _steps(torch, model)
    torch.distributed.destroy_process_group()
    return {"losses": losses}


def collectives(torch):
    _start(torch)
    values = [torch.full((1 << 20,), 2.0, device="cuda") for _ in range(4)]
    works = [torch.distributed.all_reduce(value, async_op=True) for value in values]
    for work in works:
        work.wait()
    gathered = torch.empty(1 << 20, device="cuda")
    torch.distributed.all_gather_into_tensor(gathered, values[0])
    total = float(sum(value.sum() for value in values) + gathered.sum())
    torch.distributed.destroy_process_group()
    return {"total": total}


def symmetric_memory(torch):
    import torch.distributed._symmetric_memory as symm
    _start(torch)
    group = torch.distributed.group.WORLD
    tensor = symm.empty(1 << 20, device="cuda", dtype=torch.float32)
    handle = symm.rendezvous(tensor, group)
    tensor.fill_(2.0)
    buffer = handle.get_buffer(0, (1 << 20,), torch.float32)
    handle.barrier()
    total = float(buffer.sum())
    torch.cuda.synchronize()
    return {"total": total, "size": handle.world_size}


def mem_tracker(torch):
    from torch.distributed._tools.mem_tracker import MemTracker
    model = _model(torch)
    optimizer = torch.optim.Adam(model.parameters())
    tracker = MemTracker()
    tracker.track_external(model, optimizer)
    with tracker:
        for _ in range(2):
            model(torch.ones(32, 128, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            tracker.reset_mod_stats()  # a tracker follows one iteration
    peak = tracker.get_tracker_snapshot("peak")
    totals = [int(snapshot["Total"]) for snapshot in peak.values() if "Total" in snapshot]
    return {"peak": max(totals), "_measured": torch.cuda.max_memory_allocated()}
