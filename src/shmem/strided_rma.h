// SPDX-License-Identifier: Apache-2.0
//
// Puts and gets of elements at regular distances, such as shmem_iput and shmem_iget.
#pragma once

#include <cstddef>

#include "shmem/runtime.h"

namespace ashlar::shmem {

// The PE whose memory a strided transfer accesses.
struct RemotePe {
  Runtime& runtime;
  shmem_ctx_t context = nullptr;
  int pe = 0;
};

// The elements at base, base + stride, base + 2 * stride and so on. The stride counts elements and
// is at least 1.
template <typename Base>
struct Strided {
  Base base;
  ptrdiff_t stride = 1;
};

// Returns the number of bytes from the first element to the end of the last. Throws if the result
// overflows or the stride is less than 1. REQUIRES: count > 0.
size_t strided_bytes(ptrdiff_t stride, size_t count, size_t element_bytes);

void strided_put(const RemotePe& to, Strided<void*> dest, Strided<const void*> source, size_t count,
                 size_t element_bytes);
void strided_get(const RemotePe& from, Strided<void*> dest, Strided<const void*> source,
                 size_t count, size_t element_bytes);

}  // namespace ashlar::shmem
