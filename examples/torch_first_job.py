# SPDX-License-Identifier: Apache-2.0
"""Quoted in docs/tutorials/first_pytorch_job.md: trains a small model with batches of varying size
on Ashlar, and saves the history of its allocator. Needs PyTorch and a GPU."""

import ashlar.torch

ashlar.torch.enable()  # before the first tensor on the GPU

import torch

ashlar.torch.record_memory_history()
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(4096, 16384), torch.nn.GELU(), torch.nn.Linear(16384, 4096)).cuda()
optimizer = torch.optim.Adam(model.parameters())

for step in range(50):
    batch = torch.randn(4096 + 1000 * (step % 7), 4096, device="cuda")
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

print(f"loss {loss.item():.4f}")
print(ashlar.torch.summary())
ashlar.torch.save_snapshot("job.pickle")
