// SPDX-License-Identifier: Apache-2.0
//
// Row 14 of the checklist of symmetric memory, and what row 5 says of multicast, with real
// processes on simulated devices: set up together or not at all, with one reason for all, and
// undone in reverse order. Long because the driver that is watched is here, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "mp/device_rank.h"
#include "symm/backends/device/device_backend.h"
#include "symm/backends/sim/sim_multicast.h"

namespace ashlar::symm {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// A driver that notes what it is called for, and fails where it is told to.
class WatchedMulticast final : public MulticastDriver {
 public:
  explicit WatchedMulticast(Device& device) : sim_(device) {}

  std::string failing{};      // the call that fails
  std::string unavailable{};  // why there is none
  std::vector<std::string> calls{};
  std::vector<std::string> troubles{};  // what failed without being told to

  size_t live_count() const { return sim_.live_count(); }

  Status availability() const override {
    return unavailable.empty() ? Status() : Status::unsupported(unavailable);
  }
  Result<Object> create(const Shape& shape) override {
    if (Status told = enter("create"); !told.ok()) return told;
    return noted(sim_.create(shape));
  }
  Result<UniqueFd> export_fd(Object object) override {
    if (Status told = enter("export"); !told.ok()) return told;
    return noted(sim_.export_fd(object));
  }
  Result<Object> import_fd(int fd, const Shape& shape) override {
    if (Status told = enter("import"); !told.ok()) return told;
    return noted(sim_.import_fd(fd, shape));
  }
  Status add_device(Object object) override {
    if (Status told = enter("add"); !told.ok()) return told;
    return noted(sim_.add_device(object));
  }
  Status bind(Object object, const std::shared_ptr<MappedMemory>& memory) override {
    if (Status told = enter("bind"); !told.ok()) return told;
    return noted(sim_.bind(object, memory));
  }
  Result<std::byte*> map(Object object) override {
    if (Status told = enter("map"); !told.ok()) return told;
    return noted(sim_.map(object));
  }
  Status unmap(Object object, std::byte* at) override {
    if (Status told = enter("unmap"); !told.ok()) return told;
    return noted(sim_.unmap(object, at));
  }
  Status unbind(Object object) override {
    if (Status told = enter("unbind"); !told.ok()) return told;
    return noted(sim_.unbind(object));
  }
  Status release(Object object) override {
    if (Status told = enter("release"); !told.ok()) return told;
    return noted(sim_.release(object));
  }

 private:
  Status enter(const char* call) {
    calls.push_back(call);
    if (failing != call) return {};
    return Status::device_fault(call, 801, text("told to fail in ", call));
  }
  template <typename Outcome>
  Outcome noted(Outcome outcome) {
    if (!outcome.ok()) troubles.push_back(calls.back());
    return outcome;
  }

  SimMulticast sim_;
};

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& each : words) all += text(all.empty() ? "" : " ", each);
  return all;
}

// One rank below the facade, with a driver that can be told things.
struct WatchedRank {
  explicit WatchedRank(const BareRank& rank, CommunicatorOptions options = {})
      : machine(machine_for(rank.world_size)),
        device(machine->device(DeviceIndex(static_cast<uint64_t>(rank.rank)))) {
    auto watched = std::make_unique<WatchedMulticast>(device);
    driver = watched.get();
    backend = *DeviceBackend::over(device, std::move(watched));
    heap = std::make_unique<RankHeap>(*process, *backend, RankHeap::Options{});
    options.rank = rank.rank;
    options.world_size = rank.world_size;
    communicator = *Communicator::join(*heap, rank.store, options, Deadline::after(kPatience));
  }
  Result<PeerHandle> meet() {
    buffer = *heap->allocate(4096, {});
    return communicator->rendezvous(buffer, Deadline::after(kPatience));
  }

  std::unique_ptr<sim::Machine> machine;
  Device& device;
  std::unique_ptr<Process> process = *Process::start(RankParts::quick());
  WatchedMulticast* driver = nullptr;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<RankHeap> heap;
  std::unique_ptr<Communicator> communicator;
  std::byte* buffer = nullptr;
};

struct Fault {
  const char* call = "";
  std::set<int> ranks{};
  // What each rank is to have called: rank 0, the failing ones, and the others.
  const char* by_first = "";
  const char* by_failing = "";
  const char* by_others = "";
};

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all = {
      {"create", {0}, "create", "create", ""},
      {"export", {0}, "create export release", "create export release", ""},
      {"import", {1}, "create export import add release release", "import", "import add release"},
      {"import", {0, 1, 2}, "create export import release", "import", "import"},
      {"add",
       {2},
       "create export import add release release",
       "import add release",
       "import add release"},
      {"bind",
       {1},
       "create export import add bind map unmap unbind release release",
       "import add bind release",
       "import add bind map unmap unbind release"},
      {"bind",
       {0, 2},
       "create export import add bind release release",
       "import add bind release",
       "import add bind map unmap unbind release"},
      {"map",
       {1},
       "create export import add bind map unmap unbind release release",
       "import add bind map unbind release",
       "import add bind map unmap unbind release"},
      {"map",
       {0},
       "create export import add bind map unbind release release",
       "import add bind map unbind release",
       "import add bind map unmap unbind release"},
  };
  return all;
}

// What this rank finds wrong with how it went; the reason goes to `reasons`. `fds` are to be open
// before: those of the block that is met for come on top.
std::string try_fault(WatchedRank& own, const Fault& fault, size_t fds, std::string& reasons) {
  const int rank = own.communicator->rank_info().rank;
  const bool is_failing = fault.ranks.contains(rank);
  own.driver->failing = is_failing ? fault.call : "";
  own.driver->calls.clear();
  const Result<PeerHandle> met = own.meet();
  own.driver->failing = "";
  if (!met.ok()) return text("the rendezvous failed: ", met.status().message());
  if (met->peers().multicast_buffer() != nullptr) return text(fault.call, ": multicast after all");
  const std::string& reason = met->peers().no_multicast_reason();
  if (reason.find(text("told to fail in ", fault.call)) == std::string::npos) return reason;
  reasons += reason + '\n';
  const std::string expected = rank == 0    ? fault.by_first
                               : is_failing ? fault.by_failing
                                            : fault.by_others;
  if (joined(own.driver->calls) != expected) {
    return text(fault.call, ": called ", joined(own.driver->calls), "; expected ", expected);
  }
  if (own.driver->live_count() != 0) return text(fault.call, ": objects are left");
  // Each rank's block has a descriptor for as long as it lives, and nothing else is open, but for
  // moments: signs of life are files here.
  const Deadline deadline = Deadline::after(kPatience);
  while (open_fd_count() != fds + 3) {
    if (deadline.has_passed()) return text(fault.call, ": ", open_fd_count() - fds, " fds");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

TEST(SymmetricMulticast, Row14AFailureOfAnyCallOnAnyRankDegradesAllForOneReasonAndIsUndone) {
  Ranks ranks(3, [](const BareRank& rank) -> std::string {
    WatchedRank own(rank);
    std::string reasons;
    size_t fds = open_fd_count();
    for (int look = 0; look < 50; ++look) {  // as above
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      fds = std::min(fds, open_fd_count());
    }
    for (const Fault& each : faults()) {
      std::string wrong = try_fault(own, each, fds, reasons);
      fds += 3;
      if (!wrong.empty()) {
        return text("rank ", rank.rank, ": ", wrong);
      }
    }
    // All goes on, and the next block has it again.
    const Result<PeerHandle> met = own.meet();
    if (!met.ok() || met->peers().multicast_buffer() == nullptr) return "no multicast any more";
    if (!own.driver->troubles.empty()) return "troubles: " + joined(own.driver->troubles);
    const Status left = own.communicator->leave(Deadline::after(kPatience));
    return left.ok() ? reasons : left.message();
  });
  const std::vector<std::string> said = ranks.outcomes();
  EXPECT_THAT(said[0], AllOf(StartsWith("rank 0: create: told to fail in create\n"),
                             HasSubstr("rank 1: import: told to fail in import\n"),
                             HasSubstr("rank 0: bind: told to fail in bind; rank 2: bind: told")));
  EXPECT_EQ(said[0], said[1]);
  EXPECT_EQ(said[0], said[2]);
}

TEST(SymmetricMulticast, Row14IfOnlySomeRanksHaveItAllSayWho) {
  Ranks ranks(3, [](const BareRank& rank) -> std::string {
    WatchedRank own(rank);
    if (rank.rank == 1) own.driver->unavailable = "its fabric manager is not running";
    const Result<PeerHandle> met = own.meet();
    if (!met.ok()) return met.status().message();
    if (met->peers().multicast_buffer() != nullptr) return "it has";
    if (!own.driver->calls.empty()) return "called for";
    const Status left = own.communicator->leave(Deadline::after(kPatience));
    return left.ok() ? met->peers().no_multicast_reason() : left.message();
  });
  EXPECT_THAT(ranks.outcomes(),
              Each("not all ranks have multicast: rank 0: it has, rank 1: its fabric manager is "
                   "not running, rank 2: it has"));
}

TEST(SymmetricMulticast, Row05ItIsReleasedBeforeTheLocalMemoryWhoeverFreesFirst) {
  for (const bool is_buffer_first : {true, false}) {
    Ranks ranks(2, [is_buffer_first](const BareRank& rank) -> std::string {
      WatchedRank own(rank);
      std::optional<PeerHandle> handle = *own.meet();
      if (handle->peers().multicast_buffer() == nullptr) return "no multicast";
      if (is_buffer_first) {
        if (!own.heap->free(own.buffer).ok()) return "not freed";
        handle.reset();
      } else {
        handle.reset();
        if (!own.heap->free(own.buffer).ok()) return "not freed";
      }
      if (own.driver->live_count() != 0) return "objects are left";
      if (!own.driver->troubles.empty()) return "troubles: " + joined(own.driver->troubles);
      const std::string ended = "unmap unbind release";
      if (!joined(own.driver->calls).ends_with(ended)) return joined(own.driver->calls);
      const Status left = own.communicator->leave(Deadline::after(kPatience));
      return left.ok() ? std::string() : left.message();
    });
    EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
  }
}

// What those say that are left.
std::vector<std::string> said_beside_a_loss_in_set_up(int signal) {
  Ranks ranks(3, [signal](const BareRank& rank) -> std::string {
    CommunicatorOptions options;
    if (rank.rank == 1) {
      options.on_phase = [signal](Phase phase) {
        if (phase == Phase::kMulticast) ::kill(::getpid(), signal);
      };
    }
    WatchedRank own(rank, options);
    const Status lost = own.meet().status();
    if (own.driver->live_count() != 0) return "objects are left";
    const Status left = own.communicator->leave(Deadline::after(kPatience));
    return left.message() == lost.message() ? lost.to_string() : "left: " + left.to_string();
  });
  std::vector<std::string> said = ranks.outcomes(signal == SIGSTOP ? 1 : -1);
  EXPECT_EQ(said[1], "killed");
  EXPECT_THAT(ranks.left_in_store_after_parting(), IsEmpty());
  said.erase(said.begin() + 1);
  return said;
}

const auto kNamesTheLost = Each(AllOf(StartsWith("peer lost: rank 1 of"), Not(HasSubstr("["))));

TEST(SymmetricMulticast, Row20ADeathWhileItIsSetUpEndsItForAll) {
  EXPECT_THAT(said_beside_a_loss_in_set_up(SIGKILL), kNamesTheLost);
}

TEST(SymmetricMulticast, Row20ARankThatStandsStillWhileItIsSetUpIsLostWithItsLease) {
  EXPECT_THAT(said_beside_a_loss_in_set_up(SIGSTOP), kNamesTheLost);
}

// --- what it is good for ------------------------------------------------------------------------

class SymmetricMulticasts : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricMulticasts, ::testing::Values(1, 2, 3, 4),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricMulticasts, Row14MultimemCollectivesHaveTheBitsOfTheOthers) {
  Ranks ranks(GetParam(), [](const BareRank& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = machine_for(rank.world_size);
    DeviceRank own(rank, *machine);
    if (own.handle.multicast_ptr() == nullptr) return own.handle.no_multicast_reason();
    if (!own.handle.no_multicast_reason().empty()) return "a reason";
    const Handle inside = own.group.rendezvous(own.buffer.data() + 512, kPatience);
    if (inside.multicast_ptr() != own.handle.multicast_ptr() + 512) return "another offset";
    const StreamId stream = *own.device().create_stream();
    CollectiveOptions options;
    options.timeout = kPatience;
    options.stream = stream;
    std::vector<float> values(3000);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 1.0F / static_cast<float>(i + 1 + static_cast<size_t>(rank.rank));
    }
    own.write(values);
    own.write(values, 16384);
    own.group.barrier(0, kPatience);
    own.handle.multimem_all_reduce(3000, {}, options);
    options.offset_bytes = 16384;
    own.handle.two_shot_all_reduce(3000, {}, options);
    own.group.finish(stream);
    const std::vector<float> sum = own.read<float>(3000);
    if (sum != own.read<float>(3000, 16384)) return "other bits";
    if (rank.world_size > 1 && sum == values) return "nothing was reduced";
    own.group.barrier(0, kPatience);
    own.write(std::vector<int>(64, -1));
    own.scratch_handle.put(rank.rank, std::as_bytes(std::span(&rank.rank, 1)));
    own.group.barrier(0, kPatience);
    options.offset_bytes = 0;
    own.handle.multimem_all_gather(own.scratch.data(), 4, options);
    own.group.finish(stream);
    const std::vector<int> gathered = own.read<int>(static_cast<size_t>(rank.world_size) + 1);
    for (int each = 0; each < rank.world_size; ++each) {
      if (gathered[static_cast<size_t>(each)] != each) return "another share";
    }
    if (gathered.back() != -1) return "written behind";
    own.group.barrier(0, kPatience);
    own.group.leave(kPatience);
    return {};
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

// A rank that goes by another way is told, as with any two collectives.
TEST(SymmetricMulticast, Row14MultimemAndOthersAreDifferentCalls) {
  Ranks ranks(2, [](const BareRank& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = machine_for(rank.world_size);
    DeviceRank own(rank, *machine);
    CollectiveOptions options;
    options.timeout = kPatience;
    const std::string said = thrown_by([&] {
      if (rank.rank == 0) own.handle.multimem_all_reduce(10, {}, options);
      if (rank.rank == 1) own.handle.two_shot_all_reduce(10, {}, options);
    });
    own.group.leave(kPatience);
    return said;
  });
  EXPECT_THAT(ranks.outcomes(), Each(AllOf(HasSubstr("rank 0 a multimem all-reduce (sum of f32"),
                                           HasSubstr("rank 1 a two-shot all-reduce"))));
}

TEST(SymmetricMulticast, Row14WhereThereIsNoneCollectivesThatNeedItAreRefusedWithTheReason) {
  Ranks ranks(2, [](const BareRank& rank) -> std::string {
    SymmetricRank host(rank, 4096);
    std::string said = thrown_by([&] { host.handle.multimem_all_reduce(10); }) + '\n';
    host.group.leave(kPatience);
    const std::unique_ptr<sim::Machine> machine = machine_for(rank.world_size);
    GroupOptions options = SymmetricRank::group_options(rank);
    options.use_multicast = false;
    DeviceRank off(rank, *machine, rank.rank, options);
    said += thrown_by([&] { off.handle.multimem_all_gather(nullptr, 4); }) + '\n';
    said += thrown_by([&] { off.handle.multimem_put({off.scratch.data(), 4}); }) + '\n';
    off.group.leave(kPatience);
    options.use_multicast = true;
    options.may_share_device = true;
    DeviceRank shared(rank, *machine, 0, options);
    said += shared.handle.no_multicast_reason();
    shared.group.leave(kPatience);
    return said;
  });
  EXPECT_THAT(ranks.outcomes(),
              Each(AllOf(HasSubstr("this memory has no multicast: back end host has none"),
                         HasSubstr("it is disabled"), HasSubstr("; use put to each rank"),
                         HasSubstr("may share devices"))));
}

}  // namespace
}  // namespace ashlar::symm
