// SPDX-License-Identifier: Apache-2.0
//
// Handles: what they are, and what one rank does, or two; collectives are in
// symmetric_collectives.cc. Every argument is checked here or in the call below, before anybody is
// told anything.
#include "ashlar/symmetric.h"

#include <algorithm>
#include <limits>

#include "api/symmetric_parts.h"
#include "api/unwrap.h"
#include "base/align.h"
#include "base/text.h"
#include "symm/operations/operations.h"

namespace ashlar::symm {
namespace {

// REQUIRES: no negative offset.
Result<size_t> place_in_pad(size_t pad_bytes, int64_t offset_bytes, size_t bytes) {
  const auto offset = static_cast<uint64_t>(offset_bytes);
  if (offset > pad_bytes || bytes > pad_bytes - offset) {
    return Status::invalid_argument(
        text(bytes, " bytes at offset ", offset, ": the pad has ", pad_bytes, " bytes"));
  }
  return offset;
}

}  // namespace

Status check_multicast(const PeerTable& peers, std::string_view instead) {
  if (peers.multicast_buffer() != nullptr) return {};
  return Status::invalid_argument(
      text("this memory has no multicast: ", peers.no_multicast_reason(), "; use ", instead));
}

int Handle::rank() const { return parts_->group->options.rank; }
int Handle::world_size() const { return parts_->group->options.world_size; }
const std::string& Handle::group_name() const { return parts_->group->options.name; }
const std::vector<std::byte*>& Handle::buffer_ptrs() const { return parts_->buffers; }
const std::vector<std::byte*>& Handle::signal_pad_ptrs() const { return parts_->pads; }
size_t Handle::buffer_bytes() const { return parts_->peers.peers().buffer_bytes(); }
size_t Handle::signal_pad_bytes() const { return parts_->peers.peers().pad_bytes(); }
size_t Handle::offset() const { return parts_->peers.offset(); }

const std::string& Handle::no_multicast_reason() const {
  return parts_->peers.peers().no_multicast_reason();
}

const std::string& Handle::no_fabric_reason() const {
  return parts_->peers.peers().no_fabric_reason();
}

std::byte* Handle::multicast_ptr() const {
  std::byte* buffers = parts_->peers.peers().multicast_buffer();
  return buffers == nullptr ? nullptr : buffers + offset();
}

PeerAccess Handle::peer_access(int rank) const {
  unwrap(parts_->peers.peers().rank_info().check_rank(rank));
  return parts_->peers.peers().access(rank);
}

bool Handle::all_direct() const { return parts_->group->all_direct(); }

int Handle::global_rank(int rank) const { return unwrap(parts_->group->global_rank(rank)); }

// --- tables on the device -----------------------------------------------------------------------

// Whoever comes second at the same time finds one there, and drops its own.
Result<std::byte* const*> Handle::Parts::table_on_device() const {
  if (Status elsewhere = group->heap->check_here(); !elsewhere.ok()) return elsewhere;
  {
    MutexLock lock(mutex);
    if (table != nullptr) return table->at();
  }
  std::vector<std::byte*> all = buffers;
  all.insert(all.end(), pads.begin(), pads.end());
  Result<std::unique_ptr<AddressTables::Table>> made = group->tables->make(all);
  if (!made.ok()) return made.status();
  MutexLock lock(mutex);
  if (table == nullptr) table = *std::move(made);
  return table->at();
}

std::byte* const* Handle::buffer_ptrs_on_device() const {
  if (parts_->group->tables == nullptr) return parts_->buffers.data();
  return unwrap(parts_->table_on_device());
}

std::byte* const* Handle::signal_pad_ptrs_on_device() const {
  if (parts_->group->tables == nullptr) return parts_->pads.data();
  return unwrap(parts_->table_on_device()) + world_size();
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
    return Status::invalid_argument(text("offset ", extent.offset, ": expected 0 or more"));
  const Result<size_t> bytes = checked_bytes("count", extent.count, extent.element_bytes);
  if (!bytes.ok()) return bytes.status();
  const Result<size_t> offset = checked_bytes("offset", extent.offset, extent.element_bytes);
  if (!offset.ok()) return offset.status();
  return Wanted{static_cast<int64_t>(*offset), *bytes};
}

std::byte* aligned_to(size_t alignment, std::byte* address) {
  if (!is_aligned(reinterpret_cast<uintptr_t>(address), alignment)) {
    unwrap(Status::invalid_argument(text(static_cast<const void*>(address),
                                         " is not aligned to the element's ", alignment,
                                         " bytes: use another offset")));
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
  if (peer_access(rank) != PeerAccess::kDirect) {
    unwrap(Status::unsupported(text("rank ", rank, "'s pad is on another machine than rank ",
                                    this->rank(), "'s: it cannot be reached by pointer")));
  }
  const Wanted wanted = unwrap(wanted_of(extent));
  const size_t at = unwrap(place_in_pad(signal_pad_bytes(), wanted.offset_bytes, wanted.bytes));
  return aligned_to(extent.alignment, parts_->pads[static_cast<size_t>(rank)] + at);
}

// --- one rank, two ranks ------------------------------------------------------------------------

void Handle::put(int to, std::span<const std::byte> from, int64_t offset_bytes) const {
  const size_t place = unwrap(parts_->peers.offset_in_buffer(to, offset_bytes, from.size()));
  unwrap(parts_->group->state());
  unwrap(parts_->group->operations->put(parts_->peers.peers(), to, place, from));
}

void Handle::get(int from, std::span<std::byte> to, int64_t offset_bytes) const {
  const size_t place = unwrap(parts_->peers.offset_in_buffer(from, offset_bytes, to.size()));
  unwrap(parts_->group->state());
  unwrap(parts_->group->operations->get(parts_->peers.peers(), from, place, to));
}

void Handle::post(int to, std::span<const std::byte> from, int64_t offset_bytes) const {
  const size_t place = unwrap(parts_->peers.offset_in_buffer(to, offset_bytes, from.size()));
  unwrap(parts_->group->state());
  unwrap(parts_->group->operations->post(parts_->peers.peers(), to, place, from));
}

namespace {

// Where in that rank's buffer the word is.
Result<size_t> word_place(const PeerHandle& peers, int at, const AtomicOp& what) {
  const auto word_bytes = static_cast<size_t>(what.word);
  if (what.word != WordBytes::k4 && what.word != WordBytes::k8) {
    return Status::invalid_argument(text("a word of ", word_bytes, " bytes: expected 4 or 8"));
  }
  if (!is_known(what.kind)) {
    return Status::invalid_argument(
        text("step ", static_cast<int>(what.kind), " on a word is unknown"));
  }
  const auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  Result<size_t> place =
      peers.offset_in_buffer(at, static_cast<int64_t>(std::min(what.offset, most)), word_bytes);
  if (place.ok() && !is_aligned(*place, word_bytes)) {
    return Status::invalid_argument(text("a word of ", word_bytes, " bytes at offset ", what.offset,
                                         " of a handle at offset ", peers.offset(),
                                         " is not aligned to its size: use another offset"));
  }
  return place;
}

AtomicOp with_offset(AtomicOp call, uint64_t offset) {
  call.offset = offset;
  return call;
}

}  // namespace

void Handle::post(int at, const AtomicOp& what) const {
  if (what.kind == AtomicKind::kSwap || what.kind == AtomicKind::kCompareAndSwap) {
    unwrap(Status::invalid_argument("a swap has an answer: use fetch"));
  }
  const size_t place = unwrap(word_place(parts_->peers, at, what));
  unwrap(parts_->group->state());
  unwrap(parts_->group->operations->post(parts_->peers.peers(), at, with_offset(what, place)));
}

uint64_t Handle::fetch(int at, const AtomicOp& what) const {
  const size_t place = unwrap(word_place(parts_->peers, at, what));
  unwrap(parts_->group->state());
  return unwrap(
      parts_->group->operations->fetch(parts_->peers.peers(), at, with_offset(what, place)));
}

// What was posted to a rank that is lost is nowhere, and is not said to be there.
void Handle::fence() const {
  unwrap(parts_->group->state());
  unwrap(parts_->group->operations->fence(parts_->peers.peers()));
}

void Handle::quiet() const {
  unwrap(parts_->group->state());
  unwrap(parts_->group->operations->quiet(parts_->peers.peers()));
}

namespace {

// Where from the beginning of that rank's pad on the words are; behind it lies the buffer.
Result<WordFillRequest> checked_store(const PeerHandle& peers, int to, const WordFill& what) {
  if (what.count < 1)
    return Status::invalid_argument(text("count is ", what.count, ": expected 1 or more"));
  const Result<size_t> bytes = checked_bytes("count", what.count, sizeof(uint32_t));
  if (!bytes.ok()) return bytes.status();
  const Result<size_t> offset = checked_bytes("offset", what.offset, sizeof(uint32_t));
  if (!offset.ok()) return offset.status();
  const auto begin = static_cast<int64_t>(*offset);
  WordFillRequest store{
      .rank = to, .offset = 0, .count = static_cast<size_t>(what.count), .value = what.value};
  if (what.of == WordFill::Of::kSignalPad) {
    if (Status wrong = peers.peers().rank_info().check_rank(to); !wrong.ok()) return wrong;
    const Result<size_t> place = place_in_pad(peers.peers().pad_bytes(), begin, *bytes);
    if (!place.ok()) return place.status();
    store.offset = *place;
    return store;
  }
  const Result<size_t> place = peers.offset_in_buffer(to, begin, *bytes);
  if (!place.ok()) return place.status();
  if (!is_aligned(*place, sizeof(uint32_t))) {
    return Status::invalid_argument(
        text("a handle at offset ", peers.offset(),
             " has no words of 32 bits: ", "meet at an address that is aligned to 4 bytes"));
  }
  store.offset = peers.peers().buffer_offset() + *place;
  return store;
}

}  // namespace

void Handle::store_words(int to, const WordFill& what, std::optional<StreamId> stream) const {
  const WordFillRequest store = unwrap(checked_store(parts_->peers, to, what));
  unwrap(parts_->group->state());
  unwrap(parts_->group->operations->store_words(
      parts_->peers.peers(), store,
      {.stream = stream, .timeout = {}, .in_flight = &parts_->in_flight}));
}

void Handle::multimem_put(std::span<const std::byte> from, int64_t offset_bytes,
                          std::optional<StreamId> stream) const {
  const PeerTable& peers = parts_->peers.peers();
  unwrap(check_multicast(peers, "put to each rank"));
  const size_t place = unwrap(parts_->peers.offset_in_buffer(rank(), offset_bytes, from.size()));
  const std::byte* own = peers.buffer(rank()) + place;
  if (from.data() != own) {
    unwrap(check_disjoint("from", from.data(), from.size(), 1, {own, from.size()}));
  }
  unwrap(parts_->group->state());
  if (from.empty()) return;
  unwrap(parts_->group->operations->multicast_put(
      peers, {.from = from, .offset = place, .multicast = peers.multicast_buffer() + place},
      {.stream = stream, .timeout = {}, .in_flight = &parts_->in_flight}));
}

void Handle::put_signal(int to, int channel, Timeout timeout,
                        std::optional<StreamId> stream) const {
  const Signal what{.kind = Signal::Kind::kPut, .rank = to, .channel = channel, .value = 0};
  unwrap(parts_->group->signal(what, timeout, stream, parts_->in_flight));
}

void Handle::wait_signal(int from, int channel, Timeout timeout,
                         std::optional<StreamId> stream) const {
  const Signal what{.kind = Signal::Kind::kWait, .rank = from, .channel = channel, .value = 0};
  unwrap(parts_->group->signal(what, timeout, stream, parts_->in_flight));
}

void Handle::add_signal(int to, uint64_t amount, int channel,
                        std::optional<StreamId> stream) const {
  const Signal what{.kind = Signal::Kind::kAdd, .rank = to, .channel = channel, .value = amount};
  unwrap(parts_->group->signal(what, Timeout(0), stream, parts_->in_flight));
}

void Handle::wait_for_value(int from, uint64_t value, int channel, Timeout timeout,
                            std::optional<StreamId> stream) const {
  const Signal what{
      .kind = Signal::Kind::kWaitForValue, .rank = from, .channel = channel, .value = value};
  unwrap(parts_->group->signal(what, timeout, stream, parts_->in_flight));
}

uint64_t Handle::counter_value(int from, int channel) const {
  unwrap(parts_->group->check_channel(channel));
  unwrap(parts_->group->heap->check_here());
  return unwrap(parts_->group->operations->counter_value(from, channel));
}

void Handle::barrier(int channel, Timeout timeout, std::optional<StreamId> stream) const {
  const Signal all{.kind = Signal::Kind::kBarrier, .rank = 0, .channel = channel, .value = 0};
  unwrap(parts_->group->signal(all, timeout, stream, parts_->in_flight));
}

}  // namespace ashlar::symm
