// SPDX-License-Identifier: Apache-2.0
//
// Implements groups: checks the options, joins, measures thresholds, and delegates to the
// communicator.
#include <algorithm>
#include <utility>

#include "api/symmetric_impl.h"
#include "api/unwrap.h"
#include "base/fork_guard.h"
#include "base/text.h"
#include "base/units.h"

namespace ashlar::symm {
namespace {

constexpr size_t kMaxMeasuredBytesPerRank = 4 * kMiB;
constexpr size_t kMaxTotalMeasuredBytes = 64 * kMiB;

Status check_options(const GroupOptions& options) {
  if (options.channel_count < 1 || options.channel_count >= kMaxChannels) {
    return Status::invalid_argument(
        text("channel_count is ", options.channel_count, ": expected 1 to ", kMaxChannels - 1));
  }
  return {};
}

}  // namespace

Status Group::Impl::state() const {
  if (Status forked = heap->check_not_forked(); !forked.ok()) return forked;
  if (is_left.load(std::memory_order_relaxed))
    return Status::invalid_argument(text("group ", options.name, " was already left"));
  const Failure& failure = *communicator->failure();
  return failure.has_happened() ? failure.reason() : Status();
}

Status Group::Impl::check_channel(int channel) const {
  if (channel >= 0 && channel < options.channel_count) return {};
  return Status::invalid_argument(text("channel ", channel, ": expected 0 to ",
                                       options.channel_count - 1,
                                       " (GroupOptions::channel_count)"));
}

bool Group::Impl::all_direct() const {
  for (int rank = 0; rank < options.world_size; ++rank) {
    if (communicator->peer_access(rank) != PeerAccess::kDirect) return false;
  }
  return true;
}

Result<int> Group::Impl::global_rank(int rank) const {
  if (Status wrong = communicator->rank_info().check_rank(rank); !wrong.ok()) return wrong;
  return static_cast<int>(communicator->member(rank));
}

Status Group::Impl::signal(const Signal& request, Timeout timeout, std::optional<StreamId> stream,
                           InFlightWork& in_flight_work) const {
  if (Status wrong = check_channel(request.channel); !wrong.ok()) return wrong;
  return run(request, timeout, stream, in_flight_work);
}

// Measures the thresholds on memory that is allocated only for this call.
Status Group::Impl::measure(Deadline deadline) {
  const auto ranks = static_cast<size_t>(options.world_size);
  const size_t bytes =
      std::clamp(kMaxTotalMeasuredBytes / ranks, 4 * kKiB, kMaxMeasuredBytesPerRank);
  const Result<std::shared_ptr<const PeerTable>> memory =
      communicator->allocate_internal(bytes, deadline);
  if (!memory.ok()) return memory.status();
  Result<std::optional<Thresholds>> measured = operations->measure(**memory, bytes, deadline);
  if (!measured.ok()) return measured.status();
  if (*measured) thresholds = **std::move(measured);
  return {};
}

Group Group::join(const Heap& heap, std::shared_ptr<Store> store, const GroupOptions& options) {
  return join_as(heap, std::move(store), options, {});
}

Group Group::sub_group(const SubGroupOptions& options) const {
  const Impl& parent = *impl_;
  unwrap(parent.state());
  GroupOptions child = parent.options;
  child.name = options.name;
  child.measure_thresholds = options.measure_thresholds;
  child.timeout = options.timeout;
  child.world_size = static_cast<int>(options.ranks.size());
  child.rank = -1;
  std::vector<uint64_t> members;
  for (const int rank : options.ranks) {
    unwrap(parent.communicator->rank_info().check_rank(rank));
    if (rank == parent.options.rank) child.rank = static_cast<int>(members.size());
    members.push_back(parent.communicator->member(rank));
  }
  if (child.rank < 0) {
    unwrap(Status::invalid_argument(text("rank ", parent.options.rank, " of group ",
                                         parent.options.name, " is not in sub-group ", options.name,
                                         ": only its ranks may call sub_group")));
  }
  Heap heap(parent.heap);
  return join_as(heap, parent.store, child, members);
}

Group Group::join_as(const Heap& heap, std::shared_ptr<Store> store, const GroupOptions& options,
                     const std::vector<uint64_t>& members) {
  unwrap(heap.impl_->check_not_forked());
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
  communicator.one_shot_bytes = options.one_shot_bytes;
  communicator.use_multicast = options.use_multicast;
  communicator.use_fabric = options.use_fabric;
  communicator.transport = options.transport;

  auto impl = make_fork_guarded<Impl>(heap.impl_->shared_from_this(), std::move(store), options);
  impl->in_flight.set_owner(impl);
  heap.impl_->prepare();
  impl->communicator =
      unwrap(Communicator::join(*heap.impl_->rank_heap, impl->store, communicator, deadline));
  const OperationsOptions operations{.rank_info = impl->communicator->rank_info(),
                                     .channel_count = options.channel_count + 1,
                                     .pads = impl->communicator->pads(),
                                     .failure = impl->communicator->failure(),
                                     .spin_policy = impl->communicator->spin_policy()};
  impl->operations =
      std::make_unique<CountingOperations>(unwrap(heap.impl_->operations(operations)));
  if (heap.impl_->device != nullptr) {
    const auto ranks = static_cast<size_t>(options.world_size);
    impl->tables = std::make_unique<AddressTables>(*heap.impl_->device, *heap.impl_->device_backend,
                                                   2 * ranks);
  }
  impl->thresholds.one_shot_bytes = options.one_shot_bytes;
  if (options.measure_thresholds) {
    const Status measured = impl->measure(deadline);
    // The measurement fails on all ranks or on none, so the group is intact and can be left.
    if (!measured.ok()) (void)impl->communicator->leave(deadline).ok();
    unwrap(measured);
  }
  return Group(std::move(impl));
}

void Group::leave(Timeout timeout) {
  const Deadline deadline = unwrap(deadline_of(timeout));
  unwrap(impl_->heap->check_not_forked());
  if (impl_->is_left.exchange(true, std::memory_order_relaxed)) {
    unwrap(Status::invalid_argument(text("group ", impl_->options.name, " was already left")));
  }
  Status left = impl_->communicator->leave(deadline);
  if (!impl_->communicator->has_left()) impl_->is_left.store(false, std::memory_order_relaxed);
  unwrap(std::move(left));
}

Group::Group(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Group::Group(Group&& other) noexcept = default;
Group& Group::operator=(Group&& other) noexcept = default;
Group::~Group() = default;

const std::string& Group::name() const { return impl_->options.name; }
int Group::rank() const { return impl_->options.rank; }
int Group::world_size() const { return impl_->options.world_size; }
int Group::channel_count() const { return impl_->options.channel_count; }

PeerAccess Group::peer_access(int rank) const {
  unwrap(impl_->communicator->rank_info().check_rank(rank));
  return impl_->communicator->peer_access(rank);
}

bool Group::all_direct() const { return impl_->all_direct(); }

int Group::global_rank(int rank) const { return unwrap(impl_->global_rank(rank)); }

GroupStats Group::stats() const {
  GroupStats stats;
  for (size_t kind = 0; kind < CountingOperations::kKindCount; ++kind) {
    const CountingOperations::Count line = impl_->operations->count(kind);
    if (line.count == 0) continue;
    stats.operations.push_back({CountingOperations::name(kind), line.count, line.bytes});
  }
  const std::array<PhaseTimes::Total, kPhaseCount> phases = impl_->communicator->times().totals();
  for (size_t phase = 0; phase < kPhaseCount; ++phase) {
    if (phases[phase].count == 0) continue;
    stats.phases.push_back(
        {symm::name(static_cast<Phase>(phase)), phases[phase].count, phases[phase].time});
  }
  return stats;
}

std::string GroupStats::to_string() const {
  std::string lines;
  for (const Operation& each : operations) {
    lines += text(each.name, ": ", each.count, each.count == 1 ? " call" : " calls");
    lines += each.bytes == 0 ? "\n" : text(", ", each.bytes, " bytes\n");
  }
  for (const Phase& each : phases) {
    const auto time = std::chrono::duration_cast<std::chrono::microseconds>(each.time);
    lines += text(each.name, ": ", each.count, each.count == 1 ? " time, " : " times, ",
                  time.count(), " us\n");
  }
  return lines;
}

Status Group::failure() const {
  if (Status forked = impl_->heap->check_not_forked(); !forked.ok()) return forked;
  return impl_->communicator->failure()->reason();
}

size_t Group::one_shot_bytes() const { return impl_->thresholds.one_shot_bytes; }
std::string Group::thresholds() const { return impl_->thresholds.to_string(); }

void Group::barrier(int channel, Timeout timeout, std::optional<StreamId> stream) {
  const Signal all{.kind = Signal::Kind::kBarrier, .rank = 0, .channel = channel, .value = 0};
  unwrap(impl_->signal(all, timeout, stream, impl_->in_flight));
}

void Group::finish(StreamId stream) {
  unwrap(impl_->heap->check_not_forked());
  unwrap(impl_->operations->finish(stream));
}

Handle Group::rendezvous(const void* address, Timeout timeout) {
  const Deadline deadline = unwrap(deadline_of(timeout));
  unwrap(impl_->state());
  PeerHandle peer_handle = unwrap(impl_->communicator->rendezvous(address, deadline));
  auto handle = make_fork_guarded<Handle::Impl>(impl_->shared_from_this(), std::move(peer_handle));
  const PeerTable& peers = handle->peers.peers();
  handle->buffers = peers.buffers();
  for (int rank = 0; rank < world_size(); ++rank) handle->pads.push_back(peers.pad(rank));
  handle->in_flight.set_owner(handle);
  return Handle(std::move(handle));
}

Handle Group::rendezvous(const SymmetricBuffer& buffer, Timeout timeout) {
  if (!buffer) unwrap(Status::invalid_argument("rendezvous of an empty buffer"));
  return rendezvous(static_cast<const void*>(buffer.data()), timeout);
}

}  // namespace ashlar::symm
