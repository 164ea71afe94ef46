// SPDX-License-Identifier: Apache-2.0
//
// Records of a rendezvous, written, read and compared.
#include "symm/rendezvous/rendezvous_record.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/wire.h"
#include "symm/core/rank_info.h"

namespace ashlar::symm {
namespace {

constexpr size_t kMostScopeBytes = 1024;
constexpr size_t kMostReasonBytes = 4096;
constexpr size_t kFabricBytes = std::tuple_size_v<FabricHandle>;

// In the order of the wire.
template <typename Record>
auto numbers_of(Record& record) {
  return std::array{&record.ordinal,     &record.sequence_hash,  &record.pad_bytes,
                    &record.front_bytes, &record.buffer_bytes,   &record.block_bytes,
                    &record.is_carved,   &record.carved_ordinal, &record.carved_act,
                    &record.carved_hash, &record.carved_offset,  &record.carved_bytes,
                    &record.is_mapped,   &record.lent_as};
}

// The first value that differs; `wrong` stays ok if all are at one.
class Comparison {
 public:
  Comparison(const std::string& group, const std::vector<Brought>& all)
      : group_(group), all_(all) {}

  template <typename Value>
  Comparison& same(std::string_view otherwise, const Value& value) {
    if (!wrong_.ok()) return *this;
    const auto of_rank = [&](int rank) { return value(all_[static_cast<size_t>(rank)]); };
    const std::string listed = list_differences(static_cast<int>(all_.size()), of_rank);
    if (listed.empty()) return *this;
    wrong_ = Status::invalid_argument(
        text("the ranks of group ", group_, " came with ", otherwise, ": ", listed));
    return *this;
  }
  Status take() { return std::move(wrong_); }

 private:
  const std::string& group_;
  const std::vector<Brought>& all_;
  Status wrong_;
};

Status check_sound(const std::string& group, const std::vector<Brought>& all) {
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const Brought& each = all[rank];
    const bool is_sound = each.front_bytes == all[0].front_bytes &&
                          each.is_mapped == all[0].is_mapped &&
                          each.block_bytes >= each.front_bytes &&
                          each.block_bytes - each.front_bytes >= each.buffer_bytes;
    if (is_sound) continue;
    return Status::format(text("rank ", rank, " of group ", group, " brought ", each.block_bytes,
                               " bytes for a front of ", each.front_bytes, " and a buffer of ",
                               each.buffer_bytes, each.is_mapped == 0 ? "" : ", mapped already"));
  }
  return {};
}

}  // namespace

Brought Brought::of(const Block& block, const Carving* carving) {
  Brought own;
  own.scope = block.scope;
  own.ordinal = block.ordinal;
  own.sequence_hash = block.sequence_hash;
  own.pad_bytes = block.layout.pad_bytes;
  own.front_bytes = block.layout.front_bytes;
  own.buffer_bytes = block.layout.buffer_bytes;
  own.block_bytes = block.memory->bytes();
  own.lent_as = block.lent_as;
  if (carving == nullptr) return own;
  own.is_carved = 1;
  own.carved_ordinal = carving->ordinal;
  own.carved_act = carving->act;
  own.carved_hash = carving->sequence_hash;
  own.carved_offset = carving->offset;
  own.carved_bytes = carving->bytes;
  return own;
}

std::string Brought::to_bytes() const {
  WireWriter writer;
  writer.text(scope);
  for (const uint64_t* number : numbers_of(*this)) writer.number(*number);
  writer.text(key).text(std::string_view(multicast).substr(0, kMostReasonBytes));
  return writer.text(fabric).text(std::string_view(no_fabric).substr(0, kMostReasonBytes)).take();
}

Result<std::vector<Brought>> parse_brought(const std::string& group,
                                           std::span<const std::string> records) {
  std::vector<Brought> all(records.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    WireReader reader(records[rank]);
    all[rank].scope = reader.text(kMostScopeBytes);
    for (uint64_t* number : numbers_of(all[rank])) *number = reader.number<uint64_t>();
    all[rank].key = reader.text(Transport::kMostKeyBytes);
    all[rank].multicast = reader.text(kMostReasonBytes);
    all[rank].fabric = reader.text(kFabricBytes);
    all[rank].no_fabric = reader.text(kMostReasonBytes);
    const bool has_way = !all[rank].no_fabric.empty() || all[rank].fabric.size() == kFabricBytes ||
                         all[rank].is_mapped != 0;
    if (!reader.is_done() || !has_way) {
      return Status::format(text("what rank ", rank, " of group ", group,
                                 " brought to the rendezvous is unreadable"));
    }
  }
  return all;
}

bool has_other_acts(const std::vector<Brought>& all) {
  return std::ranges::any_of(all, [&](const Brought& each) {
    return each.is_carved != 0 && each.scope == all[0].scope &&
           (each.carved_hash != all[0].carved_hash || each.carved_act != all[0].carved_act);
  });
}

Status describe_other_acts(const std::string& group, const std::vector<Brought>& all,
                           std::span<const std::string> tails) {
  const Result<std::string> difference = first_difference(tails);
  if (!difference.ok()) return difference.status();
  if (!difference->empty()) {
    return Status::invalid_argument(text("the ranks of group ", group, " have used ", all[0].scope,
                                         " differently, first ", *difference));
  }
  Comparison compared(group, all);
  return compared
      .same(text("different buffers of ", all[0].scope, ", counted in the order of allocation"),
            [](const Brought& each) { return each.carved_ordinal; })
      .take();
}

Status check_brought(const std::string& group, const std::vector<Brought>& all) {
  Comparison compared(group, all);
  compared
      .same("blocks that were allocated for different groups",
            [](const Brought& each) { return each.scope.empty() ? "any group" : each.scope; })
      .same("buffers of pools and others",
            [](const Brought& each) { return each.is_carved == 0 ? "no pool" : "pool"; })
      .same("buffers of different sizes in bytes",
            [](const Brought& each) { return each.buffer_bytes; })
      .same("pads of different sizes in bytes", [](const Brought& each) { return each.pad_bytes; })
      .same(
          "different blocks, counted in the order of allocation (blocks that not all ranks "
          "allocate are to be allocated for the group of those who do)",
          [](const Brought& each) { return each.ordinal; })
      .same("blocks after different allocations; hashes of their sizes",
            [](const Brought& each) { return text(std::hex, each.sequence_hash); })
      .same("parts of blocks at different offsets",
            [](const Brought& each) { return each.carved_offset; })
      .same("parts of blocks of different sizes in bytes",
            [](const Brought& each) { return each.carved_bytes; });
  if (Status wrong = compared.take(); !wrong.ok()) return wrong;
  return check_sound(group, all);
}

}  // namespace ashlar::symm
