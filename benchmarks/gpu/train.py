#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small model on the GPU, deterministically for a seed and any allocator, and prints
JSON: losses, steps per second, and peak memory.

  benchmarks/gpu/train.py WORKLOAD --way WAY
  WORKLOAD             transformer (varying lengths), convolution (varying resolution), or experts
                       (on several streams)
  --way native         PyTorch's allocator with its defaults
  --way expandable     PyTorch's allocator with expandable_segments:True
  --way ashlar         ashlar.torch.enable()
  --steps N            the number of steps; or
  --seconds S          as many steps as fit, for other runs to repeat
  --record FILE        PyTorch's memory history, for `ashlar replay`; not with --way ashlar

Each run is a separate process, because an allocator is chosen before the first tensor. The first
steps are not timed. Needs PyTorch; for --way ashlar, libashlar_torch.so (ASHLAR_TORCH_LIBRARY)."""

import argparse
import json
import os
import pathlib
import random
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WARM_UP = 10  # number of steps that are not timed
WAYS = ("native", "expandable", "ashlar")
MAX_ENTRIES = 8_000_000  # capacity of the recorded history


def choose_allocator(way):
    """Sets the environment before PyTorch is imported. Returns the function for statistics."""
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"):
        os.environ.pop(name, None)
    # This setting makes matrix products deterministic.
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    if way == "expandable":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    if way == "ashlar":
        sys.path.insert(0, str(ROOT / "python"))
        import ashlar.torch
        ashlar.torch.enable()
        return ashlar.torch.memory_stats
    import torch
    return torch.cuda.memory_stats


# --- workloads: each returns a function that runs one step and returns its loss -------------------


def transformer(torch):
    """Trains a decoder with varying sequence lengths."""
    nn = torch.nn
    width, heads, layers, words, batch = 768, 12, 6, 8192, 8
    draw = random.Random(1)

    class Layer(nn.Module):
        """A layer with unfused attention, because the fused kernels are not deterministic."""

        def __init__(self):
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                       nn.Linear(4 * width, width))

        def forward(self, x, mask):
            count, length, _ = x.shape
            parts = self.mix(self.before(x)).view(count, length, 3, heads, width // heads)
            query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
            scores = query @ key.transpose(-2, -1) * (width // heads) ** -0.5
            weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
            x = x + self.out((weights @ value).transpose(1, 2).reshape(count, length, width))
            return x + self.feed_forward(self.between(x))

    embed = nn.Embedding(words, width).cuda()
    stack = nn.ModuleList(Layer() for _ in range(layers)).cuda()
    read = nn.Linear(width, words).cuda()
    trained = [*embed.parameters(), *stack.parameters(), *read.parameters()]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)

    def step():
        length = draw.randrange(64, 769)
        text = torch.randint(words, (batch, length + 1), device="cuda")
        mask = torch.ones(length, length, dtype=torch.bool, device="cuda").triu(1)
        with torch.autocast("cuda", torch.bfloat16):
            x = embed(text[:, :-1])
            for layer in stack:
                x = layer(x, mask)
            loss = nn.functional.cross_entropy(read(x).flatten(0, 1).float(),
                                               text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def convolution(torch):
    """Trains a residual network with varying resolution."""
    nn = torch.nn
    draw = random.Random(2)
    batch = 32

    class Residual(nn.Module):
        def __init__(self, inner, outer, stride):
            super().__init__()
            self.way = nn.Sequential(
                nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(),
                nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer))
            self.short = nn.Conv2d(inner, outer, 1, stride, bias=False)

        def forward(self, x):
            return torch.relu(self.way(x) + self.short(x))

    widths = (64, 64, 128, 256, 512)
    body = nn.Sequential(
        nn.Conv2d(3, widths[0], 7, 2, 3, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU(),
        *(Residual(inner, outer, 2 if i else 1)
          for i, (inner, outer) in enumerate(zip(widths, widths[1:])))).cuda()
    head = nn.Linear(widths[-1], 100).cuda()
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01, momentum=0.9)

    def step():
        side = draw.randrange(96, 289, 4)
        images = torch.randn(batch, 3, side, side, device="cuda")
        labels = torch.randint(100, (batch,), device="cuda")
        loss = nn.functional.cross_entropy(head(body(images).mean((2, 3))), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def experts(torch):
    """Trains a mixture of experts on four streams, with varying numbers of tokens."""
    nn = torch.nn
    width, count, layers = 1024, 8, 3
    draw = random.Random(3)
    streams = [torch.cuda.Stream() for _ in range(4)]

    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(width, count)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
                for _ in range(count))

        def forward(self, x):
            here = torch.cuda.current_stream()
            weight, chosen = self.gate(x).softmax(-1).max(-1)
            parts = [(chosen == i).nonzero().squeeze(1) for i in range(count)]
            outputs = []
            for i, (expert, part) in enumerate(zip(self.experts, parts)):
                stream = streams[i % len(streams)]
                stream.wait_stream(here)
                with torch.cuda.stream(stream):
                    for used in (x, part, weight):
                        used.record_stream(stream)
                    outputs.append(expert(x[part]) * weight[part, None])
            for stream in streams:
                here.wait_stream(stream)
            result = torch.zeros_like(x)
            for part, output in zip(parts, outputs):
                output.record_stream(here)
                result = result.index_copy(0, part, output)
            return x + result

    model = nn.Sequential(*(Mixture() for _ in range(layers))).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        x = torch.randn(draw.randrange(2048, 8193), width, device="cuda")
        loss = (model(x) - x.roll(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


WORKLOADS = {"transformer": transformer, "convolution": convolution, "experts": experts}


# --- running --------------------------------------------------------------------------------------


def run(args):
    """Runs the workload and returns the JSON object."""
    memory_stats = choose_allocator(args.way)
    import torch
    import torch.utils.deterministic
    if args.record:
        torch.cuda.memory._record_memory_history(context=None, max_entries=MAX_ENTRIES)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.manual_seed(0)
    step = WORKLOADS[args.workload](torch)
    losses = [step() for _ in range(WARM_UP)]
    torch.cuda.synchronize()
    begin = time.perf_counter()
    while True:
        losses.append(step())
        timed = len(losses) - WARM_UP
        if timed % 5 == 0:
            torch.cuda.synchronize()  # otherwise the host would queue many steps before it stops
            if not args.steps and time.perf_counter() - begin > args.seconds:
                break
        if args.steps and len(losses) >= args.steps:
            break
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    stats = memory_stats()
    if args.record:
        torch.cuda.memory._dump_snapshot(args.record)
    return {
        "workload": args.workload, "way": args.way, "torch": torch.__version__,
        "steps": len(losses), "steps_per_second": timed / seconds,
        "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
        "peak_requested_bytes": stats["requested_bytes.all.peak"],
        "losses": torch.stack(losses).tolist(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--way", choices=WAYS, required=True)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--record", default="")
    args = parser.parse_args()
    if args.record and args.way == "ashlar":
        parser.error("--record with --way ashlar: PyTorch has no history of a plug-in")
    if args.steps and args.steps <= WARM_UP:
        parser.error(f"--steps {args.steps} (expected more than the {WARM_UP} that are not timed)")
    print(json.dumps(run(args)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
