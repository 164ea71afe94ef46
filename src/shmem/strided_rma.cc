// SPDX-License-Identifier: Apache-2.0
//
// If the remote elements are contiguous and on another machine, they are transferred as one
// message.
#include "shmem/strided_rma.h"

#include <cstring>
#include <vector>

#include "shmem/errors.h"

namespace ashlar::shmem {

size_t strided_bytes(ptrdiff_t stride, size_t count, size_t element_bytes) {
  if (stride < 1) throw_invalid_argument("stride ", stride, ": expected 1 or more");
  size_t bytes = 0;
  if (__builtin_mul_overflow(count - 1, static_cast<size_t>(stride), &bytes) ||
      __builtin_add_overflow(bytes, size_t{1}, &bytes) ||
      __builtin_mul_overflow(bytes, element_bytes, &bytes)) {
    throw_invalid_argument(count, " elements with stride ", stride, " exceed the address space");
  }
  return bytes;
}

namespace {

RemoteAddress offset_by(RemoteAddress address, size_t bytes) {
  address.offset += bytes;
  if (address.direct != nullptr) address.direct += bytes;
  return address;
}

}  // namespace

void strided_put(const RemotePe& to, Strided<void*> dest, Strided<const void*> source, size_t count,
                 size_t element_bytes) {
  if (count == 0) return;
  strided_bytes(source.stride, count, element_bytes);
  const size_t bytes = strided_bytes(dest.stride, count, element_bytes);
  const RemoteAddress remote = to.runtime.resolve(to.context, dest.base, bytes, to.pe);
  const auto* from = static_cast<const std::byte*>(source.base);
  const size_t step = static_cast<size_t>(source.stride) * element_bytes;
  if (dest.stride == 1 && remote.direct == nullptr) {
    std::vector<std::byte> packed(bytes);
    for (size_t each = 0; each < count; ++each) {
      std::memcpy(packed.data() + each * element_bytes, from + each * step, element_bytes);
    }
    to.runtime.put(remote, packed.data(), bytes);
    return;
  }
  for (size_t each = 0; each < count; ++each) {
    const size_t remote_offset = each * static_cast<size_t>(dest.stride) * element_bytes;
    to.runtime.put(offset_by(remote, remote_offset), from + each * step, element_bytes);
  }
}

void strided_get(const RemotePe& from, Strided<void*> dest, Strided<const void*> source,
                 size_t count, size_t element_bytes) {
  if (count == 0) return;
  strided_bytes(dest.stride, count, element_bytes);
  const size_t bytes = strided_bytes(source.stride, count, element_bytes);
  const RemoteAddress remote = from.runtime.resolve(from.context, source.base, bytes, from.pe);
  auto* into = static_cast<std::byte*>(dest.base);
  const size_t step = static_cast<size_t>(dest.stride) * element_bytes;
  if (source.stride == 1 && remote.direct == nullptr) {
    std::vector<std::byte> packed(bytes);
    from.runtime.get(packed.data(), remote, bytes);
    for (size_t each = 0; each < count; ++each) {
      std::memcpy(into + each * step, packed.data() + each * element_bytes, element_bytes);
    }
    return;
  }
  for (size_t each = 0; each < count; ++each) {
    const size_t remote_offset = each * static_cast<size_t>(source.stride) * element_bytes;
    from.runtime.get(into + each * step, offset_by(remote, remote_offset), element_bytes);
  }
}

}  // namespace ashlar::shmem
