// SPDX-License-Identifier: Apache-2.0
//
// Ranks that have no memory, or no descriptors, left: what one lacks, all are told by type and by
// name; the group goes on, and nothing is left open or mapped.
#include <sys/resource.h>
#include <unistd.h>

#include <deque>
#include <fstream>
#include <optional>
#include <stdexcept>

#include "base/text.h"
#include "mp/symmetric_rank.h"

namespace ashlar::symm {
namespace {

constexpr size_t kSmall = 4096;
constexpr size_t kLarge = size_t{1} << 30;  // of which nobody touches much

// The limit of this process while it is there.
class Limit {
 public:
  Limit(int what, rlim_t most) : what_(what) {
    if (::getrlimit(what_, &before_) != 0) throw std::runtime_error("getrlimit");
    const rlimit limit{most, before_.rlim_max};
    if (::setrlimit(what_, &limit) != 0) throw std::runtime_error("setrlimit");
  }
  ~Limit() { ::setrlimit(what_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  const int what_;
  rlimit before_{};
};

size_t mapped_bytes() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// What the call throws, which is to be an OutOfMemory.
std::string out_of_memory_in(const std::function<void()>& call) {
  try {
    call();
  } catch (const OutOfMemory& full) {
    return full.what();
  } catch (const Error& other) {
    return text("[another type] ", other.what());
  }
  return "[it went well]";
}

// All is as before.
std::string go_on(SymmetricRank& own) {
  const Buffer buffer = own.heap.allocate(kSmall);
  const Handle handle = own.group.rendezvous(buffer, kPatience);
  buffer.as<float>()[0] = 1;
  handle.all_reduce(1, {}, {.timeout = kPatience});
  return buffer.as<float>()[0] == 3 ? "" : "another sum";
}

// The system's limit for files is that of memory without a name, too, and whoever passes it is
// ended by a signal unless the library looks first.
TEST(SymmetricLimits, MemoryBeyondTheLimitForFilesIsOutOfMemoryAndEndsNobody) {
  Ranks ranks(3, with_memory(kSmall, [](SymmetricRank& own) -> std::string {
                if (own.group.rank() == 1) {
                  const Limit files(RLIMIT_FSIZE, kLarge / 2);
                  const size_t fds = open_fd_count();
                  const size_t mappings = symmetric_mapping_count();
                  const std::string said =
                      out_of_memory_in([&] { (void)own.heap.allocate(kLarge); });
                  if (said.find("symmetric memory of 1073751040 bytes") == std::string::npos)
                    return said;
                  if (open_fd_count() != fds) return "descriptors are left";
                  if (symmetric_mapping_count() != mappings) return "memory is left";
                }
                return go_on(own);
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
  EXPECT_THAT(ranks.left_in_store(), IsEmpty());
}

// One has room for its own memory, and none for that of others.
TEST(SymmetricLimits, ARankWithoutAddressesForTheOthersMemoryMakesAllSayOutOfMemory) {
  Ranks ranks(3, with_memory(kSmall, [](SymmetricRank& own) -> std::string {
                const Buffer buffer = own.heap.allocate(kLarge);
                const size_t mappings = symmetric_mapping_count();
                const auto meet = [&] { (void)own.group.rendezvous(buffer, kPatience); };
                std::string said;
                if (own.group.rank() == 1) {
                  const Limit addresses(RLIMIT_AS, mapped_bytes() + kLarge / 2);
                  said = out_of_memory_in(meet);
                } else {
                  said = out_of_memory_in(meet);
                }
                if (!said.starts_with("rank 1: symmetric memory of")) return said;
                if (symmetric_mapping_count() != mappings) return "memory is left mapped";
                meet();  // now there is room
                return go_on(own);
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
  EXPECT_THAT(ranks.left_in_store(), IsEmpty());
}

// Of sixteen descriptors a group takes some, and each buffer more, until there are none.
TEST(SymmetricLimits, SixteenDescriptorsAreSoonUsedUpAndAllAreToldWhose) {
#if defined(ASHLAR_SANITIZED)
  GTEST_SKIP() << "NOT TESTED: clang's sanitizers look at memory through pipes of their own";
#endif
  Ranks ranks(3, [](const BareRank& rank) -> std::string {
    std::optional<Limit> few;
    if (rank.rank == 1) few.emplace(RLIMIT_NOFILE, 16);
    size_t count = 0;
    try {
      SymmetricRank own(rank, kSmall);
      std::deque<Buffer> buffers;
      for (; count < 16; ++count) {
        buffers.push_back(own.heap.allocate(kSmall));
        (void)own.group.rendezvous(buffers.back(), kPatience);
      }
    } catch (const DeviceError& none) {
      return text(count, rank.rank == 1 ? " by rank 1: " : ": ", none.what());
    } catch (const PeerError& lost) {
      return text(count, ": ", lost.what());
    }
    return "[all went well]";
  });
  EXPECT_THAT(ranks.outcomes(), Each(AllOf(HasSubstr("rank 1"), Not(HasSubstr("[")))));
  EXPECT_THAT(ranks.left_in_store_after_parting(), IsEmpty());
}

}  // namespace
}  // namespace ashlar::symm
