// SPDX-License-Identifier: Apache-2.0
//
// Everything is an all-gather, which all PEs enter before anything is written, and leave when
// everything is there: whoever reads it does so before it enters the next.
#include "shmem/meeting.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "shmem/failing.h"

namespace ashlar::shmem {
namespace {

symm::Buffer make_shares(symm::Heap& heap, const symm::Group& group) {
  return heap.allocate(Meeting::kShareBytes * static_cast<size_t>(group.world_size()),
                       {.group = group.name()});
}

}  // namespace

Meeting::Meeting(symm::Heap& heap, symm::Group group, const symm::Buffer& heap_memory)
    : group_(std::move(group)),
      memory_(group_.rendezvous(heap_memory)),
      shares_(make_shares(heap, group_)),
      shared_(group_.rendezvous(shares_)) {}

std::vector<Meeting::Record> Meeting::exchange(const Wish& wish) {
  Record own;
  own.numbers = wish.numbers;
  const std::string_view name = wish.call;
  std::copy_n(name.begin(), std::min(name.size(), own.name.size() - 1), own.name.begin());
  const std::byte* gathered = gather_bytes(&own, sizeof(own));
  std::vector<Record> all(static_cast<size_t>(world_size()));
  std::memcpy(all.data(), gathered, all.size() * sizeof(Record));
  return all;
}

void Meeting::agree(const Wish& wish) {
  const std::vector<Record> all = exchange(wish);
  const auto words = [&](const Record& asked) {
    std::string said = text(asked.name.data(), '(');
    for (size_t at = 0; at < wish.number_count; ++at) {
      said += text(at == 0 ? "" : ", ", asked.numbers[at]);
    }
    return said + ")";
  };
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].name == all[0].name && all[rank].numbers == all[0].numbers) continue;
    refuse("the PEs of ", group_.name(), " ask for different things: PE 0 for ", words(all[0]),
           ", PE ", rank, " for ", words(all[rank]), "; all must make the same calls");
  }
}

std::vector<uint64_t> Meeting::gather(const char* call, uint64_t number) {
  const std::vector<Record> all = exchange({call, {number}});
  std::vector<uint64_t> numbers;
  for (const Record& each : all) {
    if (each.name != all[0].name) {
      refuse("the PEs of ", group_.name(), " call different things: PE 0 ", all[0].name.data(),
             ", PE ", numbers.size(), ' ', each.name.data());
    }
    numbers.push_back(each.numbers[0]);
  }
  return numbers;
}

const std::byte* Meeting::gather_bytes(const void* own, size_t bytes) {
  shared_.all_gather(own, static_cast<int64_t>(bytes));
  return shares_.data();
}

}  // namespace ashlar::shmem
