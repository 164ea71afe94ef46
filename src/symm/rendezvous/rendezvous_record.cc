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

constexpr size_t kMaxScopeBytes = 1024;
constexpr size_t kMaxReasonBytes = 4096;
constexpr size_t kFabricBytes = std::tuple_size_v<FabricHandle>;

// In the order of the wire.
template <typename Record>
auto numbers_of(Record& record) {
  return std::array{&record.ordinal,       &record.sequence_hash,  &record.pad_bytes,
                    &record.buffer_offset, &record.buffer_bytes,   &record.block_bytes,
                    &record.is_pooled,     &record.pooled_ordinal, &record.pooled_call,
                    &record.pooled_hash,   &record.pooled_offset,  &record.pooled_bytes,
                    &record.is_mapped,     &record.registry_id};
}

// The first value that differs; `wrong` stays ok if all are at one.
class Comparison {
 public:
  Comparison(const std::string& group, const std::vector<RendezvousRecord>& all)
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
  const std::vector<RendezvousRecord>& all_;
  Status wrong_;
};

Status check_sound(const std::string& group, const std::vector<RendezvousRecord>& all) {
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const RendezvousRecord& each = all[rank];
    const bool is_sound = each.buffer_offset == all[0].buffer_offset &&
                          each.is_mapped == all[0].is_mapped &&
                          each.block_bytes >= each.buffer_offset &&
                          each.block_bytes - each.buffer_offset >= each.buffer_bytes;
    if (is_sound) continue;
    return Status::format(text("rank ", rank, " of group ", group, " brought ", each.block_bytes,
                               " bytes for a front of ", each.buffer_offset, " and a buffer of ",
                               each.buffer_bytes, each.is_mapped == 0 ? "" : ", mapped already"));
  }
  return {};
}

}  // namespace

RendezvousRecord RendezvousRecord::of(const HeapBlock& block, const PoolBuffer* pool_buffer) {
  RendezvousRecord own;
  own.scope = block.scope;
  own.ordinal = block.ordinal;
  own.sequence_hash = block.sequence_hash;
  own.pad_bytes = block.layout.pad_bytes;
  own.buffer_offset = block.layout.buffer_offset;
  own.buffer_bytes = block.layout.buffer_bytes;
  own.block_bytes = block.memory->bytes();
  own.registry_id = block.registry_id;
  if (pool_buffer == nullptr) return own;
  own.is_pooled = 1;
  own.pooled_ordinal = pool_buffer->ordinal;
  own.pooled_call = pool_buffer->call;
  own.pooled_hash = pool_buffer->sequence_hash;
  own.pooled_offset = pool_buffer->offset;
  own.pooled_bytes = pool_buffer->bytes;
  return own;
}

std::string RendezvousRecord::to_bytes() const {
  WireWriter writer;
  writer.text(scope);
  for (const uint64_t* number : numbers_of(*this)) writer.number(*number);
  writer.text(key).text(std::string_view(multicast).substr(0, kMaxReasonBytes));
  return writer.text(fabric).text(std::string_view(no_fabric).substr(0, kMaxReasonBytes)).take();
}

Result<std::vector<RendezvousRecord>> parse_rendezvous_records(
    const std::string& group, std::span<const std::string> records) {
  std::vector<RendezvousRecord> all(records.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    WireReader reader(records[rank]);
    all[rank].scope = reader.text(kMaxScopeBytes);
    for (uint64_t* number : numbers_of(all[rank])) *number = reader.number<uint64_t>();
    all[rank].key = reader.text(Transport::kMaxKeyBytes);
    all[rank].multicast = reader.text(kMaxReasonBytes);
    all[rank].fabric = reader.text(kFabricBytes);
    all[rank].no_fabric = reader.text(kMaxReasonBytes);
    const bool has_way = !all[rank].no_fabric.empty() || all[rank].fabric.size() == kFabricBytes ||
                         all[rank].is_mapped != 0;
    if (!reader.is_done() || !has_way) {
      return Status::format(text("what rank ", rank, " of group ", group,
                                 " brought to the rendezvous is unreadable"));
    }
  }
  return all;
}

bool have_pool_calls_diverged(const std::vector<RendezvousRecord>& all) {
  return std::ranges::any_of(all, [&](const RendezvousRecord& each) {
    return each.is_pooled != 0 && each.scope == all[0].scope &&
           (each.pooled_hash != all[0].pooled_hash || each.pooled_call != all[0].pooled_call);
  });
}

Status describe_pool_divergence(const std::string& group, const std::vector<RendezvousRecord>& all,
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
            [](const RendezvousRecord& each) { return each.pooled_ordinal; })
      .take();
}

Status check_rendezvous_records(const std::string& group,
                                const std::vector<RendezvousRecord>& all) {
  Comparison compared(group, all);
  compared
      .same("blocks that were allocated for different groups",
            [](const RendezvousRecord& each) {
              return each.scope.empty() ? "any group" : each.scope;
            })
      .same("buffers of pools and others",
            [](const RendezvousRecord& each) { return each.is_pooled == 0 ? "no pool" : "pool"; })
      .same("buffers of different sizes in bytes",
            [](const RendezvousRecord& each) { return each.buffer_bytes; })
      .same("pads of different sizes in bytes",
            [](const RendezvousRecord& each) { return each.pad_bytes; })
      .same(
          "different blocks, counted in the order of allocation (blocks that not all ranks "
          "allocate are to be allocated for the group of those who do)",
          [](const RendezvousRecord& each) { return each.ordinal; })
      .same("blocks after different allocations; hashes of their sizes",
            [](const RendezvousRecord& each) { return text(std::hex, each.sequence_hash); })
      .same("parts of blocks at different offsets",
            [](const RendezvousRecord& each) { return each.pooled_offset; })
      .same("parts of blocks of different sizes in bytes",
            [](const RendezvousRecord& each) { return each.pooled_bytes; });
  if (Status wrong = compared.take(); !wrong.ok()) return wrong;
  return check_sound(group, all);
}

}  // namespace ashlar::symm
