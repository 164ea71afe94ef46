// SPDX-License-Identifier: Apache-2.0
//
// Setup of multicast on simulated devices, in several processes. Either all ranks set it up, or
// none does and all report the same reason. A failed setup is undone in reverse order. The file is
// long because it contains the recording driver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "mp/harness/device_rank.h"
#include "symm/backends/device/device_backend.h"
#include "symm/backends/sim/sim_multicast.h"

namespace ashlar::symm {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// A multicast driver that records its calls and can fail a selected call.
class RecordingMulticastDriver final : public MulticastDriver {
 public:
  explicit RecordingMulticastDriver(Device& device) : sim_(device) {}

  std::string failing{};      // the call to fail
  std::string unavailable{};  // why the device has no multicast; empty if it has multicast
  std::vector<std::string> calls{};
  std::vector<std::string> unexpected_errors{};  // failures that were not injected

  size_t live_count() const { return sim_.live_count(); }

  Status availability() const override {
    return unavailable.empty() ? Status() : Status::unsupported(unavailable);
  }
  Result<Object> create(const Shape& shape) override {
    if (Status entered = enter("create"); !entered.ok()) return entered;
    return noted(sim_.create(shape));
  }
  Result<UniqueFd> export_fd(Object object) override {
    if (Status entered = enter("export"); !entered.ok()) return entered;
    return noted(sim_.export_fd(object));
  }
  Result<Object> import_fd(int fd, const Shape& shape) override {
    if (Status entered = enter("import"); !entered.ok()) return entered;
    return noted(sim_.import_fd(fd, shape));
  }
  Status add_device(Object object) override {
    if (Status entered = enter("add"); !entered.ok()) return entered;
    return noted(sim_.add_device(object));
  }
  Status bind(Object object, const std::shared_ptr<MappedMemory>& memory) override {
    if (Status entered = enter("bind"); !entered.ok()) return entered;
    return noted(sim_.bind(object, memory));
  }
  Result<std::byte*> map(Object object) override {
    if (Status entered = enter("map"); !entered.ok()) return entered;
    return noted(sim_.map(object));
  }
  Status unmap(Object object, std::byte* at) override {
    if (Status entered = enter("unmap"); !entered.ok()) return entered;
    return noted(sim_.unmap(object, at));
  }
  Status unbind(Object object) override {
    if (Status entered = enter("unbind"); !entered.ok()) return entered;
    return noted(sim_.unbind(object));
  }
  Status release(Object object) override {
    if (Status entered = enter("release"); !entered.ok()) return entered;
    return noted(sim_.release(object));
  }

 private:
  Status enter(const char* call) {
    calls.push_back(call);
    if (failing != call) return {};
    return Status::device_fault(call, 801, text("injected in ", call));
  }
  template <typename Outcome>
  Outcome noted(Outcome outcome) {
    if (!outcome.ok()) unexpected_errors.push_back(calls.back());
    return outcome;
  }

  SimMulticast sim_;
};

std::string join_words(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& each : words) all += text(all.empty() ? "" : " ", each);
  return all;
}

// A rank that uses the internal classes instead of the public API, with a driver that records its
// calls.
struct RecordingRank {
  explicit RecordingRank(const RankSpec& rank, CommunicatorOptions options = {})
      : machine(make_machine(rank.world_size)),
        device(machine->device(DeviceIndex(static_cast<uint64_t>(rank.rank)))) {
    auto watched = std::make_unique<RecordingMulticastDriver>(device);
    driver = watched.get();
    backend = *DeviceBackend::make(device, std::move(watched));
    heap = std::make_unique<RankHeap>(*process, *backend, RankHeap::Options{});
    options.rank = rank.rank;
    options.world_size = rank.world_size;
    communicator = *Communicator::join(*heap, rank.store, options, Deadline::after(kTestTimeout));
  }
  Result<PeerHandle> rendezvous() {
    buffer = *heap->allocate(4096, {});
    return communicator->rendezvous(buffer, Deadline::after(kTestTimeout));
  }

  std::unique_ptr<sim::Machine> machine;
  Device& device;
  std::unique_ptr<Process> process = *Process::start(RankContext::short_lease_options());
  RecordingMulticastDriver* driver = nullptr;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<RankHeap> heap;
  std::unique_ptr<Communicator> communicator;
  std::byte* buffer = nullptr;
};

struct Fault {
  const char* call = "";
  std::set<int> ranks{};
  // The expected calls of rank 0, of the failing ranks and of the others.
  const char* calls_of_rank_0 = "";
  const char* calls_of_failing = "";
  const char* calls_of_others = "";
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

// Injects `fault` into a rendezvous and returns an error description, or an empty string. Appends
// the reason for the fallback to `reasons`. `fds` is the number of descriptors that were open
// before the call.
std::string check_fault(RecordingRank& own, const Fault& fault, size_t fds, std::string& reasons) {
  const int rank = own.communicator->rank_info().rank;
  const bool is_failing = fault.ranks.contains(rank);
  own.driver->failing = is_failing ? fault.call : "";
  own.driver->calls.clear();
  const Result<PeerHandle> handle = own.rendezvous();
  own.driver->failing = "";
  if (!handle.ok()) return text("the rendezvous failed: ", handle.status().message());
  if (handle->peers().multicast_buffer() != nullptr)
    return text(fault.call, ": multicast is available");
  const std::string& reason = handle->peers().no_multicast_reason();
  if (reason.find(text("injected in ", fault.call)) == std::string::npos) return reason;
  reasons += reason + '\n';
  const std::string expected = rank == 0    ? fault.calls_of_rank_0
                               : is_failing ? fault.calls_of_failing
                                            : fault.calls_of_others;
  if (join_words(own.driver->calls) != expected) {
    return text(fault.call, ": called ", join_words(own.driver->calls), "; expected ", expected);
  }
  if (own.driver->live_count() != 0) return text(fault.call, ": leaked objects");
  // Each rank's block keeps one descriptor. Other descriptors are open only briefly, when the store
  // writes heartbeats to files.
  const Deadline deadline = Deadline::after(kTestTimeout);
  while (open_fd_count() != fds + 3) {
    if (deadline.has_passed()) return text(fault.call, ": ", open_fd_count() - fds, " fds");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

TEST(SymmetricMulticast, AnyFailureIsUndoneOnAllRanks) {
  RankProcesses ranks(3, [](const RankSpec& rank) -> std::string {
    RecordingRank own(rank);
    std::string reasons;
    size_t fds = open_fd_count();
    for (int attempt = 0; attempt < 50; ++attempt) {  // ignores briefly open descriptors
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      fds = std::min(fds, open_fd_count());
    }
    for (const Fault& each : faults()) {
      std::string wrong = check_fault(own, each, fds, reasons);
      fds += 3;
      if (!wrong.empty()) {
        return text("rank ", rank.rank, ": ", wrong);
      }
    }
    // The group stays usable, and the next block has multicast again.
    const Result<PeerHandle> handle = own.rendezvous();
    if (!handle.ok() || handle->peers().multicast_buffer() == nullptr)
      return "multicast is no longer available";
    if (!own.driver->unexpected_errors.empty())
      return "unexpected_errors: " + join_words(own.driver->unexpected_errors);
    const Status left = own.communicator->leave(Deadline::after(kTestTimeout));
    return left.ok() ? reasons : left.message();
  });
  const std::vector<std::string> results = ranks.results();
  EXPECT_THAT(results[0],
              AllOf(StartsWith("rank 0: create: injected in create\n"),
                    HasSubstr("rank 1: import: injected in import\n"),
                    HasSubstr("rank 0: bind: injected in bind; rank 2: bind: injected")));
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(SymmetricMulticast, NamesRanksWithoutMulticast) {
  RankProcesses ranks(3, [](const RankSpec& rank) -> std::string {
    RecordingRank own(rank);
    if (rank.rank == 1) own.driver->unavailable = "its fabric manager is not running";
    const Result<PeerHandle> handle = own.rendezvous();
    if (!handle.ok()) return handle.status().message();
    if (handle->peers().multicast_buffer() != nullptr) return "it has";
    if (!own.driver->calls.empty()) return "called for";
    const Status left = own.communicator->leave(Deadline::after(kTestTimeout));
    return left.ok() ? handle->peers().no_multicast_reason() : left.message();
  });
  EXPECT_THAT(ranks.results(),
              Each("not all ranks have multicast: rank 0: it has, rank 1: its fabric manager is "
                   "not running, rank 2: it has"));
}

TEST(SymmetricMulticast, IsReleasedBeforeLocalMemory) {
  for (const bool is_buffer_first : {true, false}) {
    RankProcesses ranks(2, [is_buffer_first](const RankSpec& rank) -> std::string {
      RecordingRank own(rank);
      std::optional<PeerHandle> handle = *own.rendezvous();
      if (handle->peers().multicast_buffer() == nullptr) return "no multicast";
      if (is_buffer_first) {
        if (!own.heap->free(own.buffer).ok()) return "not freed";
        handle.reset();
      } else {
        handle.reset();
        if (!own.heap->free(own.buffer).ok()) return "not freed";
      }
      if (own.driver->live_count() != 0) return "leaked objects";
      if (!own.driver->unexpected_errors.empty())
        return "unexpected_errors: " + join_words(own.driver->unexpected_errors);
      const std::string ended = "unmap unbind release";
      if (!join_words(own.driver->calls).ends_with(ended)) return join_words(own.driver->calls);
      const Status left = own.communicator->leave(Deadline::after(kTestTimeout));
      return left.ok() ? std::string() : left.message();
    });
    EXPECT_THAT(ranks.results(), Each(IsEmpty()));
  }
}

// Kills or stops rank 1 during the setup of multicast. Returns the results of the survivors.
std::vector<std::string> survivor_results_of_setup_failure(int signal) {
  RankProcesses ranks(3, [signal](const RankSpec& rank) -> std::string {
    CommunicatorOptions options;
    if (rank.rank == 1) {
      options.on_phase = [signal](Phase phase) {
        if (phase == Phase::kMulticast) ::kill(::getpid(), signal);
      };
    }
    RecordingRank own(rank, options);
    const Status lost = own.rendezvous().status();
    if (own.driver->live_count() != 0) return "leaked objects";
    const Status left = own.communicator->leave(Deadline::after(kTestTimeout));
    return left.message() == lost.message() ? lost.to_string() : "left: " + left.to_string();
  });
  std::vector<std::string> results = ranks.results(signal == SIGSTOP ? 1 : -1);
  EXPECT_EQ(results[1], "killed");
  EXPECT_THAT(ranks.store_keys_after_three_leases(), IsEmpty());
  results.erase(results.begin() + 1);
  return results;
}

const auto kNamesVictim = Each(AllOf(StartsWith("peer lost: rank 1 of"), Not(HasSubstr("["))));

TEST(SymmetricMulticast, PeerDeathDuringSetupFailsAllRanks) {
  EXPECT_THAT(survivor_results_of_setup_failure(SIGKILL), kNamesVictim);
}

TEST(SymmetricMulticast, StoppedPeerDuringSetupFailsAfterItsLease) {
  EXPECT_THAT(survivor_results_of_setup_failure(SIGSTOP), kNamesVictim);
}

class SymmetricMulticastRanks : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricMulticastRanks, ::testing::Values(1, 2, 3, 4),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricMulticastRanks, MultimemResultsEqualOthersBitwise) {
  RankProcesses ranks(GetParam(), [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(rank.world_size);
    SimDeviceRank own(rank, *machine);
    if (own.handle.multicast_ptr() == nullptr) return own.handle.no_multicast_reason();
    if (!own.handle.no_multicast_reason().empty()) return "a reason";
    const Handle inside = own.group.rendezvous(own.buffer.data() + 512, kTestTimeout);
    if (inside.multicast_ptr() != own.handle.multicast_ptr() + 512) return "wrong offset";
    const StreamId stream = *own.device().create_stream();
    CollectiveOptions options;
    options.timeout = kTestTimeout;
    options.stream = stream;
    std::vector<float> values(3000);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 1.0F / static_cast<float>(i + 1 + static_cast<size_t>(rank.rank));
    }
    own.write(values);
    own.write(values, 16384);
    own.group.barrier(0, kTestTimeout);
    own.handle.multimem_all_reduce(3000, {}, options);
    options.offset_bytes = 16384;
    own.handle.two_shot_all_reduce(3000, {}, options);
    own.group.finish(stream);
    const std::vector<float> sum = own.read<float>(3000);
    if (sum != own.read<float>(3000, 16384)) return "other bits";
    if (rank.world_size > 1 && sum == values) return "the data was not reduced";
    own.group.barrier(0, kTestTimeout);
    own.write(std::vector<int>(64, -1));
    own.scratch_handle.put(rank.rank, std::as_bytes(std::span(&rank.rank, 1)));
    own.group.barrier(0, kTestTimeout);
    options.offset_bytes = 0;
    own.handle.multimem_all_gather(own.scratch.data(), 4, options);
    own.group.finish(stream);
    const std::vector<int> gathered = own.read<int>(static_cast<size_t>(rank.world_size) + 1);
    for (int each = 0; each < rank.world_size; ++each) {
      if (gathered[static_cast<size_t>(each)] != each) return "wrong share";
    }
    if (gathered.back() != -1) return "written behind";
    own.group.barrier(0, kTestTimeout);
    own.group.leave(kTestTimeout);
    return {};
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// Multimem and other all-reduces are different calls; mixing them is an error on all ranks.
TEST(SymmetricMulticast, DetectsMixOfMultimemAndOtherCalls) {
  RankProcesses ranks(2, [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(rank.world_size);
    SimDeviceRank own(rank, *machine);
    CollectiveOptions options;
    options.timeout = kTestTimeout;
    const std::string message = error_message([&] {
      if (rank.rank == 0) own.handle.multimem_all_reduce(10, {}, options);
      if (rank.rank == 1) own.handle.two_shot_all_reduce(10, {}, options);
    });
    own.group.leave(kTestTimeout);
    return message;
  });
  EXPECT_THAT(ranks.results(), Each(AllOf(HasSubstr("rank 0 a multimem all-reduce (sum of f32"),
                                          HasSubstr("rank 1 a two-shot all-reduce"))));
}

TEST(SymmetricMulticast, RejectsMultimemWithReasonWhenUnavailable) {
  RankProcesses ranks(2, [](const RankSpec& rank) -> std::string {
    SymmetricRank host(rank, 4096);
    std::string message = error_message([&] { host.handle.multimem_all_reduce(10); }) + '\n';
    host.group.leave(kTestTimeout);
    const std::unique_ptr<sim::Machine> machine = make_machine(rank.world_size);
    GroupOptions options = SymmetricRank::group_options(rank);
    options.use_multicast = false;
    SimDeviceRank off(rank, *machine, rank.rank, options);
    message += error_message([&] { off.handle.multimem_all_gather(nullptr, 4); }) + '\n';
    message += error_message([&] { off.handle.multimem_put({off.scratch.data(), 4}); }) + '\n';
    off.group.leave(kTestTimeout);
    options.use_multicast = true;
    options.may_share_device = true;
    SimDeviceRank shared(rank, *machine, 0, options);
    message += shared.handle.no_multicast_reason();
    shared.group.leave(kTestTimeout);
    return message;
  });
  EXPECT_THAT(ranks.results(),
              Each(AllOf(HasSubstr("this memory has no multicast: back end host has none"),
                         HasSubstr("it is disabled"), HasSubstr("; use put to each rank"),
                         HasSubstr("may share devices"))));
}

}  // namespace
}  // namespace ashlar::symm
