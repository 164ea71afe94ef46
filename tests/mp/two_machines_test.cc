// "Two machines" on one: network namespaces with a cable between them, and host names and /dev/shm
// of their own. Making them needs the system's permission; where it is not given, these tests are
// skipped.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "ashlar/unique_fd.h"
#include "mp/child_process.h"
#include "mp/ucx_ranks.h"

namespace ashlar::symm {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two namespaces that see each other, and nothing else.
class TwoMachines {
 public:
  TwoMachines() {
    is_made_ = run("netns add " + name(0)) && run("netns add " + name(1)) &&
               run("link add " + cable(0) + " netns " + name(0) + " type veth peer name " +
                   cable(1) + " netns " + name(1));
    for (int side = 0; is_made_ && side < 2; ++side) {
      const std::string inside = "-n " + name(side);
      is_made_ = run(inside + " addr add 10.91.7." + std::to_string(side + 1) + "/24 dev " +
                     cable(side)) &&
                 run(inside + " link set lo up") &&
                 run(inside + " link set " + cable(side) + " up");
    }
    // A cable takes a moment to carry, and UCX uses none that does not.
    const Deadline end = patience();
    for (int side = 0; is_made_ && side < 2; ++side) {
      const std::string look = "-n " + name(side) + " link show dev " + cable(side);
      while (!run(look + " | grep -q 'state UP'")) {
        if (end.has_passed()) is_made_ = false;
        if (!is_made_) break;
        ::usleep(10'000);
      }
    }
    // Names and mounts may be refused where networks are not.
    is_made_ = is_made_ && can_be_entered();
  }
  ~TwoMachines() {
    for (int side = 0; side < 2; ++side) run("netns del " + name(side));
  }
  TwoMachines(const TwoMachines&) = delete;
  TwoMachines& operator=(const TwoMachines&) = delete;

  bool is_made() const { return is_made_; }
  static std::string cable(int side) { return side == 0 ? "cable0" : "cable1"; }
  bool cut() const { return run("-n " + name(0) + " link set " + cable(0) + " down"); }
  // This thread, and those it starts from now on.
  void enter(int side) const {
    if (!try_to_enter(side)) throw std::runtime_error("not entered: " + name(side));
  }

 private:
  bool try_to_enter(int side) const {
    const UniqueFd space(::open(("/run/netns/" + name(side)).c_str(), O_RDONLY | O_CLOEXEC));
    const std::string host = "machine" + std::to_string(side);
    // UCX finds devices in /sys, which shows those of where it was mounted.
    return space.get() >= 0 && ::setns(space.get(), CLONE_NEWNET) == 0 &&
           ::unshare(CLONE_NEWUTS | CLONE_NEWNS) == 0 &&
           ::sethostname(host.data(), host.size()) == 0 &&
           ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0 &&
           ::mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr) == 0;
  }
  bool can_be_entered() const {
    ChildProcess guest([this](int) { return try_to_enter(0) ? 0 : 1; });
    return guest.wait() == 0;
  }
  static bool run(const std::string& arguments) {
    return std::system(("{ ip " + arguments + "; } >/dev/null 2>&1").c_str()) == 0;
  }
  std::string name(int side) const {
    return "ashlar-" + std::to_string(owner_) + "-" + std::to_string(side);
  }

  const pid_t owner_ = ::getpid();
  bool is_made_ = false;
};

#define ASHLAR_NEED(machines)                                                             \
  if (!(machines).is_made()) {                                                            \
    GTEST_SKIP() << "NOT TESTED: ranks on two machines. Namespaces cannot be made here: " \
                    "needs root, and ip of iproute2";                                     \
  }

TEST(TwoMachinesTest, PutGetAndAddAcross) {
  const TwoMachines machines;
  ASHLAR_NEED(machines);
  Ranks ranks(4, [&](RankParts& parts) -> std::string {
    machines.enter(parts.rank % 2);
    UcxRank self(parts, "tcp", TwoMachines::cable(parts.rank % 2));
    const size_t part = kSharedBytes / 4;
    const std::vector<std::byte> sent(part - 8, std::byte(10 + parts.rank));
    for (int rank = 0; rank < 4; ++rank) {
      must(self.at(rank).put(part * parts.rank + 8, sent, patience()));
      must(self.endpoint(rank).fence(patience()));
      must(self.at(rank).post({AtomicKind::kAdd, WordBytes::k8, 0, 1, 0}, patience()));
    }
    // Everybody's signal, and with it everybody's data.
    const Deadline end = patience();
    while (self.own_word(0) < 4) {
      self.transport->progress();
      if (end.has_passed()) return "no signal";
    }
    for (int rank = 0; rank < 4; ++rank) {
      const std::vector<std::byte> expected(part - 8, std::byte(10 + rank));
      if (std::memcmp(self.own() + part * rank + 8, expected.data(), expected.size()) != 0) {
        return text("not what rank ", rank, " put");
      }
    }
    self.barrier();
    std::vector<std::byte> got(part);
    must(self.at((parts.rank + 1) % 4).get(part * 2, got, patience()));
    if (got[part - 1] != std::byte{12}) return "get";
    const AtomicCall swap{AtomicKind::kCompareAndSwap, WordBytes::k8, 0, 100, 4};
    if (parts.rank == 3 && must(self.at(0).fetch(swap, patience())) != 4) return "swap";
    self.barrier();
    if (parts.rank == 0 && self.own_word(0) != 100) return "swapped";
    self.leave();
    return {};
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST(TwoMachinesTest, ADeathOnTheOtherOneIsToldByName) {
  const TwoMachines machines;
  ASHLAR_NEED(machines);
  Ranks ranks(2, [&](RankParts& parts) -> std::string {
    machines.enter(parts.rank);
    UcxRank self(parts, "tcp", TwoMachines::cable(parts.rank));
    if (parts.rank == 1) ::raise(SIGKILL);
    const Deadline end = patience();
    while (!self.failure->has_happened() && !end.has_passed()) ::usleep(1000);
    return self.failure->reason().to_string();
  });
  EXPECT_THAT(ranks.outcomes()[0], HasSubstr("peer lost: rank 1 of group tested"));
}

TEST(TwoMachinesTest, ACutCableIsATimeoutThatNamesTheRank) {
  const TwoMachines machines;
  ASHLAR_NEED(machines);
  Ranks ranks(2, [&](RankParts& parts) -> std::string {
    machines.enter(parts.rank);
    UcxRank self(parts, "tcp", TwoMachines::cable(parts.rank));
    if (parts.rank == 0 && !machines.cut()) return "not cut";
    self.barrier();
    const Deadline soon = Deadline::after(std::chrono::milliseconds(200));
    const Status late =
        self.at(1 - parts.rank).fetch({AtomicKind::kAdd, WordBytes::k8, 0, 1, 0}, soon).status();
    self.barrier();
    return late.to_string();
  });
  EXPECT_THAT(ranks.outcomes(),
              ::testing::ElementsAre(HasSubstr("timeout: rank 1 of group tested: an atomic"),
                                     HasSubstr("timeout: rank 0 of group tested: an atomic")));
}

}  // namespace
}  // namespace ashlar::symm
