// SPDX-License-Identifier: Apache-2.0
//
// ValueStore: flat tables of strings and containers, with memory accounting.
#include "format/value_store.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"

namespace ashlar {
namespace {

// Estimated overhead of a distinct string: its table entry and index node.
constexpr size_t kStringOverheadBytes = 96;
// Estimated overhead of an item list: its vector and heap block.
constexpr size_t kItemListOverheadBytes = 48;
constexpr size_t kMaxObjects = UINT32_MAX;

// A limit that grows with the file. Up to kSmallFileBytes it is constant.
struct ScaledLimit {
  size_t small_file_bytes;     // for a small file
  size_t bytes_per_file_byte;  // for each further byte of the file
};
constexpr uint64_t kSmallFileBytes = 10 * kKiB;
// Recorded files need less than 300 bytes of values and 8 KiB of text per byte of the
// xz-compressed file.
constexpr ScaledLimit kValueLimit = {4 * kMiB, 8 * kKiB};
constexpr ScaledLimit kTextLimit = {256 * kMiB, 64 * kKiB};

// Returns the limit for a file of which `file_bytes` have been read, at most `max_bytes`.
size_t limit_for(const std::atomic<uint64_t>* file_bytes, const ScaledLimit& limit,
                 size_t max_bytes) {
  if (file_bytes == nullptr) return max_bytes;
  const uint64_t read_bytes = file_bytes->load(std::memory_order_relaxed);
  const uint64_t further = read_bytes - std::min(read_bytes, kSmallFileBytes);
  if (further > max_bytes / limit.bytes_per_file_byte) return max_bytes;
  return std::min(max_bytes, limit.small_file_bytes + limit.bytes_per_file_byte * further);
}

}  // namespace

std::string_view name(ValueKind kind) {
  constexpr std::array<std::string_view, 10> kKindNames = {
      "None",     "a boolean", "an integer", "an integer", "a float",
      "a string", "bytes",     "a tuple",    "a list",     "a dict"};
  return kKindNames[static_cast<size_t>(kind)];
}

ValueStore::ValueStore(const ReadLimits& limits) : limits_(limits) {}

bool ValueStore::add_string(std::string_view bytes, Value& made) {
  if (const auto known = string_index_.find(bytes); known != string_index_.end()) {
    made = Value::string(known->second);
    return true;
  }
  if (!charge(bytes.size() + kStringOverheadBytes)) return false;
  const uint32_t index = static_cast<uint32_t>(strings_.size());
  string_index_.emplace(strings_.emplace_back(bytes), index);
  made = Value::string(index);
  return true;
}

// Tuples are immutable, so a tuple that equals the previous tuple shares its storage. In pickles
// with pool ids, every trace entry has a tuple for its pool id, which usually equals the tuple of
// the previous entry.
bool ValueStore::add_tuple(std::span<const Value> items, Value& made) {
  if (last_tuple_.kind == ValueKind::kTuple) {
    const std::span<const Value> last = this->items(last_tuple_);
    if (std::equal(last.begin(), last.end(), items.begin(), items.end())) {
      made = last_tuple_;
      return true;
    }
  }
  if (!charge(items.size_bytes()) || !add_object(ValueKind::kTuple, made)) return false;
  objects_.back().count = static_cast<uint32_t>(items.size());
  objects_.back().place = static_cast<uint32_t>(tuple_items_.size());
  tuple_items_.insert(tuple_items_.end(), items.begin(), items.end());
  last_tuple_ = made;
  return true;
}

bool ValueStore::append(Value list, std::span<const Value> items) {
  ASHLAR_CHECK(list.kind == ValueKind::kList);
  return add_items(objects_[list.index()], items);
}

bool ValueStore::set_items(Value dict, std::span<const Value> items) {
  ASHLAR_CHECK(dict.kind == ValueKind::kDict && items.size() % 2 == 0);
  const Object before = objects_[dict.index()];
  if (adopter_ != nullptr && before.state == State::kPlain && before.count == 0) {
    uint32_t number = 0;
    const DictAdopter::Outcome outcome = adopter_->adopt(items, number);
    if (outcome == DictAdopter::Outcome::kInvalid) problem_ = adopter_->problem();
    if (outcome == DictAdopter::Outcome::kAdopted) {
      objects_[dict.index()].state = State::kAdopted;
      objects_[dict.index()].place = number;
    }
    if (outcome != DictAdopter::Outcome::kDeclined)
      return outcome == DictAdopter::Outcome::kAdopted;
  }
  return add_items(objects_[dict.index()], items);
}

std::span<const Value> ValueStore::items(Value container) const {
  ASHLAR_CHECK(container.is_container());
  const Object& object = objects_[container.index()];
  if (object.state != State::kPlain || object.count == 0) return {};
  if (object.kind != ValueKind::kTuple) return item_lists_[object.place];
  return std::span<const Value>(tuple_items_).subspan(object.place, object.count);
}

void ValueStore::mark_converted(Value container, uint32_t number) {
  Object& object = objects_[container.index()];
  if (object.kind != ValueKind::kTuple) drop_items(object);
  object.state = State::kConverted;
  object.place = number;
  if (container == last_tuple_) last_tuple_ = {};
}

void ValueStore::forget_since(size_t count) {
  while (objects_.size() > count) {
    Object& object = objects_.back();
    if (object.kind != ValueKind::kTuple) drop_items(object);
    charged_bytes_ -= sizeof(Object);
    objects_.pop_back();
  }
  last_tuple_ = {};
}

bool ValueStore::charge(size_t bytes) {
  if (!can_hold(bytes)) return false;
  charged_bytes_ += bytes;
  return true;
}

bool ValueStore::can_hold(size_t bytes) {
  const size_t limit_bytes = value_limit_bytes();
  if (charged_bytes_ <= limit_bytes && bytes <= limit_bytes - charged_bytes_) return true;
  problem_ =
      text("the values need more than ", format_bytes(limit_bytes), " of memory (expected less",
           limits_.file_bytes == nullptr ? ")" : " for a file of this size)");
  return false;
}

bool ValueStore::charge_text(size_t bytes) {
  const size_t limit_bytes = text_limit_bytes();
  if (text_bytes_ > limit_bytes || bytes > limit_bytes - text_bytes_) {
    problem_ =
        text("the shared text of the file expands to more than ", format_bytes(limit_bytes),
             " (expected less", limits_.file_bytes == nullptr ? ")" : " for a file of this size)");
    return false;
  }
  text_bytes_ += bytes;
  return true;
}

size_t ValueStore::value_limit_bytes() const {
  return limit_for(limits_.file_bytes, kValueLimit, limits_.value_bytes);
}

size_t ValueStore::text_limit_bytes() const {
  return limit_for(limits_.file_bytes, kTextLimit, limits_.text_bytes);
}

bool ValueStore::add_object(ValueKind kind, Value& made) {
  if (objects_.size() >= kMaxObjects) {
    problem_ = "the file has more than 2^32 lists, tuples and dicts (expected fewer)";
    return false;
  }
  if (!charge(sizeof(Object))) return false;
  made = {kind, objects_.size()};
  objects_.push_back({.kind = kind});
  return true;
}

bool ValueStore::add_items(Object& object, std::span<const Value> items) {
  if (object.state != State::kPlain) {
    problem_ = text(name(object.kind), " is modified after it was used (expected complete values)");
    return false;
  }
  if (items.empty()) return true;
  const size_t bytes = items.size_bytes() + (object.count == 0 ? kItemListOverheadBytes : 0);
  if (!charge(bytes)) return false;
  if (object.count == 0) {
    if (free_item_lists_.empty()) {
      free_item_lists_.push_back(static_cast<uint32_t>(item_lists_.size()));
      item_lists_.emplace_back();
    }
    object.place = free_item_lists_.back();
    free_item_lists_.pop_back();
  }
  std::vector<Value>& item_list = item_lists_[object.place];
  item_list.insert(item_list.end(), items.begin(), items.end());
  object.count = static_cast<uint32_t>(item_list.size());
  return true;
}

// Drops the items of a container. A later container reuses the vector's memory, unless the vector
// is large.
void ValueStore::drop_items(Object& object) {
  if (object.state != State::kPlain || object.count == 0) return;
  constexpr size_t kMaxKeptCapacity = 1024;
  std::vector<Value>& item_list = item_lists_[object.place];
  charged_bytes_ -= item_list.size() * sizeof(Value) + kItemListOverheadBytes;
  item_list.clear();
  if (item_list.capacity() > kMaxKeptCapacity) item_list = {};
  free_item_lists_.push_back(object.place);
  object.count = 0;
}

}  // namespace ashlar
