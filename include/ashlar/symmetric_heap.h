// SPDX-License-Identifier: Apache-2.0
//
// The memory of one rank: its heap, buffers, and pools of many buffers. Included by
// ashlar/symmetric.h, which has the operations between ranks.
//
// Errors: functions throw.
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

class SymmetricBuffer;

struct HeapOptions {
  std::string backend = "host";  // source of host memory: one of Heap::backends()
  // If set, buffers are memory of this device instead of the host. The device must outlive the heap
  // and everything made from it. The host must not dereference addresses of these buffers; use put
  // and get.
  Device* device = nullptr;
  // The size of the user's signal pad in front of each buffer. Must be the same on all ranks.
  size_t pad_bytes = 9216;
  std::chrono::milliseconds heartbeat{1000};  // interval of heartbeats in the store
  // A rank without a heartbeat for this long counts as lost. Must be at least 3 heartbeats, and the
  // same on all ranks.
  std::chrono::milliseconds lease{5000};
  // For tests: ranks with different values treat each other as if they were on different machines.
  // Up to 64 bytes.
  std::string machine{};
};

struct AllocateOptions {
  // The group whose ranks make the allocation; empty: all ranks.
  std::string group{};
  // After the free of this buffer, the next allocation with the same id (in this heap, for this
  // group) has the same address.
  std::optional<uint64_t> persistent_id{};
};

// The symmetric heap of one rank. All ranks must make the same allocations in the same order, which
// the rendezvous verifies. Buffers, groups and handles of the heap keep it alive. Thread safe.
//
// After a fork, the heap and everything made from it belong to the parent: in the child, calls that
// involve other ranks throw InvalidArgument, and destructors do nothing. Existing views remain
// shared memory.
class ASHLAR_EXPORT Heap {
 public:
  // Throws InvalidArgument if an option is out of range, the back end does not exist, another back
  // end of host memory is already in use in this process, or the device cannot share memory.
  explicit Heap(const HeapOptions& options = {});

  // Allocates this rank's buffer, aligned to 128 bytes. The call is not collective. The buffer is
  // uninitialized, and the signal pad in front of it is zeroed. If a persistent id is reused, the
  // buffer and the pad keep their contents.
  // Throws OutOfMemory; InvalidArgument if the persistent id is in use or had another size, or the
  // group name is invalid.
  SymmetricBuffer allocate(size_t bytes, const AllocateOptions& options = {});
  // Returns the number of live buffers, not counting the buffers of pools.
  size_t live_count() const;
  // Returns the names of the back ends of host memory that HeapOptions::backend accepts.
  std::vector<std::string> backends() const;

 private:
  friend class Group;
  friend class SymmetricPool;
  struct Impl;
  explicit Heap(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<Impl> impl_;  // also owned by buffers and groups
};

// This rank's part of a symmetric allocation. The destructor frees the memory, or returns it to the
// buffer's pool. Peers and handles that use the memory keep it mapped. Not thread safe.
class ASHLAR_EXPORT SymmetricBuffer {
 public:
  SymmetricBuffer() = default;
  SymmetricBuffer(SymmetricBuffer&& other) noexcept;
  SymmetricBuffer& operator=(SymmetricBuffer&& other) noexcept;
  ~SymmetricBuffer() { reset(); }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }
  // Returns the buffer as an array of T.
  template <typename T>
  std::span<T> as() const {
    static_assert(std::is_trivially_copyable_v<T>);
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }

  void reset() noexcept;

 private:
  friend class Heap;
  friend class SymmetricPool;
  struct Origin;  // a heap or a pool
  SymmetricBuffer(std::shared_ptr<Origin> origin, std::byte* data, size_t bytes)
      : origin_(std::move(origin)), data_(data), bytes_(bytes) {}

  std::shared_ptr<Origin> origin_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

struct SymmetricPoolOptions {
  std::string name = "pool";                // unique within the heap
  size_t segment_bytes = size_t{64} << 20;  // minimum size of a segment
};

struct SymmetricPoolStats {
  size_t segment_count = 0;
  size_t segment_bytes = 0;    // sum over all segments
  size_t used_bytes = 0;       // sum of the rounded sizes of live buffers
  size_t buffer_count = 0;     // live buffers
  uint64_t call_count = 0;     // number of allocations, frees and trims
  uint64_t sequence_hash = 0;  // hash of the sequence of the calls in `call_count`
};

// Sub-allocates many buffers from few segments of a heap. The position of a buffer depends only on
// the sequence of calls, so ranks that allocate and free in the same order agree on positions. The
// rendezvous of each buffer compares the sequences; if they differ, all ranks get an
// InvalidArgument that names the first difference. A segment is exchanged and mapped once for all
// of its buffers.
//
// The space of a freed buffer may be reused immediately: make sure, with a barrier, that all ranks
// are done with the buffer before any rank frees it. Buffers of the pool keep it alive. Thread
// safe.
class ASHLAR_EXPORT SymmetricPool {
 public:
  // Throws InvalidArgument if the heap already has a pool with that name, or an option is out of
  // range.
  explicit SymmetricPool(const Heap& heap, const SymmetricPoolOptions& options = {});

  // Allocates an uninitialized buffer, aligned to 128 bytes. The call is not collective. Throws
  // OutOfMemory.
  SymmetricBuffer allocate(size_t bytes);
  // Frees segments without live buffers.
  void trim();
  SymmetricPoolStats stats() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // also owned by buffers
};

}  // namespace ashlar::symm
