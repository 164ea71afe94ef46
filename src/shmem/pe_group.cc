// SPDX-License-Identifier: Apache-2.0
//
// Every exchange is one all-gather into the scratch memory. A PE reads the result before it enters
// the next all-gather, and no PE writes before all PEs have entered, so one scratch buffer is
// enough.
#include "shmem/pe_group.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "shmem/errors.h"

namespace ashlar::shmem {
namespace {

symm::SymmetricBuffer allocate_scratch(symm::Heap& heap, const symm::Group& group) {
  return heap.allocate(PeGroup::kScratchBytesPerPe * static_cast<size_t>(group.world_size()),
                       {.group = group.name()});
}

}  // namespace

PeGroup::PeGroup(symm::Heap& heap, symm::Group group, const symm::SymmetricBuffer& symmetric_memory)
    : group_(std::move(group)),
      memory_(group_.rendezvous(symmetric_memory)),
      scratch_(allocate_scratch(heap, group_)),
      scratch_handle_(group_.rendezvous(scratch_)) {}

std::vector<PeGroup::Record> PeGroup::exchange(const CollectiveCall& call) {
  Record own_record;
  own_record.arguments = call.arguments;
  const std::string_view name = call.name;
  std::copy_n(name.begin(), std::min(name.size(), own_record.name.size() - 1),
              own_record.name.begin());
  const std::byte* gathered = gather_bytes(&own_record, sizeof(own_record));
  std::vector<Record> all(static_cast<size_t>(world_size()));
  std::memcpy(all.data(), gathered, all.size() * sizeof(Record));
  return all;
}

void PeGroup::check_same_call(const CollectiveCall& call) {
  const std::vector<Record> all = exchange(call);
  const auto format = [&](const Record& record) {
    std::string formatted = text(record.name.data(), '(');
    for (size_t at = 0; at < call.argument_count; ++at) {
      formatted += text(at == 0 ? "" : ", ", record.arguments[at]);
    }
    return formatted + ")";
  };
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].name == all[0].name && all[rank].arguments == all[0].arguments) continue;
    throw_invalid_argument("collective call differs between the PEs of ", group_.name(),
                           ": PE 0 called ", format(all[0]), ", PE ", rank, " called ",
                           format(all[rank]));
  }
}

std::vector<uint64_t> PeGroup::gather(const char* name, uint64_t number) {
  const std::vector<Record> all = exchange({name, {number}});
  std::vector<uint64_t> numbers;
  for (const Record& each : all) {
    if (each.name != all[0].name) {
      throw_invalid_argument("collective call differs between the PEs of ", group_.name(),
                             ": PE 0 called ", all[0].name.data(), ", PE ", numbers.size(),
                             " called ", each.name.data());
    }
    numbers.push_back(each.arguments[0]);
  }
  return numbers;
}

const std::byte* PeGroup::gather_bytes(const void* own_data, size_t bytes) {
  scratch_handle_.all_gather(own_data, static_cast<int64_t>(bytes));
  return scratch_.data();
}

}  // namespace ashlar::shmem
