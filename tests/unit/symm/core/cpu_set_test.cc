// SPDX-License-Identifier: Apache-2.0
//
// Tests CPU sets, and how they decide whether ranks spin.
#include "symm/core/cpu_set.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>
#include <vector>

#include "contract/waiting.h"
#include "symm/rendezvous/communicator.h"
#include "unit/symm/stores/store_fixtures.h"

namespace ashlar::symm {
namespace {

TEST(CpuSet, UnionCountsEachCoreOnce) {
  CpuSet all;
  EXPECT_EQ(all.count(), 0);
  all.add(CpuSet(std::string_view("\x03", 1)));
  all.add(CpuSet(std::string_view("\x06\x80", 2)));
  all.add(CpuSet(std::string_view("\x01", 1)));
  EXPECT_EQ(all.count(), 4);
  EXPECT_EQ(all.bytes(), std::string("\x07\x80", 2));
}

TEST(CpuSet, OfThreadMatchesTheAffinityMask) {
  const CpuSet own = CpuSet::of_thread();
  ASSERT_GE(own.count(), 1);
  EXPECT_LE(own.bytes().size(), CpuSet::kMaxBytes);
  std::thread([&] {
    const int here = ::sched_getcpu();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(here, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    const CpuSet bound = CpuSet::of_thread();
    EXPECT_EQ(bound.count(), 1);
    CpuSet both = own;
    both.add(bound);
    EXPECT_EQ(both.count(), own.count());
  }).join();
}

// Binds the calling thread to one core, as launchers do with processes.
void bind_to(size_t core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
}

std::vector<size_t> available_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<size_t> found;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return found;
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) found.push_back(core);
  }
  return found;
}

// Returns the spin counts of two ranks that are bound to these cores.
std::vector<int> spins_of(size_t first, size_t second) {
  const std::unique_ptr<Process> process = *Process::start({});
  const std::shared_ptr<Store> store = make_memory_store();
  std::vector<int> spins(2, -1);
  std::vector<std::thread> threads;
  for (const int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      bind_to(rank == 0 ? first : second);
      RankHeap heap(*process, process->backends().activate(), {});
      CommunicatorOptions options;
      options.rank = rank;
      options.world_size = 2;
      const auto joined = Communicator::join(heap, store, options, long_deadline());
      ASSERT_TRUE(joined.ok()) << joined.status().to_string();
      spins[static_cast<size_t>(rank)] = (*joined)->spin_policy().spin_count;
      EXPECT_TRUE((*joined)->leave(long_deadline()).ok());
    });
  }
  for (std::thread& each : threads) each.join();
  return spins;
}

TEST(CpuSetConcurrency, RanksSpinOnlyIfEachHasItsOwnCore) {
  const std::vector<size_t> cores = available_cores();
  if (cores.size() < 2) GTEST_SKIP() << "NOT TESTED: needs two cores";
  for (const int each : spins_of(cores[0], cores[1])) EXPECT_GT(each, 0);
  for (const int each : spins_of(cores[0], cores[0])) EXPECT_EQ(each, 0);
}

}  // namespace
}  // namespace ashlar::symm
