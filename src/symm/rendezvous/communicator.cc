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
#include "symm/signals/pad.h"
#include "symm/stores/checked_look.h"

namespace ashlar::symm {
namespace {

constexpr std::chrono::milliseconds kPartingPatience{3000};
// What a rank leaves in the store when its group has failed, and the verdict itself, are there for
// so many leases: a rank that has its own beats within each, and reads the verdict when it does.
constexpr int kPartingLeases = 3;

std::chrono::milliseconds parting_life(const Arena& arena) {
  return kPartingLeases * arena.process().options().lease;
}

Status check_options(const CircleOptions& options) {
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

uint64_t member_of(const CircleOptions& options, int rank) {
  return options.members.empty() ? static_cast<uint64_t>(rank) : options.members[rank];
}

// Groups of other members are others, whatever they are called.
RosterOptions roster_options(const CircleOptions& options, const Arena& arena) {
  uint64_t hash = hash_on(kHashStart, static_cast<uint64_t>(options.world_size));
  for (int rank = 0; rank < options.world_size; ++rank) {
    hash = hash_on(hash, member_of(options, rank));
  }
  return {text("ashlar/1/", options.job, '/', options.name, '/', std::hex, hash), options.name,
          options.key_life, parting_life(arena)};
}

// By rank: the lowest rank on its machine.
std::vector<int> leaders_of(const Roster& roster) {
  std::map<std::string_view, int> lowest;
  std::vector<int> leaders;
  for (const JoinRecord& each : roster.records) {
    leaders.push_back(lowest.try_emplace(each.host, each.seat.rank).first->second);
  }
  return leaders;
}

std::vector<int> ranks_elsewhere(const Roster& roster, int own) {
  std::vector<int> found;
  for (const JoinRecord& each : roster.records) {
    if (each.process != roster.records[own].process) found.push_back(each.seat.rank);
  }
  return found;
}

}  // namespace

Status check_name(std::string_view what, std::string_view name) {
  if (name.size() <= kMostNameBytes && name.find('/') == std::string_view::npos &&
      Store::check_key(name).ok()) {
    return {};
  }
  return Status::invalid_argument(text(what, " '", name.substr(0, 2 * kMostNameBytes),
                                       "': expected 1 to ", kMostNameBytes,
                                       " printable characters without spaces and slashes"));
}

Result<std::unique_ptr<Circle>> Circle::join(Arena& arena, std::shared_ptr<Store> store,
                                             const CircleOptions& options, Deadline deadline) {
  if (store == nullptr) return Status::invalid_argument("a group needs a store to meet in");
  if (Status good = check_options(options); !good.ok()) return good;
  const Result<Token> attempt = draw_token();
  if (!attempt.ok()) return attempt.status();
  Process& process = arena.process();
  JoinRecord own;
  own.seat = {options.rank, options.world_size};
  own.member = member_of(options, options.rank);
  own.attempt = *attempt;
  own.process = process.token();
  own.host = process.host();
  own.channel = process.channel().address();
  own.backend = arena.backend().name();
  own.device = arena.backend().device();
  own.no_fd = arena.backend().fd_availability().message();
  own.no_fabric = arena.backend().fabric_availability().message();
  own.wants_fabric = options.use_fabric;
  own.may_share_device = options.may_share_device;
  own.measures_thresholds = options.measures_thresholds;
  own.lease_ms = process.options().lease.count();
  own.pad_bytes = options.pad_bytes;
  if (options.transport != nullptr) own.transport = options.transport->address();
  own.cores = Cores::of_thread();
  const auto began = PhaseTimes::Clock::now();
  if (options.on_phase) options.on_phase(Phase::kJoining);
  Result<Roster> roster = gather_roster(*store, roster_options(options, arena), own, deadline);
  if (!roster.ok()) return roster.status();

  std::unique_ptr<Circle> group(new Circle(arena, std::move(store), options, *std::move(roster)));
  group->times_.reach(Phase::kJoining, began);
  group->reach(Phase::kMeeting);
  if (Status introduced = group->introduce(deadline); !introduced.ok()) return introduced;
  group->times_.end();
  if (options.pad_bytes > 0) {
    Result<std::shared_ptr<const Peers>> pads = group->share_memory(options.pad_bytes, deadline);
    if (!pads.ok()) {
      (void)group->leave(deadline).ok();  // all do, since all failed
      return pads.status();
    }
    group->pads_ = *std::move(pads);
  }
  return group;
}

Circle::Circle(Arena& arena, std::shared_ptr<Store> store, const CircleOptions& options,
               Roster roster)
    : arena_(arena),
      store_(std::move(store)),
      options_(options),
      seat_{options.rank, options.world_size},
      roster_(std::move(roster)),
      failure_(std::make_shared<Failure>()),
      verdict_(store_, prefix(), failure_, parting_life(arena)),
      leases_(store_, verdict_,
              {prefix(), options.name, seat_, ranks_elsewhere(roster_, options.rank),
               arena.process().options().lease, parting_life(arena)}),
      exchange_(store_, verdict_,
                {prefix(), options.name, seat_, options.key_life, parting_life(arena)}) {}

Circle::~Circle() {
  // Nobody can be in its way any more.
  if (!turn_.take(Deadline::never())) return;
  const TurnTaken taken(turn_);
  if (is_over_) return;
  part(verdict_.announce(Status::peer_lost(text("rank ", seat_.rank, " of group ", options_.name,
                                                " went away without leaving: call leave"))));
}

std::string Circle::prefix() const {
  return text(roster_options(options_, arena_).prefix, '/', to_hex(roster_.token));
}

// From the roster to a group: the first exchange shows that all have it, so that it can go.
Status Circle::introduce(Deadline deadline) {
  if (!turn_.take(deadline)) return Turn::not_taken("a rendezvous");
  const TurnTaken taken(turn_);
  arena_.process().heart().add(leases_);
  links_ = std::make_unique<Links>(arena_.process().channel(), link_options(), failure_);
  Status met = exchange_.barrier(deadline);
  if (met.ok()) {
    clear_roster(*store_, roster_options(options_, arena_), roster_.token, seat_.rank,
                 sooner(Deadline::after(kPartingPatience), with_a_last_look(deadline)));
    reach(Phase::kLinking);
    const Status fits = check_roster();
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
Patience Circle::patience() const {
  int ranks = 0;
  Cores cores;
  for (const JoinRecord& each : roster_.records) {
    if (each.host != roster_.records[seat_.rank].host) continue;
    ++ranks;
    cores.add(each.cores);
  }
  return Patience::of(ranks, cores.count());
}

// By the records alone, which are the same on all ranks: so all find the same.
Status Circle::check_roster() const {
  const std::vector<JoinRecord>& all = roster_.records;
  const auto differ = [&](std::string_view how, const auto& value) -> Status {
    const auto of_rank = [&](int rank) { return value(all[rank]); };
    const std::string listed = list_differences(seat_.world_size, of_rank);
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
        check_transports(), check_ways(), check_devices()}) {
    if (!checked.ok()) return checked;
  }
  return {};
}

Status Circle::check_devices() const {
  if (roster_.records[0].may_share_device) return {};
  std::map<DeviceUuid, std::vector<int>> owners;
  for (const JoinRecord& each : roster_.records) {
    if (each.device == DeviceUuid{}) continue;  // the host's memory is for all
    owners[each.device].push_back(each.seat.rank);
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
Status Circle::check_transports() const {
  const std::vector<JoinRecord>& all = roster_.records;
  std::vector<int> remote;
  std::vector<int> without;
  for (const JoinRecord& each : all) {
    if (each.host != all[0].host) remote.push_back(each.seat.rank);
    if (each.transport.empty()) without.push_back(each.seat.rank);
  }
  // A device's memory is mapped, wherever it is.
  if (remote.empty() || without.empty() || all[0].device != DeviceUuid{}) return {};
  return Status::invalid_argument(
      text(name_ranks(remote), " of group ", options_.name, remote.size() == 1 ? " is" : " are",
           " on another machine than rank 0, and ", name_ranks(without),
           " brought no transport: give all ranks one in the options of the "
           "group, such as ashlar::ucx's"));
}

Links::Options Circle::link_options() const {
  Links::Options options;
  options.group = roster_.token;
  options.group_name = options_.name;
  options.seat = seat_;
  const JoinRecord& own = roster_.records[seat_.rank];
  for (const JoinRecord& each : roster_.records) {
    const bool is_reached = each.process != own.process && each.host == own.host;
    options.peers.push_back(is_reached ? std::optional(each.channel) : std::nullopt);
  }
  return options;
}

Status Circle::connect(Deadline deadline) {
  const Status linked = links_->connect(deadline);
  return linked.ok() ? connect_remotes(deadline) : linked;
}

Status Circle::connect_remotes(Deadline deadline) {
  Remotes::Options options;
  options.group = options_.name;
  options.failure = failure_;
  options.rank = seat_.rank;
  options.leaders = leaders_of(roster_);
  const bool is_mapped = roster_.records[seat_.rank].device != DeviceUuid{};
  if (is_mapped || is_on_one_machine()) return {};
  for (const JoinRecord& each : roster_.records) options.addresses.push_back(each.transport);
  Result<std::shared_ptr<Remotes>> remotes =
      Remotes::connect(options_.transport, options, deadline);
  if (!remotes.ok()) return remotes.status();
  remotes_ = *std::move(remotes);
  return {};
}

PeerAccess Circle::peer_access(int rank) const {
  const JoinRecord& own = roster_.records[seat_.rank];
  const bool is_here = roster_.records[rank].host == own.host;
  return is_here || own.device != DeviceUuid{} ? PeerAccess::kDirect : PeerAccess::kRemote;
}

Status Circle::leave(Deadline deadline) {
  if (!turn_.take(deadline)) {
    // Whoever is in the way hears of it, and ends.
    const Status late = verdict_.announce(Status::timeout(
        text("rank ", seat_.rank, " of group ", options_.name,
             " could not leave: another of its threads was in a rendezvous until the deadline")));
    if (!turn_.take(Deadline::after(kPartingPatience))) return late;
  }
  const TurnTaken taken(turn_);
  if (is_over_) return Status::invalid_argument(text("group ", options_.name, " was left already"));
  const Status finished = finish(deadline);
  part(finished);
  return finished;
}

// Connections may end once all have come to the last exchange.
Status Circle::finish(Deadline deadline) {
  if (remotes_ != nullptr) remotes_->say_farewell(deadline);
  return exchange_.finish(deadline);
}

// Signs of life go on until the very end, since the others may still be busy.
void Circle::part(const Status& reason) {
  is_over_ = true;
  if (links_ != nullptr) links_->say_goodbye(reason);
  links_.reset();
  remotes_.reset();
  const Deadline deadline =
      Deadline::after(exchange_.has_lost_store() ? kLostStorePatience : kPartingPatience);
  if (!reason.ok()) abandon_keys(deadline);
  arena_.process().heart().remove(leases_);
  leases_.end(deadline);
  if (reason.ok()) {
    arena_.forget_group(roster_.token);
    multicast_keeper_->let_go();
    return;
  }
  // Nobody says any more whether it is done. Whoever lives has heard of it when the verdict ends.
  multicast_keeper_->keep_from_now_on();
  arena_.forget_group(roster_.token);
  arena_.let_go_later(multicast_keeper_, Deadline::after(parting_life(arena_)));
}

// A rank sees to its own; the one that wrote down why also to the others', some of whom are dead.
void Circle::abandon_keys(Deadline deadline) {
  std::vector<int> ranks = {seat_.rank};
  if (verdict_.is_own()) {
    ranks.resize(seat_.world_size);
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  exchange_.abandon(ranks, deadline);
  abandon_roster(*store_, roster_options(options_, arena_), roster_, ranks, deadline);
}

void Circle::reach(Phase phase) {
  times_.reach(phase);
  if (options_.on_phase) options_.on_phase(phase);
}

}  // namespace ashlar::symm
