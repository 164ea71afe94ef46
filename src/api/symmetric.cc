// Handles: every argument is checked here or in the call below, before anybody is told anything.
#include "ashlar/symmetric.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "api/symmetric_parts.h"
#include "api/unwrap.h"
#include "base/align.h"
#include "base/text.h"
#include "symm/atomic_word.h"
#include "symm/collectives/moving.h"
#include "symm/collectives/reducing.h"
#include "symm/signals.h"

namespace ashlar::symm {
namespace {

// `offset_bytes` of what `begin` is the first byte of, and of which `available` are there.
struct Room {
  const char* what = "";
  size_t begin = 0;
  size_t available = 0;
};

Result<size_t> place_of(const Room& room, int64_t offset_bytes, size_t bytes) {
  if (offset_bytes < 0) {
    return Status::usage(text("offset ", offset_bytes, ": expected 0 to ", room.available));
  }
  const auto offset = static_cast<uint64_t>(offset_bytes);
  if (offset > room.available || bytes > room.available - offset) {
    return Status::usage(text(bytes, " bytes at offset ", offset_bytes, ": the ", room.what,
                              " has ", room.available, " bytes"));
  }
  return room.begin + offset;
}

}  // namespace

int Handle::rank() const { return parts_->group->options.rank; }
int Handle::world_size() const { return parts_->group->options.world_size; }
const std::string& Handle::group_name() const { return parts_->group->options.name; }
const std::vector<std::byte*>& Handle::buffer_ptrs() const { return parts_->buffers; }
const std::vector<std::byte*>& Handle::signal_pad_ptrs() const { return parts_->pads; }
size_t Handle::buffer_bytes() const { return parts_->peers.peers().buffer_bytes(); }
size_t Handle::signal_pad_bytes() const { return parts_->peers.peers().pad_bytes(); }
size_t Handle::offset() const { return parts_->peers.offset(); }

PeerAccess Handle::peer_access(int rank) const {
  unwrap(parts_->group->pads->slots().check_rank(rank));
  return parts_->peers.peers().access(rank);
}

// --- views --------------------------------------------------------------------------------------

namespace {

struct Wanted {
  int64_t offset_bytes = 0;
  size_t bytes = 0;
};

template <typename Extent>
Result<Wanted> wanted_of(const Extent& extent) {
  if (extent.offset < 0)
    return Status::usage(text("offset ", extent.offset, ": expected 0 or more"));
  const Result<size_t> bytes = checked_bytes("count", extent.count, extent.element_bytes);
  if (!bytes.ok()) return bytes.status();
  const Result<size_t> offset = checked_bytes("offset", extent.offset, extent.element_bytes);
  if (!offset.ok()) return offset.status();
  return Wanted{static_cast<int64_t>(*offset), *bytes};
}

std::byte* aligned_to(size_t alignment, std::byte* address) {
  if (!is_aligned(reinterpret_cast<uintptr_t>(address), alignment)) {
    unwrap(
        Status::usage(text(static_cast<const void*>(address), " is not aligned to the element's ",
                           alignment, " bytes: use another offset")));
  }
  return address;
}

}  // namespace

void* Handle::view_of(int rank, const Extent& extent) const {
  const Wanted wanted = unwrap(wanted_of(extent));
  return aligned_to(extent.alignment,
                    unwrap(parts_->peers.at(rank, wanted.offset_bytes, wanted.bytes)));
}

void* Handle::pad_of(int rank, const Extent& extent) const {
  const Slots& slots = parts_->group->pads->slots();
  unwrap(slots.check_rank(rank));
  unwrap(slots.check_reachable(rank));
  const Wanted wanted = unwrap(wanted_of(extent));
  const Room room{.what = "pad", .available = signal_pad_bytes()};
  const size_t at = unwrap(place_of(room, wanted.offset_bytes, wanted.bytes));
  return aligned_to(extent.alignment, parts_->pads[static_cast<size_t>(rank)] + at);
}

// --- one rank, two ranks ------------------------------------------------------------------------

// To another machine for as long as it takes: the group's failure ends it.
void Handle::put(int to, std::span<const std::byte> from, int64_t offset_bytes) const {
  const size_t place = unwrap(parts_->peers.place_of(to, offset_bytes, from.size()));
  unwrap(parts_->group->state());
  const Peers& peers = parts_->peers.peers();
  if (peers.access(to) == PeerAccess::kRemote) {
    const RemoteMemory& remote = *peers.remote();
    unwrap(remote.put(to, peers.front_bytes() + place, from, Deadline::never()));
    unwrap(remote.quiet(to, Deadline::never()));
    return;
  }
  if (!from.empty()) std::memmove(peers.buffer(to) + place, from.data(), from.size());
}

void Handle::get(int from, std::span<std::byte> to, int64_t offset_bytes) const {
  const size_t place = unwrap(parts_->peers.place_of(from, offset_bytes, to.size()));
  unwrap(parts_->group->state());
  const Peers& peers = parts_->peers.peers();
  if (peers.access(from) == PeerAccess::kRemote) {
    unwrap(peers.remote()->get(from, peers.front_bytes() + place, to, Deadline::never()));
    return;
  }
  if (!to.empty()) std::memmove(to.data(), peers.buffer(from) + place, to.size());
}

void Handle::post(int to, std::span<const std::byte> from, int64_t offset_bytes) const {
  const size_t place = unwrap(parts_->peers.place_of(to, offset_bytes, from.size()));
  unwrap(parts_->group->state());
  const Peers& peers = parts_->peers.peers();
  if (peers.access(to) == PeerAccess::kRemote) {
    unwrap(peers.remote()->put(to, peers.front_bytes() + place, from, Deadline::never()));
  } else if (!from.empty()) {
    std::memmove(peers.buffer(to) + place, from.data(), from.size());
  }
}

namespace {

// Where in that rank's buffer the word is.
Result<size_t> word_place(const PeerHandle& peers, int at, const AtomicCall& what) {
  const auto word_bytes = static_cast<size_t>(what.word);
  if (what.word != WordBytes::k4 && what.word != WordBytes::k8) {
    return Status::usage(text("a word of ", word_bytes, " bytes: expected 4 or 8"));
  }
  const auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  Result<size_t> place =
      peers.place_of(at, static_cast<int64_t>(std::min(what.offset, most)), word_bytes);
  if (place.ok() && !is_aligned(*place, word_bytes)) {
    return Status::usage(text("a word of ", word_bytes, " bytes at offset ", what.offset,
                              " is not aligned to its size: use another offset"));
  }
  return place;
}

AtomicCall with_offset(AtomicCall call, uint64_t offset) {
  call.offset = offset;
  return call;
}

}  // namespace

void Handle::post(int at, const AtomicCall& what) const {
  if (what.kind == AtomicKind::kSwap || what.kind == AtomicKind::kCompareAndSwap) {
    unwrap(Status::usage("a swap has an answer: use fetch"));
  }
  const size_t place = unwrap(word_place(parts_->peers, at, what));
  unwrap(parts_->group->state());
  const Peers& peers = parts_->peers.peers();
  if (peers.access(at) == PeerAccess::kRemote) {
    const AtomicCall there = with_offset(what, peers.front_bytes() + place);
    unwrap(peers.remote()->post(at, there, Deadline::never()));
  } else {
    change_word(peers.buffer(at) + place, what);
  }
}

uint64_t Handle::fetch(int at, const AtomicCall& what) const {
  const size_t place = unwrap(word_place(parts_->peers, at, what));
  unwrap(parts_->group->state());
  const Peers& peers = parts_->peers.peers();
  if (peers.access(at) == PeerAccess::kDirect) return change_word(peers.buffer(at) + place, what);
  const AtomicCall there = with_offset(what, peers.front_bytes() + place);
  return unwrap(peers.remote()->fetch(at, there, Deadline::never()));
}

// Plain stores to peers on this machine are ordered by the processor's own fence.
void Handle::fence() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (const RemoteMemory* remote = parts_->peers.peers().remote(); remote != nullptr) {
    unwrap(remote->fence(Deadline::never()));
  }
}

void Handle::quiet() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (const RemoteMemory* remote = parts_->peers.peers().remote(); remote != nullptr) {
    unwrap(remote->quiet(Deadline::never()));
  }
}

void Handle::put_signal(int to, int channel, Timeout timeout) const {
  Group::Parts& group = *parts_->group;
  unwrap(group.check_channel(channel));
  const Limits limits{*group.circle->failure(), unwrap(deadline_of(timeout))};
  unwrap(group.state());
  unwrap(symm::put_signal(group.pads->slots(), to, channel, limits));
}

void Handle::wait_signal(int from, int channel, Timeout timeout) const {
  Group::Parts& group = *parts_->group;
  unwrap(group.check_channel(channel));
  const Limits limits{*group.circle->failure(), unwrap(deadline_of(timeout))};
  unwrap(group.state());
  unwrap(symm::wait_signal(group.pads->slots(), from, channel, limits));
}

void Handle::add_signal(int to, uint64_t amount, int channel) const {
  Group::Parts& group = *parts_->group;
  unwrap(group.check_channel(channel));
  unwrap(group.state());
  unwrap(symm::add_signal(*group.pads, to, channel, amount));
}

void Handle::wait_for_value(int from, uint64_t value, int channel, Timeout timeout) const {
  Group::Parts& group = *parts_->group;
  unwrap(group.check_channel(channel));
  const Limits limits{*group.circle->failure(), unwrap(deadline_of(timeout))};
  unwrap(group.state());
  unwrap(symm::wait_for_value(*group.pads, from, channel, value, limits));
}

uint64_t Handle::counter_value(int from, int channel) const {
  unwrap(parts_->group->check_channel(channel));
  return unwrap(symm::counter_value(*parts_->group->pads, from, channel));
}

void Handle::barrier(int channel, Timeout timeout) const {
  unwrap(parts_->group->barrier(channel, timeout));
}

// --- all ranks ----------------------------------------------------------------------------------

namespace {

std::byte* out_of(const CollectiveOptions& options) { return static_cast<std::byte*>(options.out); }

// The handle's memory from the offset on; how much of it is needed the collective checks.
template <typename HandleParts>
Piece piece_of(const HandleParts& parts, const CollectiveOptions& options) {
  const size_t begin = parts.peers.offset();
  const size_t buffer_bytes = parts.peers.peers().buffer_bytes();
  const Room room{.what = "handle", .begin = begin, .available = buffer_bytes - begin};
  const size_t at = unwrap(place_of(room, options.offset_bytes, 0));
  return {.bases = parts.buffers,
          .buffer_bytes = buffer_bytes,
          .offset_bytes = static_cast<int64_t>(at),
          .memory = parts.peers.peers().number(),
          .remote = parts.peers.peers().remote(),
          .remote_begin = parts.peers.peers().front_bytes()};
}

template <typename GroupParts, typename Request>
void run(Status (*collective)(const Team&, const Request&, const Limits&), GroupParts& group,
         const Request& request, Timeout timeout) {
  const Limits limits{*group.circle->failure(), unwrap(deadline_of(timeout))};
  unwrap(group.state());
  unwrap(collective(group.team(), request, limits));
}

}  // namespace

void Handle::all_reduce(int64_t count, Reduction what, const CollectiveOptions& options) const {
  Group::Parts& group = *parts_->group;
  const AllReduce request{piece_of(*parts_, options), count, what, out_of(options)};
  const Limits limits{*group.circle->failure(), unwrap(deadline_of(options.timeout))};
  unwrap(group.state());
  unwrap(symm::all_reduce(group.team(), request, group.thresholds.one_shot_bytes, limits));
}

void Handle::one_shot_all_reduce(int64_t count, Reduction what,
                                 const CollectiveOptions& options) const {
  const AllReduce request{piece_of(*parts_, options), count, what, out_of(options)};
  run(symm::one_shot_all_reduce, *parts_->group, request, options.timeout);
}

void Handle::two_shot_all_reduce(int64_t count, Reduction what,
                                 const CollectiveOptions& options) const {
  const AllReduce request{piece_of(*parts_, options), count, what, out_of(options)};
  run(symm::two_shot_all_reduce, *parts_->group, request, options.timeout);
}

void Handle::reduce_scatter(int64_t count, Reduction what, const CollectiveOptions& options) const {
  const ReduceScatter request{piece_of(*parts_, options), count, what, out_of(options)};
  run(symm::reduce_scatter, *parts_->group, request, options.timeout);
}

void Handle::all_gather(const void* in, int64_t bytes, const CollectiveOptions& options) const {
  if (options.out != nullptr) {
    unwrap(Status::usage("all_gather has no out: what it gathers is in the handle's memory"));
  }
  const AllGather request{piece_of(*parts_, options), bytes, static_cast<const std::byte*>(in)};
  run(symm::all_gather, *parts_->group, request, options.timeout);
}

void Handle::broadcast(int64_t bytes, int root, const CollectiveOptions& options) const {
  const Broadcast request{piece_of(*parts_, options), bytes, root, out_of(options)};
  run(symm::broadcast, *parts_->group, request, options.timeout);
}

void Handle::all_to_all(int64_t bytes, const CollectiveOptions& options) const {
  const AllToAll request{piece_of(*parts_, options), bytes, out_of(options)};
  run(symm::all_to_all, *parts_->group, request, options.timeout);
}

void Handle::all_to_all_v(const RowExchange& rows, const CollectiveOptions& options) const {
  const AllToAllV request{piece_of(*parts_, options),
                          rows.row_bytes,
                          rows.splits,
                          out_of(options),
                          rows.out_bytes,
                          rows.out_splits,
                          rows.out_offsets};
  run(symm::all_to_all_v, *parts_->group, request, options.timeout);
}

}  // namespace ashlar::symm
