// SPDX-License-Identifier: Apache-2.0
//
// Where the other side is in one piece, and on another machine, so is what is sent.
#include "shmem/strides.h"

#include <cstring>
#include <vector>

#include "shmem/failing.h"

namespace ashlar::shmem {

size_t strided_bytes(ptrdiff_t stride, size_t count, size_t element_bytes) {
  if (stride < 1) refuse("a stride of ", stride, ": expected 1 or more");
  size_t bytes = 0;
  if (__builtin_mul_overflow(count - 1, static_cast<size_t>(stride), &bytes) ||
      __builtin_add_overflow(bytes, size_t{1}, &bytes) ||
      __builtin_mul_overflow(bytes, element_bytes, &bytes)) {
    refuse(count, " elements in strides of ", stride, " are more than there is memory");
  }
  return bytes;
}

namespace {

World::Place moved(World::Place place, size_t bytes) {
  place.offset += bytes;
  if (place.direct != nullptr) place.direct += bytes;
  return place;
}

}  // namespace

void strided_put(const Peer& to, Strided<void*> dest, Strided<const void*> source, size_t count,
                 size_t element_bytes) {
  if (count == 0) return;
  strided_bytes(source.stride, count, element_bytes);
  const size_t bytes = strided_bytes(dest.stride, count, element_bytes);
  const World::Place at = to.world.place(to.context, dest.base, bytes, to.pe);
  const auto* from = static_cast<const std::byte*>(source.base);
  const size_t step = static_cast<size_t>(source.stride) * element_bytes;
  if (dest.stride == 1 && at.direct == nullptr) {
    std::vector<std::byte> packed(bytes);
    for (size_t each = 0; each < count; ++each) {
      std::memcpy(packed.data() + each * element_bytes, from + each * step, element_bytes);
    }
    to.world.put(at, packed.data(), bytes);
    return;
  }
  for (size_t each = 0; each < count; ++each) {
    const size_t there = each * static_cast<size_t>(dest.stride) * element_bytes;
    to.world.put(moved(at, there), from + each * step, element_bytes);
  }
}

void strided_get(const Peer& from, Strided<void*> dest, Strided<const void*> source, size_t count,
                 size_t element_bytes) {
  if (count == 0) return;
  strided_bytes(dest.stride, count, element_bytes);
  const size_t bytes = strided_bytes(source.stride, count, element_bytes);
  const World::Place at = from.world.place(from.context, source.base, bytes, from.pe);
  auto* into = static_cast<std::byte*>(dest.base);
  const size_t step = static_cast<size_t>(dest.stride) * element_bytes;
  if (source.stride == 1 && at.direct == nullptr) {
    std::vector<std::byte> packed(bytes);
    from.world.get(packed.data(), at, bytes);
    for (size_t each = 0; each < count; ++each) {
      std::memcpy(into + each * step, packed.data() + each * element_bytes, element_bytes);
    }
    return;
  }
  for (size_t each = 0; each < count; ++each) {
    const size_t there = each * static_cast<size_t>(source.stride) * element_bytes;
    from.world.get(into + each * step, moved(at, there), element_bytes);
  }
}

}  // namespace ashlar::shmem
