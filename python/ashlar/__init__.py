"""Ashlar, a memory system for accelerators, from Python. `ashlar.torch` puts it under PyTorch.

Importing this loads nothing: neither the library nor PyTorch."""

__all__ = ["torch"]
