// SPDX-License-Identifier: Apache-2.0
//
// Groups: joined, measured, met in, left.
#include <algorithm>
#include <utility>

#include "api/symmetric_parts.h"
#include "api/unwrap.h"
#include "base/fork_guard.h"
#include "base/text.h"
#include "base/units.h"

namespace ashlar::symm {
namespace {

constexpr size_t kMostMeasuredBytes = 4 * kMiB;
// Of all ranks together: they may be many.
constexpr size_t kMostMeasuringBytes = 64 * kMiB;

Status check_options(const GroupOptions& options) {
  if (options.channel_count < 1 || options.channel_count >= kMaxChannels) {
    return Status::invalid_argument(
        text("channel_count is ", options.channel_count, ": expected 1 to ", kMaxChannels - 1));
  }
  return {};
}

}  // namespace

// --- Group::Parts -------------------------------------------------------------------------------

Status Group::Parts::state() const {
  if (Status elsewhere = heap->check_here(); !elsewhere.ok()) return elsewhere;
  if (is_left.load(std::memory_order_relaxed))
    return Status::invalid_argument(text("group ", options.name, " was left already"));
  const Failure& failure = *communicator->failure();
  return failure.has_happened() ? failure.reason() : Status();
}

Status Group::Parts::check_channel(int channel) const {
  if (channel >= 0 && channel < options.channel_count) return {};
  return Status::invalid_argument(text("channel ", channel, ": expected 0 to ",
                                       options.channel_count - 1,
                                       "; GroupOptions::channel_count makes more"));
}

bool Group::Parts::all_direct() const {
  for (int rank = 0; rank < options.world_size; ++rank) {
    if (communicator->peer_access(rank) != PeerAccess::kDirect) return false;
  }
  return true;
}

Result<int> Group::Parts::global_rank(int rank) const {
  if (Status wrong = communicator->rank_info().check_rank(rank); !wrong.ok()) return wrong;
  return static_cast<int>(communicator->member(rank));
}

Status Group::Parts::signal(const Signal& what, Timeout timeout, std::optional<StreamId> stream,
                            InFlightWork& keeper) const {
  if (Status wrong = check_channel(what.channel); !wrong.ok()) return wrong;
  return run(what, timeout, stream, keeper);
}

// In memory of its own, which goes afterwards.
Status Group::Parts::measure(Deadline deadline) {
  const auto ranks = static_cast<size_t>(options.world_size);
  const size_t bytes = std::clamp(kMostMeasuringBytes / ranks, 4 * kKiB, kMostMeasuredBytes);
  const Result<std::shared_ptr<const PeerTable>> room =
      communicator->allocate_internal(bytes, deadline);
  if (!room.ok()) return room.status();
  Result<std::optional<Thresholds>> measured = operations->measure(**room, bytes, deadline);
  if (!measured.ok()) return measured.status();
  if (*measured) thresholds = **std::move(measured);
  return {};
}

// --- joining and leaving ------------------------------------------------------------------------

Group Group::join(const Heap& heap, std::shared_ptr<Store> store, const GroupOptions& options) {
  return join_as(heap, std::move(store), options, {});
}

Group Group::sub_group(const SubGroupOptions& options) const {
  const Parts& parent = *parts_;
  unwrap(parent.state());
  GroupOptions own = parent.options;
  own.name = options.name;
  own.measure_thresholds = options.measure_thresholds;
  own.timeout = options.timeout;
  own.world_size = static_cast<int>(options.ranks.size());
  own.rank = -1;
  std::vector<uint64_t> members;
  for (const int rank : options.ranks) {
    unwrap(parent.communicator->rank_info().check_rank(rank));
    if (rank == parent.options.rank) own.rank = static_cast<int>(members.size());
    members.push_back(parent.communicator->member(rank));
  }
  if (own.rank < 0) {
    unwrap(Status::invalid_argument(text("rank ", parent.options.rank, " of group ",
                                         parent.options.name, " is none of the ranks of sub-group ",
                                         options.name, ": only those call sub_group")));
  }
  Heap heap(parent.heap);
  return join_as(heap, parent.store, own, members);
}

Group Group::join_as(const Heap& heap, std::shared_ptr<Store> store, const GroupOptions& options,
                     const std::vector<uint64_t>& members) {
  unwrap(heap.parts_->check_here());
  unwrap(check_options(options));
  const Deadline deadline = unwrap(deadline_of(options.timeout));
  CommunicatorOptions communicator;
  communicator.job = options.job;
  communicator.name = options.name;
  communicator.rank = options.rank;
  communicator.world_size = options.world_size;
  communicator.members = members;
  communicator.pad_bytes = unwrap(pad_bytes(options.world_size, options.channel_count + 1));
  communicator.may_share_device = options.may_share_device;
  communicator.measures_thresholds = options.measure_thresholds;
  communicator.use_multicast = options.use_multicast;
  communicator.use_fabric = options.use_fabric;
  communicator.transport = options.transport;

  auto parts = make_fork_guarded<Parts>(heap.parts_, std::move(store), options);
  heap.parts_->prepare();
  parts->communicator =
      unwrap(Communicator::join(*heap.parts_->rank_heap, parts->store, communicator, deadline));
  const OperationsOptions operations{.rank_info = parts->communicator->rank_info(),
                                     .channel_count = options.channel_count + 1,
                                     .pads = parts->communicator->pads(),
                                     .failure = parts->communicator->failure(),
                                     .spin_policy = parts->communicator->spin_policy()};
  parts->operations =
      std::make_unique<CountingOperations>(unwrap(heap.parts_->operations(operations)));
  if (heap.parts_->device != nullptr) {
    const auto ranks = static_cast<size_t>(options.world_size);
    parts->tables = std::make_unique<AddressTables>(*heap.parts_->device,
                                                    *heap.parts_->device_backend, 2 * ranks);
  }
  parts->thresholds.one_shot_bytes = options.one_shot_bytes;
  if (options.measure_thresholds) {
    const Status measured = parts->measure(deadline);
    // What all failed in alike leaves the group whole, and all leave it.
    if (!measured.ok()) (void)parts->communicator->leave(deadline).ok();
    unwrap(measured);
  }
  return Group(std::move(parts));
}

void Group::leave(Timeout timeout) {
  const Deadline deadline = unwrap(deadline_of(timeout));
  unwrap(parts_->heap->check_here());
  if (parts_->is_left.exchange(true, std::memory_order_relaxed)) {
    unwrap(Status::invalid_argument(text("group ", parts_->options.name, " was left already")));
  }
  unwrap(parts_->communicator->leave(deadline));
}

Group::Group(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {}
Group::Group(Group&& other) noexcept = default;
Group& Group::operator=(Group&& other) noexcept = default;
Group::~Group() = default;

// --- asking -------------------------------------------------------------------------------------

const std::string& Group::name() const { return parts_->options.name; }
int Group::rank() const { return parts_->options.rank; }
int Group::world_size() const { return parts_->options.world_size; }
int Group::channel_count() const { return parts_->options.channel_count; }

PeerAccess Group::peer_access(int rank) const {
  unwrap(parts_->communicator->rank_info().check_rank(rank));
  return parts_->communicator->peer_access(rank);
}

bool Group::all_direct() const { return parts_->all_direct(); }

int Group::global_rank(int rank) const { return unwrap(parts_->global_rank(rank)); }

GroupStats Group::stats() const {
  GroupStats use;
  for (size_t kind = 0; kind < CountingOperations::kKindCount; ++kind) {
    const CountingOperations::Count line = parts_->operations->count(kind);
    if (line.count == 0) continue;
    use.operations.push_back({CountingOperations::name(kind), line.count, line.bytes});
  }
  const std::array<PhaseTimes::Total, kPhaseCount> phases = parts_->communicator->times().totals();
  for (size_t phase = 0; phase < kPhaseCount; ++phase) {
    if (phases[phase].count == 0) continue;
    use.phases.push_back(
        {symm::name(static_cast<Phase>(phase)), phases[phase].count, phases[phase].time});
  }
  return use;
}

std::string GroupStats::to_string() const {
  std::string words;
  for (const Operation& each : operations) {
    words += text(each.name, ": ", each.count, each.count == 1 ? " call" : " calls");
    words += each.bytes == 0 ? "\n" : text(", ", each.bytes, " bytes\n");
  }
  for (const Phase& each : phases) {
    const auto time = std::chrono::duration_cast<std::chrono::microseconds>(each.time);
    words += text(each.name, ": ", each.count, each.count == 1 ? " time, " : " times, ",
                  time.count(), " us\n");
  }
  return words;
}

Status Group::failure() const {
  if (Status elsewhere = parts_->heap->check_here(); !elsewhere.ok()) return elsewhere;
  return parts_->communicator->failure()->reason();
}

size_t Group::one_shot_bytes() const { return parts_->thresholds.one_shot_bytes; }
std::string Group::thresholds() const { return parts_->thresholds.to_string(); }

// --- meeting ------------------------------------------------------------------------------------

void Group::barrier(int channel, Timeout timeout, std::optional<StreamId> stream) {
  const Signal all{.kind = Signal::Kind::kBarrier, .rank = 0, .channel = channel, .value = 0};
  unwrap(parts_->signal(all, timeout, stream, parts_->in_flight));
}

void Group::finish(StreamId stream) {
  unwrap(parts_->heap->check_here());
  unwrap(parts_->operations->finish(stream));
}

Handle Group::rendezvous(const void* address, Timeout timeout) {
  const Deadline deadline = unwrap(deadline_of(timeout));
  unwrap(parts_->state());
  PeerHandle met = unwrap(parts_->communicator->rendezvous(address, deadline));
  auto made = make_fork_guarded<Handle::Parts>(parts_, std::move(met));
  const PeerTable& peers = made->peers.peers();
  made->buffers = peers.buffers();
  for (int rank = 0; rank < world_size(); ++rank) made->pads.push_back(peers.pad(rank));
  return Handle(std::move(made));
}

Handle Group::rendezvous(const Buffer& buffer, Timeout timeout) {
  if (!buffer) unwrap(Status::invalid_argument("an empty buffer has no memory to meet for"));
  return rendezvous(static_cast<const void*>(buffer.data()), timeout);
}

}  // namespace ashlar::symm
