// SPDX-License-Identifier: Apache-2.0
//
// Where every rank's memory is for this one: one table for each (block, group), made by a
// rendezvous and shared by the block, and by all handles. Constant, so that any thread may read it;
// keeps all that it names mapped, whoever has freed it meanwhile. And the handle, which is what
// users hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ashlar/peer_access.h"
#include "base/text.h"
#include "symm/backends/backend.h"
#include "symm/backends/multicast/multicast_keeper.h"
#include "symm/core/rank_info.h"
#include "symm/transports/remote_memory.h"

namespace ashlar::symm {

// A block begins with the user's pad, which is zero at first; the buffer follows, aligned to 128 B:
//   front_bytes == pad_bytes rounded up to 128.
struct HeapBlockLayout {
  size_t pad_bytes = 0;
  size_t buffer_offset = 0;
  size_t buffer_bytes = 0;  // as they were asked for
};

class PeerTable {
 public:
  struct Peer {
    PeerAccess access = PeerAccess::kDirect;
    std::shared_ptr<MappedMemory> memory{};  // null: remote
  };

  // What ranks have handed to each other.
  struct Handed {
    std::vector<Peer> peers{};                     // by rank
    std::unique_ptr<const RemoteMemory> remote{};  // of remote ranks; null: there are none
    std::string no_fabric{};                       // why not as fabric handles; empty: so it was
  };

  // `keeper` decides what becomes of the multicast when this goes.
  PeerTable(RankInfo rank_info, const HeapBlockLayout& layout, Handed handed,
            MulticastOutcome multicast, std::shared_ptr<MulticastKeeper> keeper)
      : rank_info_(rank_info),
        layout_(layout),
        peers_(std::move(handed.peers)),
        remote_(std::move(handed.remote)),
        no_fabric_(std::move(handed.no_fabric)),
        keeper_(std::move(keeper)),
        multicast_(std::move(multicast)) {}
  ~PeerTable() {
    if (multicast_.multicast == nullptr) return;
    keeper_->take({peers_[rank_info_.rank].memory, std::move(multicast_.multicast)});
  }
  PeerTable(const PeerTable&) = delete;
  PeerTable& operator=(const PeerTable&) = delete;

  const RankInfo& rank_info() const { return rank_info_; }
  size_t buffer_bytes() const { return layout_.buffer_bytes; }
  size_t pad_bytes() const { return layout_.pad_bytes; }
  // REQUIRES, here and below: 0 <= rank < world size. Null: remote.
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
  // The address that stands for all ranks' buffers; null: there is none, and why.
  std::byte* multicast_buffer() const {
    if (multicast_.multicast == nullptr) return nullptr;
    return multicast_.multicast->base() + layout_.buffer_offset;
  }
  const std::string& no_multicast_reason() const { return multicast_.reason; }
  // Why the memory did not travel as fabric handles, the same on all ranks; empty: it did.
  const std::string& no_fabric_reason() const { return no_fabric_; }
  // Where in a remote rank's memory its buffer begins.
  size_t buffer_offset() const { return layout_.buffer_offset; }
  // By rank: what algorithms over pointers take.
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
  const std::string no_fabric_;
  const std::shared_ptr<MulticastKeeper> keeper_;  // the circle's; also owned by it
  MulticastOutcome multicast_;  // its memory, which is bound to it, goes after it
};

class PeerHandle {
 public:
  // Which part of the ranks' buffers it is for.
  struct Part {
    size_t offset = 0;  // where it begins
    size_t end = 0;     // nothing from here on is the handle's
    // Of what is met for: the same on all ranks. Others have others, as far as chance allows.
    uint32_t number = 0;
  };

  PeerHandle(std::shared_ptr<const PeerTable> peers, const Part& part)
      : peers_(std::move(peers)), part_(part) {}

  const PeerTable& peers() const { return *peers_; }
  // From the buffer's beginning to what the rendezvous was called with.
  size_t offset() const { return part_.offset; }
  // From the buffer's beginning to the end of what the rendezvous was for: the buffer's, or that of
  // what a pool has carved from it.
  size_t end() const { return part_.end; }
  uint32_t number() const { return part_.number; }

  // Where in a rank's buffer `bytes` of it are, `offset` behind what the rendezvous was called
  // with. kInvalidArgument: no such rank, or not within the buffer.
  Result<size_t> offset_in_buffer(int rank, int64_t offset, size_t bytes) const;
  // `bytes` of a rank's memory, `offset` behind what the rendezvous was called with. Valid while a
  // handle is. kInvalidArgument: no such rank, or not within the buffer; kUnsupported: it is
  // remote.
  Result<std::byte*> at(int rank, int64_t offset, size_t bytes) const;

 private:
  std::shared_ptr<const PeerTable> peers_;  // also owned by the block, and by other handles
  Part part_;
};

inline Result<size_t> PeerHandle::offset_in_buffer(int rank, int64_t offset, size_t bytes) const {
  if (Status wrong = peers_->rank_info().check_rank(rank); !wrong.ok()) return wrong;
  const size_t available = part_.end - part_.offset;
  if (offset < 0)
    return Status::invalid_argument(text("offset ", offset, ": expected 0 to ", available));
  const auto begin = static_cast<uint64_t>(offset);
  if (begin > available || bytes > available - begin) {
    return Status::invalid_argument(text(bytes, " bytes at offset ", offset, ": there are ",
                                         available, " bytes from the handle's offset on"));
  }
  return part_.offset + begin;
}

inline Result<std::byte*> PeerHandle::at(int rank, int64_t offset, size_t bytes) const {
  const Result<size_t> place = offset_in_buffer(rank, offset, bytes);
  if (!place.ok()) return place.status();
  if (peers_->access(rank) != PeerAccess::kDirect) {
    return Status::unsupported(text("rank ", rank, "'s memory is on another machine than rank ",
                                    peers_->rank_info().rank, "'s: use put and get"));
  }
  return peers_->buffer(rank) + *place;
}

}  // namespace ashlar::symm
