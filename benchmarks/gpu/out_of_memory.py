#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch under Ashlar runs out of memory, in the program's own thread and in autograd's: each time
it is a torch.OutOfMemoryError with Ashlar's report, and the program goes on with what it has.

Exit: 0 so it is, 1 not. Needs PyTorch, a GPU and libashlar_torch.so (ASHLAR_TORCH_LIBRARY)."""

import json
import sys

import train


def error_of(torch, act):
    """The report that `act` ended with; exits if it did not, or with something else."""
    try:
        act()
    except torch.OutOfMemoryError as failure:
        report = str(failure)
    except RuntimeError as failure:
        sys.exit(f"out_of_memory: a {type(failure).__name__}: {failure}")
    else:
        sys.exit("out_of_memory: there was enough")
    if "out of memory. Ashlar tried to allocate" not in report:
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
        sys.exit("out_of_memory: wrong numbers afterwards")
    print(json.dumps({"report": report}))


if __name__ == "__main__":
    main()
