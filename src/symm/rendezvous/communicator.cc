// SPDX-License-Identifier: Apache-2.0
//
// Joining and leaving. Where a rendezvous goes on: rendezvous.cc.
#include "symm/rendezvous/communicator.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/check.h"
#include "base/text.h"
#include "symm/core/hash.h"
#include "symm/signals/signal_pad.h"
#include "symm/stores/store_helpers.h"

namespace ashlar::symm {
namespace {

constexpr std::chrono::milliseconds kPartingPatience{3000};
// What a rank leaves in the store when its group has failed, and the verdict itself, are there for
// so many leases: a rank that has its own beats within each, and reads the verdict when it does.
constexpr int kPartingLeases = 3;

std::chrono::milliseconds failure_ttl(const RankHeap& heap) {
  return kPartingLeases * heap.process().options().lease;
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
                                         " different ones) for ", options.world_size, " ranks"));
  }
  return {};
}

uint64_t member_of(const CommunicatorOptions& options, int rank) {
  return options.members.empty() ? static_cast<uint64_t>(rank) : options.members[rank];
}

// Groups of other members are others, whatever they are called.
MemberListOptions member_list_options(const CommunicatorOptions& options, const RankHeap& heap) {
  uint64_t hash = hash_append(kHashSeed, static_cast<uint64_t>(options.world_size));
  for (int rank = 0; rank < options.world_size; ++rank) {
    hash = hash_append(hash, member_of(options, rank));
  }
  return {text("ashlar/1/", options.job, '/', options.name, '/', std::hex, hash), options.name,
          options.key_ttl, failure_ttl(heap)};
}

// By rank: the lowest rank on its machine.
std::vector<int> leaders_of(const MemberList& member_list) {
  std::map<std::string_view, int> lowest;
  std::vector<int> leaders;
  for (const JoinRecord& each : member_list.records) {
    leaders.push_back(lowest.try_emplace(each.host, each.rank_info.rank).first->second);
  }
  return leaders;
}

std::vector<int> ranks_elsewhere(const MemberList& member_list, int own) {
  std::vector<int> found;
  for (const JoinRecord& each : member_list.records) {
    if (each.process != member_list.records[own].process) found.push_back(each.rank_info.rank);
  }
  return found;
}

}  // namespace

Status check_name(std::string_view what, std::string_view name) {
  if (name.size() <= kMaxNameBytes && name.find('/') == std::string_view::npos &&
      Store::check_key(name).ok()) {
    return {};
  }
  return Status::invalid_argument(text(what, " '", name.substr(0, 2 * kMaxNameBytes),
                                       "': expected 1 to ", kMaxNameBytes,
                                       " printable characters without spaces and slashes"));
}

Result<std::unique_ptr<Communicator>> Communicator::join(RankHeap& heap,
                                                         std::shared_ptr<Store> store,
                                                         const CommunicatorOptions& options,
                                                         Deadline deadline) {
  if (store == nullptr) return Status::invalid_argument("a group needs a store to meet in");
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
  own.no_fd = heap.backend().fd_availability().message();
  own.no_fabric = heap.backend().fabric_availability().message();
  own.wants_fabric = options.use_fabric;
  own.may_share_device = options.may_share_device;
  own.measures_thresholds = options.measures_thresholds;
  own.lease_ms = process.options().lease.count();
  own.pad_bytes = options.pad_bytes;
  if (options.transport != nullptr) own.transport = options.transport->address();
  own.cores = CpuSet::of_thread();
  const auto began = PhaseTimes::Clock::now();
  if (options.on_phase) options.on_phase(Phase::kJoining);
  Result<MemberList> member_list =
      gather_members(*store, member_list_options(options, heap), own, deadline);
  if (!member_list.ok()) return member_list.status();

  std::unique_ptr<Communicator> group(
      new Communicator(heap, std::move(store), options, *std::move(member_list)));
  group->times_.reach(Phase::kJoining, began);
  group->reach(Phase::kMeeting);
  if (Status introduced = group->introduce(deadline); !introduced.ok()) return introduced;
  group->times_.end();
  if (options.pad_bytes > 0) {
    Result<std::shared_ptr<const PeerTable>> pads =
        group->allocate_internal(options.pad_bytes, deadline);
    if (!pads.ok()) {
      (void)group->leave(deadline).ok();  // all do, since all failed
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
      failure_record_(store_, prefix(), failure_, failure_ttl(heap)),
      lease_monitor_(
          store_, failure_record_,
          {prefix(), options.name, rank_info_, ranks_elsewhere(member_list_, options.rank),
           heap.process().options().lease, failure_ttl(heap)}),
      exchange_(store_, failure_record_,
                {prefix(), options.name, rank_info_, options.key_ttl, failure_ttl(heap)}) {}

Communicator::~Communicator() {
  // Nobody can be in its way any more.
  if (!collective_mutex_.try_lock_until(Deadline::never())) return;
  const TimedLock lock(collective_mutex_);
  if (is_over_) return;
  part(failure_record_.publish(
      Status::peer_lost(text("rank ", rank_info_.rank, " of group ", options_.name,
                             " went away without leaving: call leave"))));
}

std::string Communicator::prefix() const {
  return text(member_list_options(options_, heap_).prefix, '/', to_hex(member_list_.token));
}

// From the roster to a group: the first exchange shows that all have it, so that it can go.
Status Communicator::introduce(Deadline deadline) {
  if (!collective_mutex_.try_lock_until(deadline)) return TimedMutex::timeout_error("a rendezvous");
  const TimedLock lock(collective_mutex_);
  heap_.process().heartbeat_thread().add(lease_monitor_);
  connections_ =
      std::make_unique<PeerConnections>(heap_.process().channel(), connection_options(), failure_);
  Status met = exchange_.barrier(deadline);
  if (met.ok()) {
    erase_join_keys(*store_, member_list_options(options_, heap_), member_list_.token,
                    rank_info_.rank,
                    sooner(Deadline::after(kPartingPatience), allow_final_attempt(deadline)));
    reach(Phase::kLinking);
    const Status fits = check_members();
    // All find the same, without a word.
    met = fits.ok() ? exchange_.agree(connect(deadline), deadline) : fits;
    // All failed alike, and go in peace.
    if (!met.ok() && !failure_->has_happened()) {
      part(finish(deadline));
      return met;
    }
  }
  if (!met.ok()) part(met);
  return met;
}

// Only ranks on this machine compete for its cores.
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

// By the records alone, which are the same on all ranks: so all find the same.
Status Communicator::check_members() const {
  const std::vector<JoinRecord>& all = member_list_.records;
  const auto differ = [&](std::string_view how, const auto& value) -> Status {
    const auto of_rank = [&](int rank) { return value(all[rank]); };
    const std::string listed = list_differences(rank_info_.world_size, of_rank);
    if (listed.empty()) return {};
    return Status::invalid_argument(
        text("the ranks of group ", options_.name, " ", how, ": ", listed));
  };
  const auto word = [](bool is_set) { return std::string_view(is_set ? "true" : "false"); };
  using Record = const JoinRecord&;
  for (const Status& checked :
       {differ("use different kinds of memory", [](Record own) { return own.backend; }),
        // It decides on ways: all are a device's, or none is.
        differ("are at odds on whether their memory has the UUID of a device",
               [&](Record own) { return word(own.device != DeviceUuid{}); }),
        differ("want pads of different sizes", [](Record own) { return own.pad_bytes; }),
        differ("have different leases, in ms", [](Record own) { return own.lease_ms; }),
        differ("have different options: may_share_device is",
               [&](Record own) { return word(own.may_share_device); }),
        differ("have different options: measure_thresholds is",
               [&](Record own) { return word(own.measures_thresholds); }),
        check_transports(), check_handle_types(), check_devices()}) {
    if (!checked.ok()) return checked;
  }
  return {};
}

Status Communicator::check_devices() const {
  if (member_list_.records[0].may_share_device) return {};
  std::map<DeviceUuid, std::vector<int>> owners;
  for (const JoinRecord& each : member_list_.records) {
    if (each.device == DeviceUuid{}) continue;  // the host's memory is for all
    owners[each.device].push_back(each.rank_info.rank);
  }
  for (const auto& [device, ranks] : owners) {
    if (ranks.size() == 1) continue;
    return Status::invalid_argument(text(name_ranks(ranks), " of group ", options_.name,
                                         " use one device, ", to_hex(device),
                                         ": give each its own, or set may_share_device"));
  }
  return {};
}

// Named from where rank 0 is, so that all say the same.
Status Communicator::check_transports() const {
  const std::vector<JoinRecord>& all = member_list_.records;
  std::vector<int> remote;
  std::vector<int> without;
  for (const JoinRecord& each : all) {
    if (each.host != all[0].host) remote.push_back(each.rank_info.rank);
    if (each.transport.empty()) without.push_back(each.rank_info.rank);
  }
  // A device's memory is mapped, wherever it is.
  if (remote.empty() || without.empty() || all[0].device != DeviceUuid{}) return {};
  return Status::invalid_argument(
      text(name_ranks(remote), " of group ", options_.name, remote.size() == 1 ? " is" : " are",
           " on another machine than rank 0, and ", name_ranks(without),
           " brought no transport: give all ranks one in the options of the "
           "group, such as ashlar::ucx's"));
}

PeerConnections::Options Communicator::connection_options() const {
  PeerConnections::Options options;
  options.group = member_list_.token;
  options.group_name = options_.name;
  options.rank_info = rank_info_;
  const JoinRecord& own = member_list_.records[rank_info_.rank];
  for (const JoinRecord& each : member_list_.records) {
    const bool is_reached = each.process != own.process && each.host == own.host;
    options.peers.push_back(is_reached ? std::optional(each.channel) : std::nullopt);
  }
  return options;
}

Status Communicator::connect(Deadline deadline) {
  const Status linked = connections_->connect(deadline);
  return linked.ok() ? connect_remotes(deadline) : linked;
}

Status Communicator::connect_remotes(Deadline deadline) {
  RemoteRanks::Options options;
  options.group = options_.name;
  options.failure = failure_;
  options.rank = rank_info_.rank;
  options.leaders = leaders_of(member_list_);
  const bool is_mapped = member_list_.records[rank_info_.rank].device != DeviceUuid{};
  if (is_mapped || is_on_one_machine()) return {};
  for (const JoinRecord& each : member_list_.records) options.addresses.push_back(each.transport);
  Result<std::shared_ptr<RemoteRanks>> remotes =
      RemoteRanks::connect(options_.transport, options, deadline);
  if (!remotes.ok()) return remotes.status();
  remotes_ = *std::move(remotes);
  return {};
}

PeerAccess Communicator::peer_access(int rank) const {
  const JoinRecord& own = member_list_.records[rank_info_.rank];
  const bool is_here = member_list_.records[rank].host == own.host;
  return is_here || own.device != DeviceUuid{} ? PeerAccess::kDirect : PeerAccess::kRemote;
}

Status Communicator::leave(Deadline deadline) {
  if (!collective_mutex_.try_lock_until(deadline)) {
    // Whoever is in the way hears of it, and ends.
    const Status late = failure_record_.publish(Status::timeout(
        text("rank ", rank_info_.rank, " of group ", options_.name,
             " could not leave: another of its threads was in a rendezvous until the deadline")));
    if (!collective_mutex_.try_lock_until(Deadline::after(kPartingPatience))) return late;
  }
  const TimedLock lock(collective_mutex_);
  if (is_over_) return Status::invalid_argument(text("group ", options_.name, " was left already"));
  const Status finished = finish(deadline);
  part(finished);
  return finished;
}

// Connections may end once all have come to the last exchange.
Status Communicator::finish(Deadline deadline) {
  if (remotes_ != nullptr) remotes_->say_farewell(deadline);
  return exchange_.finish(deadline);
}

// Signs of life go on until the very end, since the others may still be busy.
void Communicator::part(const Status& reason) {
  is_over_ = true;
  if (connections_ != nullptr) connections_->close_all(reason);
  connections_.reset();
  remotes_.reset();
  const Deadline deadline =
      Deadline::after(exchange_.has_lost_store() ? kLostStoreTimeout : kPartingPatience);
  if (!reason.ok()) abandon_keys(deadline);
  heap_.process().heartbeat_thread().remove(lease_monitor_);
  lease_monitor_.end(deadline);
  if (reason.ok()) {
    heap_.forget_group(member_list_.token);
    multicast_keeper_->let_go();
    return;
  }
  // Nobody says any more whether it is done. Whoever lives has heard of it when the verdict ends.
  multicast_keeper_->keep_from_now_on();
  heap_.forget_group(member_list_.token);
  heap_.release_multicast_after(multicast_keeper_, Deadline::after(failure_ttl(heap_)));
}

// A rank sees to its own; the one that wrote down why also to the others', some of whom are dead.
void Communicator::abandon_keys(Deadline deadline) {
  std::vector<int> ranks = {rank_info_.rank};
  if (failure_record_.is_writer()) {
    ranks.resize(rank_info_.world_size);
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  exchange_.abandon(ranks, deadline);
  expire_join_keys(*store_, member_list_options(options_, heap_), member_list_, ranks, deadline);
}

void Communicator::reach(Phase phase) {
  times_.reach(phase);
  if (options_.on_phase) options_.on_phase(phase);
}

}  // namespace ashlar::symm
