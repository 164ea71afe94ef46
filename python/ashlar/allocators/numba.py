# SPDX-License-Identifier: Apache-2.0
"""Ashlar as the memory manager of numba.cuda: `numba.cuda.set_memory_manager(AshlarNumbaManager)`
before the first use of the GPU, or NUMBA_CUDA_MEMORY_MANAGER=ashlar.allocators.numba.

Numba does not pass a stream to the allocator, so allocations and frees are ordered on the default
stream. Synchronize any other stream that uses an array before the array is released."""

import ctypes
from typing import Any, Callable

from numba import cuda

from ashlar.allocators import allocator


class AshlarNumbaManager(cuda.HostOnlyCUDAMemoryManager):  # type: ignore[misc]
    """Implements Numba's External Memory Management (EMM) plugin interface, version 1."""

    def initialize(self) -> None:
        """Does nothing: the first allocation opens the device."""

    def memalloc(self, size: int) -> Any:
        """Allocates memory of the context's device."""
        buffer = allocator(self.context.device.id).allocate(max(size, 1))
        address = buffer.address
        # The base class defines `allocations`, and clears it when the context is reset.
        self.allocations[address] = buffer
        return cuda.MemoryPointer(self.context, ctypes.c_uint64(address), size,
                                  finalizer=self._finalizer(address))

    def _finalizer(self, address: int) -> Callable[[], None]:
        allocations = self.allocations  # so that free() does not refer to the manager

        def free() -> None:
            allocations.pop(address, None)  # drops the last reference, which frees the buffer

        return free

    def get_ipc_handle(self, memory: Any) -> Any:
        """Raises NotImplementedError: memory that the engine maps has no CUDA IPC handle."""
        raise NotImplementedError("Ashlar's memory has no CUDA IPC handle (to share memory between "
                                  "processes, use AllocatorSharing of the C++ interface)")

    def get_memory_info(self) -> Any:
        """Returns the free and the total bytes of the device. Cached memory is not free."""
        stats = allocator(self.context.device.id).device.memory_stats()
        return cuda.MemoryInfo(free=stats["free_bytes"], total=stats["total_bytes"])

    @property
    def interface_version(self) -> int:
        """The version of Numba's interface."""
        return 1


_numba_memory_manager = AshlarNumbaManager
