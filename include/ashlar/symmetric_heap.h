// SPDX-License-Identifier: Apache-2.0
//
// The memory of symmetric.h, where it begins: a rank's heap, its buffers, and pools of many
// buffers. Included by it; what ranks do with each other's memory is there.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ashlar/export.h"

namespace ashlar {
class Device;
}  // namespace ashlar

namespace ashlar::symm {

class Buffer;

struct HeapOptions {
  std::string backend = "host";  // where memory comes from: one of Heap::backends()
  // The device whose memory it is, instead; outlives the heap and all that is made of it. Addresses
  // of buffers are the device's then, and the host must not dereference them: put and get copy.
  Device* device = nullptr;
  size_t pad_bytes = 9216;  // the user's words in front of each buffer; on all ranks the same
  std::chrono::milliseconds heartbeat{1000};  // between two signs of life in the store
  // A rank without one for so long is lost; 3 heartbeats or more, and on all ranks the same.
  std::chrono::milliseconds lease{5000};
  // Ranks that say different things here reach each other as if they were on different machines,
  // to try that out. Up to 64 bytes.
  std::string machine{};
};

struct AllocateOptions {
  // The group whose ranks allocate it; empty: all ranks do.
  std::string group{};
  // The same address again for the same id (in this heap, for this group), once it was freed.
  std::optional<uint64_t> persistent_id{};
};

// The symmetric memory of one rank. All ranks allocate the same in the same order; a rendezvous
// checks it. Heaps of one process share what can be shared. Lives on in its buffers, groups and
// handles. Thread safe. After a fork it stays the parent's, with all that was made of it, whose
// groups go on: in the child, calls that reach other ranks are InvalidArgument exceptions and its
// end does nothing. Views stay what they are, shared memory.
class ASHLAR_EXPORT Heap {
 public:
  // Throws InvalidArgument: no such back end, another is in use, or the device has no memory to
  // share.
  explicit Heap(const HeapOptions& options = {});

  // Not collective. Aligned to 128 bytes; the pad in front is zero at first (a persistent id that
  // is taken again finds it as it was left), the buffer is not promised to be. Throws
  // InvalidArgument: the persistent id is in use, or had another size, or no group can have that
  // name; OutOfMemory.
  Buffer allocate(size_t bytes, const AllocateOptions& options = {});
  // How many buffers there are.
  size_t live_count() const;
  std::vector<std::string> backends() const;

 private:
  friend class Group;
  friend class Pool;
  struct Parts;
  explicit Heap(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<Parts> parts_;  // also owned by buffers and groups
};

// This rank's part of a symmetric allocation. Freed where its scope ends: others who have it mapped
// keep it, and so do handles. One of a pool goes back to the pool.
class ASHLAR_EXPORT Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { reset(); }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }
  // As many T as there are.
  template <typename T>
  std::span<T> as() const {
    static_assert(std::is_trivially_copyable_v<T>);
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }

  void reset() noexcept;

 private:
  friend class Heap;
  friend class Pool;
  struct Origin;  // a heap or a pool
  Buffer(std::shared_ptr<Origin> origin, std::byte* data, size_t bytes)
      : origin_(std::move(origin)), data_(data), bytes_(bytes) {}

  std::shared_ptr<Origin> origin_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

struct PoolOptions {
  std::string name = "pool";                // pools of one heap have different names
  size_t segment_bytes = size_t{64} << 20;  // it grows by so many, or by what a buffer needs
};

struct PoolStats {
  size_t segment_count = 0;
  size_t segment_bytes = 0;    // of all segments together
  size_t used_bytes = 0;       // by buffers, rounded up
  size_t buffer_count = 0;     // that are not freed
  uint64_t act_count = 0;      // how often anything was allocated, freed or trimmed
  uint64_t sequence_hash = 0;  // of all of that, in order
};

// Many buffers in few allocations of a heap, its segments, which nothing else is put into. Where a
// buffer goes depends on the order of calls alone, so that ranks that allocate and free the same in
// the same order have it at the same place; the rendezvous for each buffer compares all that was
// done before, and if ranks did different things, all get a InvalidArgument that names the first. A
// segment is handed over and mapped once, for all of its buffers.
//
// A freed buffer's place may be another's at once: let all ranks be done with it (a barrier) before
// any frees it. Lives on in its buffers. Thread safe.
class ASHLAR_EXPORT Pool {
 public:
  // Throws InvalidArgument: the heap has a pool of that name, or the name or the size makes no
  // sense.
  explicit Pool(const Heap& heap, const PoolOptions& options = {});

  // Not collective. Aligned to 128 bytes, not promised to be zero. Throws OutOfMemory.
  Buffer allocate(size_t bytes);
  // Gives segments back that no buffer is in.
  void trim();
  PoolStats stats() const;

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;  // also owned by buffers
};

}  // namespace ashlar::symm
