// SPDX-License-Identifier: Apache-2.0
//
// Every n-th element of one side to every m-th of the other.
#pragma once

#include <cstddef>

#include "shmem/world.h"

namespace ashlar::shmem {

struct Peer {
  World& world;
  shmem_ctx_t context = nullptr;
  int pe = 0;
};

// Elements at base, base + stride, ...; in elements, and at least 1.
template <typename Base>
struct Strided {
  Base base;
  ptrdiff_t stride = 1;
};

// How far it is from the first byte of `count` elements to behind the last. Throws if it is further
// than there is memory, or the stride is none. REQUIRES: one element or more.
size_t strided_bytes(ptrdiff_t stride, size_t count, size_t element_bytes);

void strided_put(const Peer& to, Strided<void*> dest, Strided<const void*> source, size_t count,
                 size_t element_bytes);
void strided_get(const Peer& from, Strided<void*> dest, Strided<const void*> source, size_t count,
                 size_t element_bytes);

}  // namespace ashlar::shmem
