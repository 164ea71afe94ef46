# SPDX-License-Identifier: Apache-2.0
"""Programs that use PyTorch alone: training, streams, statistics, history, pools, limits."""

import os
import pickle
import subprocess
import sys

MIB = 1 << 20


def _numbers(tensor):
    return [float(value) for value in tensor.detach().flatten()[:8].float().cpu()]


def _train(torch, model, batch, steps=5, optimizer=None, target=None):
    """Trains a model to reproduce a target. Returns the losses."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)
    target = torch.zeros_like(model(batch)).detach() if target is None else target
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(batch), target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def tensors(torch):
    """Allocates and frees tensors of many sizes."""
    kept = []
    for i in range(200):
        kept.append(torch.full((1 + i * i * 37,), float(i), device="cuda"))
        if i % 3 == 0:
            kept.pop(i % len(kept))
    total = sum(float(each[-1]) for each in kept)
    requested = torch.cuda.memory_stats()["requested_bytes.all.current"]
    return {"total": total, "requested": requested}


def statistics(torch):
    """Statistics have PyTorch's names and are consistent."""
    memory = torch.empty(10 * MIB, dtype=torch.uint8, device="cuda")
    stats = torch.cuda.memory_stats()
    nested = torch.cuda.memory_stats_as_nested_dict()
    del memory
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    after = torch.cuda.memory_stats()
    return {"names": sorted(stats), "requested": stats["requested_bytes.all.current"],
            "nested": sorted(nested), "allocated": torch.cuda.memory_allocated(),
            "after": after["allocation.all.allocated"],
            "is_consistent": torch.cuda.max_memory_allocated() >= 0
            and stats["reserved_bytes.all.current"] >= stats["allocated_bytes.all.current"],
            "summary": len(torch.cuda.memory_summary()) > 1000,
            "backend": torch.cuda.get_allocator_backend()}


def mlp_training(torch):
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(),
                                torch.nn.Linear(2048, 64)).cuda()
    return {"losses": _train(torch, model, torch.randn(256, 512, device="cuda"))}


def mixed_precision(torch):
    """A convolutional network with autocast and a gradient scaler."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, stride=2), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        torch.nn.Linear(64, 10)).cuda().to(memory_format=torch.channels_last)
    scaler = torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images = torch.randn(32, 3, 64, 64, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.arange(32, device="cuda") % 10
    losses = []
    for _ in range(5):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss))
    return {"losses": losses}


def transformer_training(torch):
    layer = torch.nn.TransformerEncoderLayer(256, 8, 512, batch_first=True, dropout=0.1)
    model = torch.nn.TransformerEncoder(layer, 3).cuda()
    return {"~losses": _train(torch, model, torch.randn(8, 128, 256, device="cuda"))}


def attention(torch):
    query, key, value = (torch.randn(4, 8, 256, 64, device="cuda", dtype=torch.bfloat16,
                                     requires_grad=True) for _ in range(3))
    out = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    out.sum().backward()
    return {"out": _numbers(out), "~grad": _numbers(query.grad)}


def checkpointed_activations(torch):
    from torch.utils.checkpoint import checkpoint
    layers = torch.nn.ModuleList(torch.nn.Linear(512, 512) for _ in range(6)).cuda()
    x = torch.randn(64, 512, device="cuda", requires_grad=True)
    value = x
    for layer in layers:
        value = checkpoint(lambda y, layer=layer: torch.relu(layer(y)), value, use_reentrant=False)
    value.sum().backward()
    return {"grad": _numbers(x.grad)}


def save_on_cpu(torch):
    x = torch.randn(512, 512, device="cuda", requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        value = (x.sin() * x.cos()).exp().sum()
    value.backward()
    return {"grad": _numbers(x.grad)}


def streams(torch):
    """Side streams with record_stream; memory must not be reused too early."""
    results = []
    side = [torch.cuda.Stream() for _ in range(4)]
    for i in range(50):
        given = torch.full((MIB,), float(i), device="cuda")
        stream = side[i % 4]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            result = given * 2
            given.record_stream(stream)
        del given
        torch.full((MIB,), -1.0, device="cuda")
        torch.cuda.current_stream().wait_stream(stream)
        result.record_stream(torch.cuda.current_stream())
        results.append(result.sum())
    return {"sums": [float(each) for each in results]}


def pinned_transfers(torch):
    host = torch.arange(4 * MIB, dtype=torch.float32).pin_memory()
    device = host.to("cuda", non_blocking=True)
    back = torch.empty_like(host, pin_memory=True)
    back.copy_(device * 2, non_blocking=True)
    torch.cuda.synchronize()
    stats = torch.cuda.memory.host_memory_stats() if hasattr(
        torch.cuda.memory, "host_memory_stats") else {}
    return {"last": float(back[-1]), "_stats": len(stats)}


def data_loader(torch):
    """Worker processes that are forked before the first use of the GPU, and pinned batches."""
    data = torch.utils.data.TensorDataset(torch.arange(1024.0).view(256, 4))
    loader = torch.utils.data.DataLoader(data, batch_size=32, num_workers=2, pin_memory=True,
                                         multiprocessing_context="fork")
    return {"sums": [float(batch[0].cuda(non_blocking=True).sum()) for batch in loader]}


class _HoldsTensor:
    """A data set that refers to memory of the GPU, which worker processes inherit and drop."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __len__(self):
        return 64

    def __getitem__(self, index):
        self.tensor = None
        return float(index)


def data_loader_after_first_use(torch):
    """Worker processes that are forked after the first use of the GPU, as in most programs."""
    kept = torch.ones(1 << 20, device="cuda")
    loader = torch.utils.data.DataLoader(_HoldsTensor(kept * 2), batch_size=16, num_workers=2,
                                         pin_memory=True, multiprocessing_context="fork")
    sums = []
    for _ in range(2):
        sums += [float(batch.cuda(non_blocking=True).sum()) for batch in loader]
    return {"sums": sums, "kept": float(kept.sum()), "data": float(loader.dataset.tensor.sum())}


def out_of_memory(torch):
    """An allocation fails with PyTorch's message, and the program continues."""
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *arguments: seen.append(len(arguments)))
    total = torch.cuda.mem_get_info()[1]
    try:
        torch.empty(2 * total, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as failure:
        message = str(failure)
    begin = message.split(". GPU")[0]
    ok = torch.ones(1000, device="cuda").sum()
    return {"begin": begin, "observers": seen, "sum": float(ok),
            "has_figures": "is allocated by PyTorch" in message and "total capacity" in message,
            "ooms": torch.cuda.memory_stats()["num_ooms"]}


def retry_with_smaller_batch(torch):
    """Halves the batch until it fits under a memory limit."""
    torch.cuda.set_per_process_memory_fraction(0.02)
    batch, failures = 1 << 12, 0
    while True:
        try:
            x = torch.randn(batch, 1 << 18, device="cuda")
            (x * 2).sum().item()
            break
        except torch.OutOfMemoryError:
            failures += 1
            batch //= 2
            torch.cuda.empty_cache()
    return {"batch": batch, "failures": failures,
            "fraction": torch.cuda.get_per_process_memory_fraction()}


def history(torch):
    """Memory history with Python stacks."""
    torch.cuda.memory._record_memory_history(max_entries=1000)

    def allocate_here():
        return torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")

    kept = allocate_here()
    allocate_here()
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._dump_snapshot("history.pickle")
    with open("history.pickle", "rb") as file:
        dumped = pickle.load(file)
    torch.cuda.memory._record_memory_history(enabled=None)
    entries = [entry for entry in snapshot["device_traces"][0] if entry["action"] in
               ("alloc", "free_requested", "free_completed")]
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]
              if block["state"] == "active_allocated"]
    return {"actions": [entry["action"] for entry in entries],
            "sizes": [entry["size"] for entry in entries],
            "named": [any(frame["name"] == "allocate_here" for frame in entry["frames"])
                      for entry in entries],
            "keys": sorted(entries[0]),
            "segment_keys": sorted(snapshot["segments"][0]),
            "block_frames": any(frame["name"] == "allocate_here" for block in blocks
                                for frame in block.get("frames", [])),
            "snapshot_keys": sorted(snapshot), "dumped": sorted(dumped),
            "address": entries[0]["addr"] == kept.data_ptr()}


def profiler(torch):
    """Memory events of the profiler."""
    from torch.profiler import ProfilerActivity, profile
    model = torch.nn.Linear(1024, 1024).cuda()
    x = torch.randn(256, 1024, device="cuda")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
                 profile_memory=True) as recorded:
        model(x).relu().sum().item()
    usage = {event.key: event.self_device_memory_usage for event in recorded.key_averages()
             if event.self_device_memory_usage != 0}
    return {"usage": {key: usage[key] for key in sorted(usage) if key.startswith("aten::")}}


def allocator_settings(torch):
    """Settings at run time are accepted and reported."""
    torch.cuda.memory._set_allocator_settings("max_split_size_mb:256,expandable_segments:False")
    torch.empty(MIB, device="cuda")
    settings = torch.cuda.memory._snapshot()["allocator_settings"]
    return {"settings": {key: settings[key] for key in sorted(settings)
                         if isinstance(settings[key], (bool, int, str))}}


def raw_allocations(torch):
    """torch.cuda.caching_allocator_alloc and _delete."""
    torch.empty(1, device="cuda")  # statistics are empty before the first allocation
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    stream = torch.cuda.Stream()
    memory = torch.cuda.caching_allocator_alloc(5 * MIB, stream=stream)
    between = torch.cuda.memory_stats()["requested_bytes.all.current"]
    torch.cuda.caching_allocator_delete(memory)
    after = torch.cuda.memory_stats()["requested_bytes.all.current"]
    return {"grew": between - before, "after": after - before}


def without_caching(torch):
    torch.cuda.caching_allocator_enable(False)
    value = float((torch.ones(MIB, device="cuda") * 2).sum())
    reserved = torch.cuda.memory_reserved()
    torch.cuda.caching_allocator_enable(True)
    return {"value": value, "reserved_is_small": reserved < 64 * MIB}


def run_unmodified(torch):
    """python -m ashlar.torch runs a script with its own arguments."""
    with open("script.py", "w", encoding="utf-8") as file:
        file.write("import sys, torch\n"
                   "print(sys.argv[1:], float(torch.ones(10, device='cuda').sum()), __name__)\n")
    prefix = ["-m", "ashlar.torch"] if os.environ["PROGRAM_WAY"] == "ashlar" else []
    search = os.pathsep.join(sys.path[:3])
    done = subprocess.run([sys.executable, *prefix, "script.py", "--steps", "3"],
                          capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": search})
    return {"output": done.stdout}


def optimizers(torch):
    """Fused and foreach optimizers."""
    losses = []
    for options in ({"fused": True}, {"foreach": True}):
        torch.manual_seed(1)
        model = torch.nn.Linear(300, 300).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), **options)
        losses += _train(torch, model, torch.randn(64, 300, device="cuda"), optimizer=optimizer)
    return {"losses": losses}
