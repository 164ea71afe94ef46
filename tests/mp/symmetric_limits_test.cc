// SPDX-License-Identifier: Apache-2.0
//
// Ranks that run out of memory or descriptors. Errors name such a rank, and nothing leaks. After an
// OutOfMemory, the group stays usable.
#include <sys/resource.h>
#include <unistd.h>

#include <deque>
#include <fstream>
#include <optional>
#include <stdexcept>

#include "base/text.h"
#include "mp/harness/symmetric_rank.h"

namespace ashlar::symm {
namespace {

constexpr size_t kSmallBytes = 4096;
constexpr size_t kLargeBytes = size_t{1} << 30;  // most of this memory is never touched

// Sets a resource limit of this process for the lifetime of the object.
class Limit {
 public:
  Limit(int what, rlim_t most) : resource_(what) {
    if (::getrlimit(resource_, &before_) != 0) throw std::runtime_error("getrlimit");
    const rlimit limit{most, before_.rlim_max};
    if (::setrlimit(resource_, &limit) != 0) throw std::runtime_error("setrlimit");
  }
  ~Limit() { ::setrlimit(resource_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  const int resource_;
  rlimit before_{};
};

size_t mapped_bytes() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// Returns the message of the OutOfMemory that `call` throws. Other outcomes are marked in brackets.
std::string out_of_memory_message(const std::function<void()>& call) {
  try {
    call();
  } catch (const OutOfMemory& full) {
    return full.what();
  } catch (const Error& other) {
    return text("[wrong type] ", other.what());
  }
  return "[succeeded]";
}

// Checks that the group still works after an error.
std::string check_group_works(SymmetricRank& own) {
  const SymmetricBuffer buffer = own.heap.allocate(kSmallBytes);
  const Handle handle = own.group.rendezvous(buffer, kTestTimeout);
  buffer.as<float>()[0] = 1;
  handle.all_reduce(1, {}, {.timeout = kTestTimeout});
  return buffer.as<float>()[0] == 3 ? "" : "wrong sum";
}

// RLIMIT_FSIZE also applies to anonymous memory files. Exceeding it raises SIGXFSZ unless the
// library checks the limit first.
TEST(SymmetricLimits, ReportsOutOfMemoryBeyondFileSizeLimit) {
  RankProcesses ranks(
      3, with_memory(kSmallBytes, [](SymmetricRank& own) -> std::string {
        if (own.group.rank() == 1) {
          const Limit files(RLIMIT_FSIZE, kLargeBytes / 2);
          const size_t fds = open_fd_count();
          const size_t mappings = symmetric_mapping_count();
          const std::string message =
              out_of_memory_message([&] { (void)own.heap.allocate(kLargeBytes); });
          if (message.find("symmetric memory of 1073751040 bytes") == std::string::npos)
            return message;
          if (open_fd_count() != fds) return "leaked descriptors";
          if (symmetric_mapping_count() != mappings) return "leaked memory";
        }
        return check_group_works(own);
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
  EXPECT_THAT(ranks.store_keys(), IsEmpty());
}

// Rank 1 has address space for its own memory but not for the memory of its peers.
TEST(SymmetricLimits, ReportsOutOfMemoryWhenMappingPeersFails) {
  RankProcesses ranks(3, with_memory(kSmallBytes, [](SymmetricRank& own) -> std::string {
                        const SymmetricBuffer buffer = own.heap.allocate(kLargeBytes);
                        const size_t mappings = symmetric_mapping_count();
                        const auto rendezvous_all = [&] {
                          (void)own.group.rendezvous(buffer, kTestTimeout);
                        };
                        std::string message;
                        if (own.group.rank() == 1) {
                          const Limit addresses(RLIMIT_AS, mapped_bytes() + kLargeBytes / 2);
                          message = out_of_memory_message(rendezvous_all);
                        } else {
                          message = out_of_memory_message(rendezvous_all);
                        }
                        if (!message.starts_with("rank 1: symmetric memory of")) return message;
                        if (symmetric_mapping_count() != mappings) return "leaked mappings";
                        rendezvous_all();  // rank 1 has lifted its limit
                        return check_group_works(own);
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
  EXPECT_THAT(ranks.store_keys(), IsEmpty());
}

// With a limit of 16 descriptors, a few buffers exhaust them.
TEST(SymmetricLimits, NamesRankThatRunsOutOfDescriptors) {
#if defined(ASHLAR_SANITIZED)
  GTEST_SKIP() << "NOT TESTED: clang sanitizers use descriptors themselves";
#endif
  RankProcesses ranks(3, [](const RankSpec& rank) -> std::string {
    std::optional<Limit> few;
    if (rank.rank == 1) few.emplace(RLIMIT_NOFILE, 16);
    size_t count = 0;
    try {
      SymmetricRank own(rank, kSmallBytes);
      std::deque<SymmetricBuffer> buffers;
      for (; count < 16; ++count) {
        buffers.push_back(own.heap.allocate(kSmallBytes));
        (void)own.group.rendezvous(buffers.back(), kTestTimeout);
      }
    } catch (const DeviceError& none) {
      return text(count, rank.rank == 1 ? " by rank 1: " : ": ", none.what());
    } catch (const PeerError& lost) {
      return text(count, ": ", lost.what());
    }
    return "[succeeded]";
  });
  EXPECT_THAT(ranks.results(), Each(AllOf(HasSubstr("rank 1"), Not(HasSubstr("[")))));
  EXPECT_THAT(ranks.store_keys_after_three_leases(), IsEmpty());
}

}  // namespace
}  // namespace ashlar::symm
