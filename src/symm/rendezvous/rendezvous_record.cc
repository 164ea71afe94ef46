// SPDX-License-Identifier: Apache-2.0
//
// Serializes records, and compares those of all ranks field by field.
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

// Returns pointers to the numeric fields, in wire order.
template <typename Record>
auto numeric_fields(Record& record) {
  return std::array{&record.ordinal,       &record.sequence_hash,  &record.pad_bytes,
                    &record.buffer_offset, &record.buffer_bytes,   &record.block_bytes,
                    &record.is_pooled,     &record.pooled_ordinal, &record.pooled_call,
                    &record.pooled_hash,   &record.pooled_offset,  &record.pooled_bytes,
                    &record.is_mapped,     &record.registry_id};
}

// Finds the first field that differs between ranks.
class RecordComparison {
 public:
  RecordComparison(const std::string& group, const std::vector<RendezvousRecord>& all)
      : group_(group), all_(all) {}

  // Compares `value(record)` between ranks. `difference` completes "the ranks passed ...".
  template <typename Value>
  RecordComparison& require_same(std::string_view difference, const Value& value) {
    if (!error_.ok()) return *this;
    const auto value_of_rank = [&](int rank) { return value(all_[static_cast<size_t>(rank)]); };
    const std::string listed = list_differences(static_cast<int>(all_.size()), value_of_rank);
    if (listed.empty()) return *this;
    error_ = Status::invalid_argument(
        text("the ranks of group ", group_, " passed ", difference, ": ", listed));
    return *this;
  }
  Status take() { return std::move(error_); }

 private:
  const std::string& group_;
  const std::vector<RendezvousRecord>& all_;
  Status error_;
};

// Returns kFormat if the offsets and sizes in a record contradict each other, or if the buffer
// offset or `is_mapped` differs from that of rank 0.
Status check_consistent(const std::string& group, const std::vector<RendezvousRecord>& all) {
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const RendezvousRecord& each = all[rank];
    const bool is_consistent = each.buffer_offset == all[0].buffer_offset &&
                               each.is_mapped == all[0].is_mapped &&
                               each.block_bytes >= each.buffer_offset &&
                               each.block_bytes - each.buffer_offset >= each.buffer_bytes;
    if (is_consistent) continue;
    return Status::format(text("rank ", rank, " of group ", group, " passed a block of ",
                               each.block_bytes, " bytes with a buffer of ", each.buffer_bytes,
                               " bytes at offset ", each.buffer_offset,
                               each.is_mapped == 0 ? "" : ", already mapped"));
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
  writer.append_text(scope);
  for (const uint64_t* number : numeric_fields(*this)) writer.append_number(*number);
  writer.append_text(key).append_text(
      std::string_view(no_multicast_reason).substr(0, kMaxReasonBytes));
  return writer.append_text(fabric)
      .append_text(std::string_view(no_fabric_reason).substr(0, kMaxReasonBytes))
      .take();
}

Result<std::vector<RendezvousRecord>> parse_rendezvous_records(
    const std::string& group, std::span<const std::string> records) {
  std::vector<RendezvousRecord> all(records.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    WireReader reader(records[rank]);
    all[rank].scope = reader.text(kMaxScopeBytes);
    for (uint64_t* number : numeric_fields(all[rank])) *number = reader.number<uint64_t>();
    all[rank].key = reader.text(Transport::kMaxKeyBytes);
    all[rank].no_multicast_reason = reader.text(kMaxReasonBytes);
    all[rank].fabric = reader.text(kFabricBytes);
    all[rank].no_fabric_reason = reader.text(kMaxReasonBytes);
    const bool has_handle = !all[rank].no_fabric_reason.empty() ||
                            all[rank].fabric.size() == kFabricBytes || all[rank].is_mapped != 0;
    if (!reader.is_done() || !has_handle) {
      return Status::format(
          text("rank ", rank, " of group ", group, " sent a malformed rendezvous record"));
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
    return Status::invalid_argument(text("the ranks of group ", group, " made different calls to ",
                                         all[0].scope, ", first ", *difference));
  }
  RecordComparison comparison(group, all);
  return comparison
      .require_same(text("different buffers of ", all[0].scope, ", numbered in allocation order"),
                    [](const RendezvousRecord& each) { return each.pooled_ordinal; })
      .take();
}

Status check_rendezvous_records(const std::string& group,
                                const std::vector<RendezvousRecord>& all) {
  RecordComparison comparison(group, all);
  comparison
      .require_same("memory that was allocated for different groups",
                    [](const RendezvousRecord& each) {
                      return each.scope.empty() ? "any group" : each.scope;
                    })
      .require_same(
          "buffers inside and outside of pools",
          [](const RendezvousRecord& each) { return each.is_pooled == 0 ? "no pool" : "pool"; })
      .require_same("buffers of different sizes in bytes",
                    [](const RendezvousRecord& each) { return each.buffer_bytes; })
      .require_same("pads of different sizes in bytes",
                    [](const RendezvousRecord& each) { return each.pad_bytes; })
      .require_same(
          "different allocations, numbered in order (memory that not all ranks allocate must be "
          "allocated for a group)",
          [](const RendezvousRecord& each) { return each.ordinal; })
      .require_same("memory after different earlier allocations; hashes of their sizes",
                    [](const RendezvousRecord& each) { return text(std::hex, each.sequence_hash); })
      .require_same("buffers at different offsets",
                    [](const RendezvousRecord& each) { return each.pooled_offset; })
      .require_same("pool buffers of different sizes in bytes",
                    [](const RendezvousRecord& each) { return each.pooled_bytes; });
  if (Status wrong = comparison.take(); !wrong.ok()) return wrong;
  return check_consistent(group, all);
}

}  // namespace ashlar::symm
