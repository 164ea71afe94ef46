// SPDX-License-Identifier: Apache-2.0
//
// Implements the handles of symmetric memory, except collectives (symmetric_collectives.cc).
// Arguments are checked here or by the callee, before any other rank is involved.
#include "ashlar/symmetric.h"

#include <algorithm>
#include <limits>

#include "api/symmetric_impl.h"
#include "api/unwrap.h"
#include "base/align.h"
#include "base/text.h"
#include "symm/operations/operations.h"

namespace ashlar::symm {
namespace {

// Returns the offset if the range lies in the pad. REQUIRES: offset_bytes >= 0.
Result<size_t> offset_in_pad(size_t pad_bytes, int64_t offset_bytes, size_t bytes) {
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

int Handle::rank() const { return impl_->group->options.rank; }
int Handle::world_size() const { return impl_->group->options.world_size; }
const std::string& Handle::group_name() const { return impl_->group->options.name; }
const std::vector<std::byte*>& Handle::buffer_ptrs() const { return impl_->buffers; }
const std::vector<std::byte*>& Handle::signal_pad_ptrs() const { return impl_->pads; }
size_t Handle::buffer_bytes() const { return impl_->peers.peers().buffer_bytes(); }
size_t Handle::signal_pad_bytes() const { return impl_->peers.peers().pad_bytes(); }
size_t Handle::offset() const { return impl_->peers.offset(); }

const std::string& Handle::no_multicast_reason() const {
  return impl_->peers.peers().no_multicast_reason();
}

const std::string& Handle::no_fabric_reason() const {
  return impl_->peers.peers().no_fabric_reason();
}

std::byte* Handle::multicast_ptr() const {
  std::byte* buffers = impl_->peers.peers().multicast_buffer();
  return buffers == nullptr ? nullptr : buffers + offset();
}

PeerAccess Handle::peer_access(int rank) const {
  unwrap(impl_->peers.peers().rank_info().check_rank(rank));
  return impl_->peers.peers().access(rank);
}

bool Handle::all_direct() const { return impl_->group->all_direct(); }

int Handle::global_rank(int rank) const { return unwrap(impl_->group->global_rank(rank)); }

// Two threads may build a table concurrently. The second thread to finish discards its table.
Result<std::byte* const*> Handle::Impl::table_on_device() const {
  if (Status forked = group->heap->check_not_forked(); !forked.ok()) return forked;
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
  if (impl_->group->tables == nullptr) return impl_->buffers.data();
  return unwrap(impl_->table_on_device());
}

std::byte* const* Handle::signal_pad_ptrs_on_device() const {
  if (impl_->group->tables == nullptr) return impl_->pads.data();
  return unwrap(impl_->table_on_device()) + world_size();
}

namespace {

struct BufferRange {
  int64_t offset_bytes = 0;
  size_t bytes = 0;
};

template <typename ElementRange>
Result<BufferRange> byte_range(const ElementRange& range) {
  if (range.offset < 0)
    return Status::invalid_argument(text("offset ", range.offset, ": expected 0 or more"));
  const Result<size_t> bytes = checked_bytes("count", range.count, range.element_bytes);
  if (!bytes.ok()) return bytes.status();
  const Result<size_t> offset = checked_bytes("offset", range.offset, range.element_bytes);
  if (!offset.ok()) return offset.status();
  return BufferRange{static_cast<int64_t>(*offset), *bytes};
}

std::byte* check_alignment(size_t alignment, std::byte* address) {
  if (!is_aligned(reinterpret_cast<uintptr_t>(address), alignment)) {
    unwrap(Status::invalid_argument(text(static_cast<const void*>(address),
                                         " is not aligned to the element's ", alignment,
                                         " bytes: use another offset")));
  }
  return address;
}

}  // namespace

int64_t Handle::offset_of(const void* address) const {
  const std::byte* begin = impl_->buffers[static_cast<size_t>(rank())] + offset();
  const auto offset_bytes = static_cast<int64_t>(reinterpret_cast<uintptr_t>(address) -
                                                 reinterpret_cast<uintptr_t>(begin));
  if (offset_bytes < 0 || static_cast<size_t>(offset_bytes) > impl_->peers.end()) {
    unwrap(Status::invalid_argument(
        text(address, " is not in this rank's memory of the handle, which begins at ",
             static_cast<const void*>(begin))));
  }
  return offset_bytes;
}

void Handle::check_size(const char* name, int64_t size, int64_t expected) {
  if (size == expected) return;
  unwrap(Status::invalid_argument(text(name, " has ", size, " elements: expected ", expected)));
}

void* Handle::view_of(int rank, const ElementRange& range) const {
  const BufferRange bytes = unwrap(byte_range(range));
  return check_alignment(range.alignment,
                         unwrap(impl_->peers.at(rank, bytes.offset_bytes, bytes.bytes)));
}

void* Handle::pad_of(int rank, const ElementRange& range) const {
  if (peer_access(rank) != PeerAccess::kDirect) {
    unwrap(Status::unsupported(text("the signal pad of rank ", rank,
                                    " is on another machine than rank ", this->rank(),
                                    " and has no pointer here")));
  }
  const BufferRange bytes = unwrap(byte_range(range));
  const size_t at = unwrap(offset_in_pad(signal_pad_bytes(), bytes.offset_bytes, bytes.bytes));
  return check_alignment(range.alignment, impl_->pads[static_cast<size_t>(rank)] + at);
}

void Handle::put(int to, std::span<const std::byte> from, int64_t offset_bytes) const {
  const size_t buffer_offset = unwrap(impl_->peers.offset_in_buffer(to, offset_bytes, from.size()));
  unwrap(impl_->group->state());
  unwrap(impl_->group->operations->put(impl_->peers.peers(), to, buffer_offset, from));
}

void Handle::get(int from, std::span<std::byte> to, int64_t offset_bytes) const {
  const size_t buffer_offset = unwrap(impl_->peers.offset_in_buffer(from, offset_bytes, to.size()));
  unwrap(impl_->group->state());
  unwrap(impl_->group->operations->get(impl_->peers.peers(), from, buffer_offset, to));
}

void Handle::post(int to, std::span<const std::byte> from, int64_t offset_bytes) const {
  const size_t buffer_offset = unwrap(impl_->peers.offset_in_buffer(to, offset_bytes, from.size()));
  unwrap(impl_->group->state());
  unwrap(impl_->group->operations->post(impl_->peers.peers(), to, buffer_offset, from));
}

namespace {

// Returns the offset of the word in the buffer of rank `target`.
Result<size_t> word_offset(const PeerHandle& peers, int target, const AtomicOp& op) {
  const auto word_bytes = static_cast<size_t>(op.word_bytes);
  if (op.word_bytes != WordBytes::k4 && op.word_bytes != WordBytes::k8) {
    return Status::invalid_argument(text("a word of ", word_bytes, " bytes: expected 4 or 8"));
  }
  if (!is_known(op.kind)) {
    return Status::invalid_argument(text("unknown atomic operation ", static_cast<int>(op.kind)));
  }
  const auto max_offset = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  Result<size_t> buffer_offset = peers.offset_in_buffer(
      target, static_cast<int64_t>(std::min(op.offset, max_offset)), word_bytes);
  if (buffer_offset.ok() && !is_aligned(*buffer_offset, word_bytes)) {
    return Status::invalid_argument(text("a word of ", word_bytes, " bytes at offset ", op.offset,
                                         " of a handle at offset ", peers.offset(),
                                         " is not aligned to its size: use another offset"));
  }
  return buffer_offset;
}

AtomicOp with_offset(AtomicOp op, uint64_t offset) {
  op.offset = offset;
  return op;
}

}  // namespace

void Handle::post(int target, const AtomicOp& op) const {
  if (op.kind == AtomicKind::kSwap || op.kind == AtomicKind::kCompareAndSwap) {
    unwrap(Status::invalid_argument("a swap returns a value: use fetch"));
  }
  const size_t buffer_offset = unwrap(word_offset(impl_->peers, target, op));
  unwrap(impl_->group->state());
  unwrap(
      impl_->group->operations->post(impl_->peers.peers(), target, with_offset(op, buffer_offset)));
}

uint64_t Handle::fetch(int target, const AtomicOp& op) const {
  const size_t buffer_offset = unwrap(word_offset(impl_->peers, target, op));
  unwrap(impl_->group->state());
  return unwrap(impl_->group->operations->fetch(impl_->peers.peers(), target,
                                                with_offset(op, buffer_offset)));
}

// Checks the state first, because posts to a lost rank do not arrive.
void Handle::fence() const {
  unwrap(impl_->group->state());
  unwrap(impl_->group->operations->fence(impl_->peers.peers()));
}

void Handle::quiet() const {
  unwrap(impl_->group->state());
  unwrap(impl_->group->operations->quiet(impl_->peers.peers()));
}

namespace {

// Checks the range and converts it to an offset from the start of the rank's pad, which precedes
// the buffer.
Result<WordFillRequest> checked_fill(const PeerHandle& peers, int to, const WordFill& fill) {
  if (fill.count < 1)
    return Status::invalid_argument(text("count is ", fill.count, ": expected 1 or more"));
  const Result<size_t> bytes = checked_bytes("count", fill.count, sizeof(uint32_t));
  if (!bytes.ok()) return bytes.status();
  const Result<size_t> offset = checked_bytes("offset", fill.offset, sizeof(uint32_t));
  if (!offset.ok()) return offset.status();
  const auto begin = static_cast<int64_t>(*offset);
  WordFillRequest store{
      .rank = to, .offset = 0, .count = static_cast<size_t>(fill.count), .value = fill.value};
  if (fill.memory == WordFill::Memory::kSignalPad) {
    if (Status wrong = peers.peers().rank_info().check_rank(to); !wrong.ok()) return wrong;
    const Result<size_t> pad_offset = offset_in_pad(peers.peers().pad_bytes(), begin, *bytes);
    if (!pad_offset.ok()) return pad_offset.status();
    store.offset = *pad_offset;
    return store;
  }
  const Result<size_t> buffer_offset = peers.offset_in_buffer(to, begin, *bytes);
  if (!buffer_offset.ok()) return buffer_offset.status();
  if (!is_aligned(*buffer_offset, sizeof(uint32_t))) {
    return Status::invalid_argument(
        text("a handle at offset ", peers.offset(),
             " is not aligned to 32-bit words: use an address that is aligned to 4 bytes"));
  }
  store.offset = peers.peers().buffer_offset() + *buffer_offset;
  return store;
}

}  // namespace

void Handle::store_words(int to, const WordFill& fill, std::optional<StreamId> stream) const {
  const WordFillRequest store = unwrap(checked_fill(impl_->peers, to, fill));
  unwrap(impl_->group->state());
  unwrap(impl_->group->operations->store_words(
      impl_->peers.peers(), store,
      {.stream = stream, .timeout = {}, .in_flight = &impl_->in_flight}));
}

void Handle::multimem_put(std::span<const std::byte> from, int64_t offset_bytes,
                          std::optional<StreamId> stream) const {
  const PeerTable& peers = impl_->peers.peers();
  unwrap(check_multicast(peers, "put to each rank"));
  const size_t buffer_offset =
      unwrap(impl_->peers.offset_in_buffer(rank(), offset_bytes, from.size()));
  const std::byte* destination = peers.buffer(rank()) + buffer_offset;
  if (from.data() != destination) {
    unwrap(check_disjoint("from", from.data(), from.size(), 1, {destination, from.size()}));
  }
  unwrap(impl_->group->state());
  if (from.empty()) return;
  unwrap(impl_->group->operations->multicast_put(
      peers,
      {.from = from,
       .offset = buffer_offset,
       .multicast = peers.multicast_buffer() + buffer_offset},
      {.stream = stream, .timeout = {}, .in_flight = &impl_->in_flight}));
}

void Handle::put_signal(int to, int channel, Timeout timeout,
                        std::optional<StreamId> stream) const {
  const Signal signal{.kind = Signal::Kind::kPut, .rank = to, .channel = channel, .value = 0};
  unwrap(impl_->group->signal(signal, timeout, stream, impl_->in_flight));
}

void Handle::wait_signal(int from, int channel, Timeout timeout,
                         std::optional<StreamId> stream) const {
  const Signal signal{.kind = Signal::Kind::kWait, .rank = from, .channel = channel, .value = 0};
  unwrap(impl_->group->signal(signal, timeout, stream, impl_->in_flight));
}

void Handle::add_signal(int to, uint64_t amount, int channel,
                        std::optional<StreamId> stream) const {
  const Signal signal{.kind = Signal::Kind::kAdd, .rank = to, .channel = channel, .value = amount};
  unwrap(impl_->group->signal(signal, Timeout(0), stream, impl_->in_flight));
}

void Handle::wait_for_value(int from, uint64_t value, int channel, Timeout timeout,
                            std::optional<StreamId> stream) const {
  const Signal signal{
      .kind = Signal::Kind::kWaitForValue, .rank = from, .channel = channel, .value = value};
  unwrap(impl_->group->signal(signal, timeout, stream, impl_->in_flight));
}

uint64_t Handle::counter_value(int from, int channel) const {
  unwrap(impl_->group->check_channel(channel));
  unwrap(impl_->group->heap->check_not_forked());
  return unwrap(impl_->group->operations->counter_value(from, channel));
}

void Handle::barrier(int channel, Timeout timeout, std::optional<StreamId> stream) const {
  const Signal all{.kind = Signal::Kind::kBarrier, .rank = 0, .channel = channel, .value = 0};
  unwrap(impl_->group->signal(all, timeout, stream, impl_->in_flight));
}

}  // namespace ashlar::symm
