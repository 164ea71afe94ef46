// SPDX-License-Identifier: Apache-2.0
//
// Implements joining and leaving. rendezvous.cc implements the rendezvous.
#include "symm/rendezvous/communicator.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/check.h"
#include "base/text.h"
#include "symm/core/hash.h"
#include "symm/rendezvous/handle_exchange.h"
#include "symm/signals/signal_pad.h"
#include "symm/stores/store_helpers.h"

namespace ashlar::symm {
namespace {

constexpr std::chrono::milliseconds kLeaveTimeout{3000};
// How long the failure record and the remaining keys of a failed group stay in the store, in
// leases. Every live rank reads the failure record at least once per lease.
constexpr int kFailureTtlLeases = 3;

std::chrono::milliseconds failure_ttl(const RankHeap& heap) {
  return kFailureTtlLeases * heap.process().options().lease;
}

Status check_options(const CommunicatorOptions& options) {
  if (Status wrong = check_name("job", options.job); !wrong.ok()) return wrong;
  if (Status wrong = check_name("group", options.name); !wrong.ok()) return wrong;
  if (options.world_size < 1 || options.world_size > kMaxRanks || options.rank < 0 ||
      options.rank >= options.world_size) {
    return Status::invalid_argument(text("rank ", options.rank, " of ", options.world_size,
                                         ": expected 0 <= rank < world size <= ", kMaxRanks));
  }
  const std::set<uint64_t> distinct(options.members.begin(), options.members.end());
  const bool has_all = options.members.size() == static_cast<size_t>(options.world_size) &&
                       distinct.size() == options.members.size();
  if (!options.members.empty() && !has_all) {
    return Status::invalid_argument(text(options.members.size(), " members (", distinct.size(),
                                         " distinct) for ", options.world_size, " ranks"));
  }
  return {};
}

uint64_t member_of(const CommunicatorOptions& options, int rank) {
  return options.members.empty() ? static_cast<uint64_t>(rank) : options.members[rank];
}

// The prefix contains a hash of the members, so that groups with different members have different
// keys even if they have the same name.
MemberListOptions member_list_options(const CommunicatorOptions& options, const RankHeap& heap) {
  uint64_t hash = hash_append(kHashSeed, static_cast<uint64_t>(options.world_size));
  for (int rank = 0; rank < options.world_size; ++rank) {
    hash = hash_append(hash, member_of(options, rank));
  }
  return {text("ashlar/1/", options.job, '/', options.name, '/', std::hex, hash), options.name,
          options.key_ttl, failure_ttl(heap)};
}

// Returns, for each rank, the lowest rank on the same machine.
std::vector<int> leaders_of(const MemberList& member_list) {
  std::map<std::string_view, int> lowest;
  std::vector<int> leaders;
  for (const JoinRecord& each : member_list.records) {
    leaders.push_back(lowest.try_emplace(each.host, each.rank_info.rank).first->second);
  }
  return leaders;
}

std::vector<int> ranks_of_other_processes(const MemberList& member_list, int own) {
  std::vector<int> found;
  for (const JoinRecord& each : member_list.records) {
    if (each.process != member_list.records[own].process) found.push_back(each.rank_info.rank);
  }
  return found;
}

}  // namespace

Status check_name(std::string_view kind, std::string_view name) {
  if (name.size() <= kMaxNameBytes && name.find('/') == std::string_view::npos &&
      Store::check_key(name).ok()) {
    return {};
  }
  return Status::invalid_argument(text(kind, " '", name.substr(0, 2 * kMaxNameBytes),
                                       "': expected 1 to ", kMaxNameBytes,
                                       " printable characters without spaces and slashes"));
}

Result<std::unique_ptr<Communicator>> Communicator::join(RankHeap& heap,
                                                         std::shared_ptr<Store> store,
                                                         const CommunicatorOptions& options,
                                                         Deadline deadline) {
  if (store == nullptr)
    return Status::invalid_argument("joining a group requires a store, but it is null");
  if (Status good = check_options(options); !good.ok()) return good;
  const Result<Token> attempt = generate_token();
  if (!attempt.ok()) return attempt.status();
  Process& process = heap.process();
  JoinRecord own;
  own.rank_info = {options.rank, options.world_size};
  own.member = member_of(options, options.rank);
  own.attempt = *attempt;
  own.process = process.token();
  own.host = process.host();
  own.channel = process.channel().address();
  own.backend = heap.backend().name();
  own.device = heap.backend().device();
  own.no_fd_reason = heap.backend().fd_availability().message();
  own.no_fabric_reason = heap.backend().fabric_availability().message();
  own.wants_fabric = options.use_fabric;
  own.may_share_device = options.may_share_device;
  own.measures_thresholds = options.measures_thresholds;
  own.one_shot_bytes = options.one_shot_bytes;
  own.lease_ms = process.options().lease.count();
  own.pad_bytes = options.pad_bytes;
  own.has_transport = options.transport != nullptr;
  own.cores = CpuSet::of_thread();
  const auto began = PhaseTimes::Clock::now();
  if (options.on_phase) options.on_phase(Phase::kJoining);
  Result<MemberList> member_list =
      gather_members(*store, member_list_options(options, heap), own, deadline);
  if (!member_list.ok()) return member_list.status();

  std::unique_ptr<Communicator> group(
      new Communicator(heap, std::move(store), options, *std::move(member_list)));
  group->times_.begin(Phase::kJoining, began);
  group->begin_phase(Phase::kConfirming);
  if (Status connected = group->connect_all(deadline); !connected.ok()) return connected;
  group->times_.end();
  if (options.pad_bytes > 0) {
    Result<std::shared_ptr<const PeerTable>> pads =
        group->allocate_internal(options.pad_bytes, deadline);
    if (!pads.ok()) {
      (void)group->leave(deadline).ok();  // all ranks leave, because all failed
      return pads.status();
    }
    group->pads_ = *std::move(pads);
  }
  return group;
}

Communicator::Communicator(RankHeap& heap, std::shared_ptr<Store> store,
                           const CommunicatorOptions& options, MemberList member_list)
    : heap_(heap),
      store_(std::move(store)),
      options_(options),
      rank_info_{options.rank, options.world_size},
      member_list_(std::move(member_list)),
      failure_(std::make_shared<Failure>()),
      failure_record_(store_, key_prefix(), failure_, failure_ttl(heap)),
      lease_monitor_(store_, failure_record_,
                     {key_prefix(), options.name, rank_info_,
                      ranks_of_other_processes(member_list_, options.rank),
                      heap.process().options().lease, failure_ttl(heap)}),
      exchange_(store_, failure_record_,
                {key_prefix(), options.name, rank_info_, options.key_ttl, failure_ttl(heap)}) {}

Communicator::~Communicator() {
  // Cannot fail: no other thread may use the communicator any more.
  if (!collective_mutex_.try_lock_until(Deadline::never())) return;
  const TimedLock lock(collective_mutex_);
  if (has_left()) return;
  disconnect(failure_record_.publish(
      Status::peer_lost(text("rank ", rank_info_.rank, " of group ", options_.name,
                             " destroyed its group without calling leave"))));
}

std::string Communicator::key_prefix() const {
  return text(member_list_options(options_, heap_).prefix, '/', to_hex(member_list_.token));
}

// The first barrier shows that all ranks have the member list, so the join keys can be erased.
Status Communicator::connect_all(Deadline deadline) {
  if (!collective_mutex_.try_lock_until(deadline)) return TimedMutex::timeout_error("a rendezvous");
  const TimedLock lock(collective_mutex_);
  heap_.process().heartbeat_thread().add(lease_monitor_);
  connections_ =
      std::make_unique<PeerConnections>(heap_.process().channel(), connection_options(), failure_);
  Status status = exchange_.barrier(deadline);
  if (status.ok()) {
    erase_join_keys(*store_, member_list_options(options_, heap_), member_list_.token,
                    rank_info_.rank,
                    earlier(Deadline::after(kLeaveTimeout), allow_final_attempt(deadline)));
    begin_phase(Phase::kConnecting);
    // All ranks get the same result, so no agreement is needed.
    status = check_members();
    if (status.ok()) status = connect_members(deadline);
    // If the group itself has not failed, all ranks have the same error and can end it cleanly.
    if (!status.ok() && !failure_->has_happened()) {
      (void)announce_close(deadline).ok();  // `status` is the cause of any error
      disconnect(exchange_.finish(deadline));
      return status;
    }
  }
  if (!status.ok()) disconnect(status);
  return status;
}

// Counts only the ranks on this machine, because only they compete for its cores.
SpinPolicy Communicator::spin_policy() const {
  int ranks = 0;
  CpuSet cores;
  for (const JoinRecord& each : member_list_.records) {
    if (each.host != member_list_.records[rank_info_.rank].host) continue;
    ++ranks;
    cores.add(each.cores);
  }
  return SpinPolicy::of(ranks, cores.count());
}

// Uses only the member list, which is the same on all ranks, so all ranks get the same result.
Status Communicator::check_members() const {
  const std::vector<JoinRecord>& all = member_list_.records;
  const auto check_equal = [&](std::string_view difference, const auto& value) -> Status {
    const auto value_of_rank = [&](int rank) { return value(all[rank]); };
    const std::string listed = list_differences(rank_info_.world_size, value_of_rank);
    if (listed.empty()) return {};
    return Status::invalid_argument(
        text("the ranks of group ", options_.name, " ", difference, ": ", listed));
  };
  const auto bool_text = [](bool is_set) { return std::string_view(is_set ? "true" : "false"); };
  using Record = const JoinRecord&;
  for (const Status& checked :
       {check_equal("use different back ends", [](Record own) { return own.backend; }),
        // The choice of handle types assumes that either all ranks have memory with a device UUID,
        // or none has.
        check_equal("disagree on whether their memory has a device UUID",
                    [&](Record own) { return bool_text(own.device != DeviceUuid{}); }),
        check_equal("have signal pads of different sizes",
                    [](Record own) { return own.pad_bytes; }),
        check_equal("have different leases, in ms", [](Record own) { return own.lease_ms; }),
        check_equal("have different options: may_share_device is",
                    [&](Record own) { return bool_text(own.may_share_device); }),
        check_equal("have different options: measure_thresholds is",
                    [&](Record own) { return bool_text(own.measures_thresholds); }),
        check_equal("have different options: one_shot_bytes is",
                    [](Record own) { return own.one_shot_bytes; }),
        check_transports(), check_handle_types(options_.name, member_list_), check_devices()}) {
    if (!checked.ok()) return checked;
  }
  return {};
}

Status Communicator::check_devices() const {
  if (member_list_.records[0].may_share_device) return {};
  std::map<DeviceUuid, std::vector<int>> owners;
  for (const JoinRecord& each : member_list_.records) {
    if (each.device == DeviceUuid{}) continue;  // host memory has no device
    owners[each.device].push_back(each.rank_info.rank);
  }
  for (const auto& [device, ranks] : owners) {
    if (ranks.size() == 1) continue;
    return Status::invalid_argument(text(name_ranks(ranks), " of group ", options_.name,
                                         " use the same device, ", to_hex(device),
                                         ": give each rank its own, or set may_share_device"));
  }
  return {};
}

// Compares with rank 0, so that all ranks return the same message.
Status Communicator::check_transports() const {
  const std::vector<JoinRecord>& all = member_list_.records;
  std::vector<int> remote;
  std::vector<int> without_transport;
  for (const JoinRecord& each : all) {
    if (each.host != all[0].host) remote.push_back(each.rank_info.rank);
    if (!each.has_transport) without_transport.push_back(each.rank_info.rank);
  }
  // Device memory is mapped by fabric handles, without a transport.
  if (remote.empty() || without_transport.empty() || all[0].device != DeviceUuid{}) return {};
  return Status::invalid_argument(text(
      name_ranks(remote), " of group ", options_.name, remote.size() == 1 ? " is" : " are",
      " on another machine than rank 0, and ", name_ranks(without_transport),
      without_transport.size() == 1 ? " has" : " have",
      " no transport: set one in the group options of all ranks, such as that of ashlar::ucx"));
}

PeerConnections::Options Communicator::connection_options() const {
  PeerConnections::Options options;
  options.group = member_list_.token;
  options.group_name = options_.name;
  options.rank_info = rank_info_;
  const JoinRecord& own = member_list_.records[rank_info_.rank];
  for (const JoinRecord& each : member_list_.records) {
    const bool is_connected = each.process != own.process && each.host == own.host;
    options.peers.push_back(is_connected ? std::optional(each.channel) : std::nullopt);
  }
  return options;
}

// Connects to all other ranks. Collective: all ranks return the same status.
Status Communicator::connect_members(Deadline deadline) {
  Status connected = connections_->connect(deadline);
  const bool is_mapped = member_list_.records[rank_info_.rank].device != DeviceUuid{};
  if (is_mapped || member_list_.is_single_machine()) return exchange_.agree(connected, deadline);
  // The ranks exchange their addresses only now, because Transport::address makes the transport
  // listen on the network, which groups on one machine do not need.
  Result<std::string> own = options_.transport->address();
  if (connected.ok()) connected = own.status();
  const Result<std::vector<std::string>> addresses =
      exchange_.all_gather(own.ok() ? *own : std::string(), deadline);
  if (!addresses.ok()) return addresses.status();
  // If a rank has no address, no rank connects: that rank reports the reason through `agree`, and
  // failed connections would only hide it.
  const bool have_all = std::ranges::none_of(*addresses, &std::string::empty);
  if (connected.ok() && have_all) connected = connect_remotes(*addresses, deadline);
  return exchange_.agree(connected, deadline);
}

Status Communicator::connect_remotes(const std::vector<std::string>& addresses, Deadline deadline) {
  RemoteRanks::Options options;
  options.group = options_.name;
  options.failure = failure_;
  options.rank = rank_info_.rank;
  options.leaders = leaders_of(member_list_);
  options.addresses = addresses;
  Result<std::shared_ptr<RemoteRanks>> remotes =
      RemoteRanks::connect(options_.transport, options, deadline);
  if (!remotes.ok()) return remotes.status();
  remotes_ = *std::move(remotes);
  return {};
}

Status Communicator::leave(Deadline deadline) {
  if (!collective_mutex_.try_lock_until(deadline)) {
    // Failing the group ends the other thread's rendezvous.
    const Status late = failure_record_.publish(Status::timeout(
        text("rank ", rank_info_.rank, " of group ", options_.name,
             " could not leave: another of its threads was in a rendezvous until the deadline")));
    if (!collective_mutex_.try_lock_until(Deadline::after(kLeaveTimeout))) return late;
  }
  const TimedLock lock(collective_mutex_);
  if (has_left())
    return Status::invalid_argument(text("group ", options_.name, " was already left"));
  // An error of this rank's own operations does not fail the group for the other ranks.
  const Status flushed = announce_close(deadline);
  const Status finished = exchange_.finish(deadline);
  disconnect(finished);
  return finished.ok() ? flushed : finished;
}

// Remote ranks close their connections once all ranks have reached the last exchange, so the end of
// a connection must not count as a failure after this call.
Status Communicator::announce_close(Deadline deadline) {
  return remotes_ == nullptr ? Status() : remotes_->announce_close(deadline);
}

// Heartbeats continue until the end, because the other ranks may still be leaving.
void Communicator::disconnect(const Status& reason) {
  has_left_.store(true, std::memory_order_relaxed);
  if (connections_ != nullptr) connections_->close_all(reason);
  connections_.reset();
  remotes_.reset();
  const Deadline deadline =
      Deadline::after(exchange_.has_lost_store() ? kTimeoutAfterStoreLoss : kLeaveTimeout);
  if (!reason.ok()) expire_keys(deadline);
  heap_.process().heartbeat_thread().remove(lease_monitor_);
  lease_monitor_.erase_heartbeat(deadline);
  if (reason.ok()) {
    heap_.forget_group(member_list_.token);
    multicast_releaser_->release_all();
    return;
  }
  // The ranks of a failed group cannot agree that they are done with multicast. By the time the
  // failure record expires, every live rank has read it, so the objects are released then.
  multicast_releaser_->defer_releases();
  heap_.forget_group(member_list_.token);
  heap_.release_multicast_after(multicast_releaser_, Deadline::after(failure_ttl(heap_)));
}

// Every rank makes its own keys expire. The writer of the failure record also makes the keys of the
// other ranks expire, because some of those ranks may be dead.
void Communicator::expire_keys(Deadline deadline) {
  std::vector<int> ranks = {rank_info_.rank};
  if (failure_record_.is_writer()) {
    ranks.resize(rank_info_.world_size);
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  exchange_.abandon(ranks, deadline);
  expire_join_keys(*store_, member_list_options(options_, heap_), member_list_, ranks, deadline);
}

void Communicator::begin_phase(Phase phase) {
  times_.begin(phase);
  if (options_.on_phase) options_.on_phase(phase);
}

}  // namespace ashlar::symm
