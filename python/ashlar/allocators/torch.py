# SPDX-License-Identifier: Apache-2.0
"""Ashlar as PyTorch's allocator, in the style of other libraries:

    torch.cuda.memory.change_current_allocator(ashlar_torch_allocator)

Call it before the first use of the GPU. `ashlar.torch.enable()` is preferable: it installs a
native allocator, with which all functions of torch.cuda.memory work."""

import importlib
from typing import Any

import ashlar.torch

__all__ = ["ashlar_torch_allocator"]


def __getattr__(name: str) -> Any:
    if name != "ashlar_torch_allocator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    torch = importlib.import_module("torch")
    ashlar.torch._configure(torch, None, None)  # pylint: disable=protected-access
    made = ashlar.torch._make_pluggable_allocator(torch)  # pylint: disable=protected-access
    globals()[name] = made  # PyTorch uses the allocator until the process exits
    return made
