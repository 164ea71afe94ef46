#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs out of memory with PyTorch on Ashlar, in the program's thread and in autograd's. Both
must raise torch.OutOfMemoryError with Ashlar's report, and the program must be able to continue.

Exit status: 0 passed, 1 failed. Needs PyTorch, a GPU and libashlar_torch.so
(ASHLAR_TORCH_LIBRARY)."""

import json
import sys

import train


def error_of(torch, function):
    """Returns the report of the out-of-memory error that `function` must raise."""
    try:
        function()
    except torch.OutOfMemoryError as failure:
        report = str(failure)
    except RuntimeError as failure:
        sys.exit(f"out_of_memory: unexpected {type(failure).__name__}: {failure}")
    else:
        sys.exit("out_of_memory: no error was raised")
    if "out of memory" not in report or "Ashlar tried to allocate" not in report:
        sys.exit(f"out_of_memory: not Ashlar's report: {report}")
    return report


def main():
    train.choose_allocator("ashlar")
    import torch
    too_much = 2 * torch.cuda.get_device_properties(0).total_memory
    kept = torch.ones(1 << 20, device="cuda", requires_grad=True)

    class Greedy(torch.autograd.Function):
        @staticmethod
        def forward(_, values):
            return values * 2

        @staticmethod
        def backward(_, gradient):
            return gradient + torch.empty(too_much, dtype=torch.uint8, device="cuda")[:1]

    report = error_of(torch, lambda: torch.empty(too_much, dtype=torch.uint8, device="cuda"))
    error_of(torch, lambda: Greedy.apply(kept).sum().backward())
    (kept * 3).sum().backward()
    if kept.grad.sum().item() != 3 * kept.numel():
        sys.exit("out_of_memory: wrong results after the error")
    print(json.dumps({"report": report}))


if __name__ == "__main__":
    main()
