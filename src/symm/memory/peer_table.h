// SPDX-License-Identifier: Apache-2.0
//
// `PeerTable`: how this rank accesses the memory of every rank. One table per (block, group),
// created by a rendezvous and shared by the block and all handles. Immutable, so any thread may
// read it. The table keeps the block's memory of every rank except remote ranks mapped in this
// process, even after the owning rank has freed it.
//
// `PeerHandle`: a peer table, and the range of each rank's buffer to which the caller of the
// rendezvous has access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ashlar/symmetric_types.h"
#include "base/text.h"
#include "symm/backends/backend.h"
#include "symm/backends/multicast/multicast.h"
#include "symm/core/rank_info.h"
#include "symm/transports/remote_memory.h"

namespace ashlar::symm {

// A block begins with the user's signal pad; the buffer follows, aligned to 128 bytes:
//   buffer_offset == pad_bytes rounded up to 128.
struct HeapBlockLayout {
  size_t pad_bytes = 0;
  size_t buffer_offset = 0;
  size_t buffer_bytes = 0;  // the requested size
};

class PeerTable {
 public:
  struct Peer {
    PeerAccess access = PeerAccess::kDirect;
    std::shared_ptr<MappedMemory> memory{};  // null if the rank's memory is remote
  };

  // The result of exchanging memory handles.
  struct Mappings {
    std::vector<Peer> peers{};                     // indexed by rank
    std::unique_ptr<const RemoteMemory> remote{};  // null if no rank is remote
    std::string no_fabric_reason{};  // why fabric handles were not used; empty if they were
  };

  // `releaser` takes ownership of the multicast object when the table is destroyed.
  PeerTable(RankInfo rank_info, const HeapBlockLayout& layout, Mappings mappings,
            MulticastSetupResult multicast, std::shared_ptr<MulticastReleaser> releaser)
      : rank_info_(rank_info),
        layout_(layout),
        peers_(std::move(mappings.peers)),
        remote_(std::move(mappings.remote)),
        no_fabric_reason_(std::move(mappings.no_fabric_reason)),
        releaser_(std::move(releaser)),
        multicast_(std::move(multicast)) {}
  ~PeerTable() {
    if (multicast_.multicast == nullptr) return;
    releaser_->release({peers_[rank_info_.rank].memory, std::move(multicast_.multicast)});
  }
  PeerTable(const PeerTable&) = delete;
  PeerTable& operator=(const PeerTable&) = delete;

  const RankInfo& rank_info() const { return rank_info_; }
  size_t buffer_bytes() const { return layout_.buffer_bytes; }
  size_t pad_bytes() const { return layout_.pad_bytes; }
  // REQUIRES, for all functions with a rank: 0 <= rank < world size. The pointers are null for
  // remote ranks.
  PeerAccess access(int rank) const { return peers_[rank].access; }
  std::byte* buffer(int rank) const {
    const auto& memory = peers_[rank].memory;
    return memory == nullptr ? nullptr : memory->base() + layout_.buffer_offset;
  }
  std::byte* pad(int rank) const {
    const auto& memory = peers_[rank].memory;
    return memory == nullptr ? nullptr : memory->base();
  }
  const RemoteMemory* remote() const { return remote_.get(); }
  // Returns the multicast address of all ranks' buffers. If it is null, `no_multicast_reason` says
  // why.
  std::byte* multicast_buffer() const {
    if (multicast_.multicast == nullptr) return nullptr;
    return multicast_.multicast->base() + layout_.buffer_offset;
  }
  const std::string& no_multicast_reason() const { return multicast_.reason; }
  // Returns why fabric handles were not used, as the same string on all ranks, or an empty string
  // if they were used.
  const std::string& no_fabric_reason() const { return no_fabric_reason_; }
  // The offset of the buffer in a rank's block.
  size_t buffer_offset() const { return layout_.buffer_offset; }
  // The buffers of all ranks, indexed by rank.
  std::vector<std::byte*> buffers() const {
    std::vector<std::byte*> all;
    for (int rank = 0; rank < rank_info_.world_size; ++rank) all.push_back(buffer(rank));
    return all;
  }

 private:
  const RankInfo rank_info_;
  const HeapBlockLayout layout_;
  const std::vector<Peer> peers_;
  const std::unique_ptr<const RemoteMemory> remote_;
  const std::string no_fabric_reason_;
  const std::shared_ptr<MulticastReleaser> releaser_;  // also owned by the communicator
  MulticastSetupResult multicast_;  // the destructor passes the object to `releaser_`
};

class PeerHandle {
 public:
  // The range of each rank's buffer that the handle covers. Offsets count from the beginning of the
  // block's buffer (PeerTable::buffer).
  struct Range {
    // The offset of the pointer that this rank passed to the rendezvous.
    size_t offset = 0;
    // The end of the block's buffer or, if a pool owns the block, of the pool's buffer that
    // contains the pointer.
    size_t end = 0;
    // A hash that identifies the memory: the same on all ranks, and different for different memory
    // with high probability.
    uint32_t memory_id = 0;
  };

  PeerHandle(std::shared_ptr<const PeerTable> peers, const Range& range)
      : peers_(std::move(peers)), range_(range) {}

  const PeerTable& peers() const { return *peers_; }
  // Return the fields of Range.
  size_t offset() const { return range_.offset; }
  size_t end() const { return range_.end; }
  uint32_t memory_id() const { return range_.memory_id; }

  // Converts an offset relative to the pointer that was passed to the rendezvous to an offset
  // relative to the block's buffer. Returns kInvalidArgument if the rank does not exist, or if the
  // `bytes` bytes at `offset` are not within the handle's range.
  Result<size_t> offset_in_buffer(int rank, int64_t offset, size_t bytes) const;
  // Returns the address of these bytes in the memory of `rank`, valid while the peer table exists.
  // Returns kInvalidArgument for the same reasons as `offset_in_buffer`, and kUnsupported if the
  // rank is remote.
  Result<std::byte*> at(int rank, int64_t offset, size_t bytes) const;

 private:
  std::shared_ptr<const PeerTable> peers_;  // also owned by the block and by other handles
  Range range_;
};

inline Result<size_t> PeerHandle::offset_in_buffer(int rank, int64_t offset, size_t bytes) const {
  if (Status wrong = peers_->rank_info().check_rank(rank); !wrong.ok()) return wrong;
  const size_t available = range_.end - range_.offset;
  if (offset < 0)
    return Status::invalid_argument(text("offset ", offset, ": expected 0 to ", available));
  const auto begin = static_cast<uint64_t>(offset);
  if (begin > available || bytes > available - begin) {
    return Status::invalid_argument(
        text(bytes, " bytes at offset ", offset, ": the handle covers ", available, " bytes"));
  }
  return range_.offset + begin;
}

inline Result<std::byte*> PeerHandle::at(int rank, int64_t offset, size_t bytes) const {
  const Result<size_t> buffer_offset = offset_in_buffer(rank, offset, bytes);
  if (!buffer_offset.ok()) return buffer_offset.status();
  if (peers_->access(rank) != PeerAccess::kDirect) {
    return Status::unsupported(text("rank ", rank, "'s memory is on another machine than rank ",
                                    peers_->rank_info().rank, "'s: use put and get"));
  }
  return peers_->buffer(rank) + *buffer_offset;
}

}  // namespace ashlar::symm
