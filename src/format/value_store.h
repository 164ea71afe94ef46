// SPDX-License-Identifier: Apache-2.0
//
// The values of a pickle or JSON text, in flat tables. A value has 16 bytes, equal strings are
// stored once, and containers are indexes instead of pointers, so nesting, cycles and sharing are
// cheap to build and to destroy. The parsers (pickle_machine.cc, json_reader.cc) fill a store and
// snapshot_builder.cc reads it.
//
// Memory is bounded by ReadLimits. An operation that would exceed these limits, or that modifies a
// container which was adopted or converted, returns false without effect, and problem() has the
// message. Not thread safe.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ashlar {

// Bounds on the work that a file can cause. A history of three million entries with stacks needs
// about half of the default `value_bytes`.
struct ReadLimits {
  // Memory for the values of one file while it is read, and for its analysis. Excess capacity of
  // tables is not counted.
  size_t value_bytes = size_t{2} << 30;
  // Text of a file in which nothing is shared, see ValueStore::charge_text().
  size_t text_bytes = size_t{1} << 40;
  // The number of bytes of the file that have been read so far, before decompression; null:
  // unknown. If known, it lowers both limits, so that a small file cannot exhaust memory or time.
  // REQUIRES: outlives the store.
  const std::atomic<uint64_t>* file_bytes = nullptr;
};

// Exclusive upper limit of the device indexes in a file. PyTorch's c10::DeviceIndex is an int8_t.
inline constexpr uint64_t kMaxDevices = 128;
// Upper limit of the sizes in a file, except the sizes of failed requests: the address space of a
// process on x86-64 with four-level page tables.
inline constexpr size_t kMaxSizeBytes = size_t{1} << 47;

// A string hash with a random seed per instance, so that no file can contain strings that are
// chosen to collide.
class SeededHash {
 public:
  SeededHash() {
    std::random_device device;
    seed_ = uint64_t{device()} << 32 | device();
  }

  size_t operator()(std::string_view bytes) const {
    uint64_t hash = seed_ ^ bytes.size();
    while (!bytes.empty()) {
      uint64_t part = 0;
      bytes.remove_prefix(bytes.copy(reinterpret_cast<char*>(&part), sizeof(part)));
      hash = (hash ^ part) * (seed_ | 1);
      hash ^= hash >> 29;
    }
    return hash * 0x9e3779b97f4a7c15u;  // 2^64 divided by the golden ratio
  }

 private:
  uint64_t seed_;
};

enum class ValueKind : uint8_t {
  kNone,
  kBool,
  kInteger,
  kLargeInteger,  // from 2^63 to 2^64 - 1
  kFloat,
  kString,
  kBytes,  // the contents are not stored
  kTuple,
  kList,
  kDict,
};

// Returns "a list", "a string" and so on, for messages.
std::string_view name(ValueKind kind);

struct Value {
  ValueKind kind = ValueKind::kNone;
  uint64_t bits = 0;

  static Value boolean(bool value) { return {ValueKind::kBool, value ? 1u : 0u}; }
  static Value integer(int64_t value) {
    return {ValueKind::kInteger, static_cast<uint64_t>(value)};
  }
  static Value unsigned_integer(uint64_t value) {
    return {value >> 63 != 0 ? ValueKind::kLargeInteger : ValueKind::kInteger, value};
  }
  static Value floating_point(double value) {
    return {ValueKind::kFloat, std::bit_cast<uint64_t>(value)};
  }
  static Value string(uint32_t index) { return {ValueKind::kString, index}; }

  bool is_integer() const {
    return kind == ValueKind::kInteger || kind == ValueKind::kLargeInteger;
  }
  bool is_container() const { return kind >= ValueKind::kTuple; }
  uint32_t index() const { return static_cast<uint32_t>(bits); }  // index of a string or container
  double as_double() const { return std::bit_cast<double>(bits); }
  friend bool operator==(const Value&, const Value&) = default;
};

// Receives the first items that are set in each dict, normally all its items, and may convert the
// dict to another representation, so that millions of dicts need not be stored as values.
class DictAdopter {
 public:
  enum class Outcome { kDeclined, kAdopted, kInvalid };
  virtual ~DictAdopter() = default;
  // `items` alternates keys and values. kAdopted: the store keeps `number` instead of the items.
  // kInvalid: problem() has the message.
  virtual Outcome adopt(std::span<const Value> items, uint32_t& number) = 0;
  virtual const std::string& problem() const = 0;
};

class ValueStore {
 public:
  explicit ValueStore(const ReadLimits& limits);
  ValueStore(const ValueStore&) = delete;
  ValueStore& operator=(const ValueStore&) = delete;

  // REQUIRES: the adopter outlives the last call to set_items().
  void set_adopter(DictAdopter& adopter) { adopter_ = &adopter; }

  // Adds a string. Equal strings have equal indexes, which count distinct strings from 0.
  bool add_string(std::string_view bytes, Value& made);
  bool add_list(Value& made) { return add_object(ValueKind::kList, made); }
  bool add_dict(Value& made) { return add_object(ValueKind::kDict, made); }
  bool add_tuple(std::span<const Value> items, Value& made);

  // Appends to a list. REQUIRES: `list` is a list.
  bool append(Value list, std::span<const Value> items);
  // Adds items to a dict. `items` alternates keys and values. If a key is duplicated, the last
  // value applies. REQUIRES: `dict` is a dict, and items.size() is even.
  bool set_items(Value dict, std::span<const Value> items);

  std::string_view string_at(uint32_t index) const { return strings_[index]; }
  size_t string_count() const { return strings_.size(); }
  // Returns the items of a list or tuple, or the alternating keys and values of a dict; empty if
  // the container was adopted or converted.
  // REQUIRES: container.is_container().
  std::span<const Value> items(Value container) const;

  // Returns the number that the adopter gave to a dict; nullopt if the dict was not adopted.
  std::optional<uint32_t> adopted(Value dict) const {
    const Object& object = objects_[dict.index()];
    return object.state == State::kAdopted ? std::optional(object.place) : std::nullopt;
  }

  // Replaces the items of a container by a number, after a reader converted them to its own
  // representation. The container can no longer be modified.
  void mark_converted(Value container, uint32_t number);
  // Returns the number that mark_converted gave to a container; nullopt if the container was not
  // converted.
  std::optional<uint32_t> converted(Value container) const {
    const Object& object = objects_[container.index()];
    return object.state == State::kConverted ? std::optional(object.place) : std::nullopt;
  }

  // Keeps the first `count` containers and removes the containers that were added later.
  // REQUIRES: no remaining value refers to the removed containers.
  void forget_since(size_t count);

  // Counts memory that readers allocate for the values. Fails if the limit would be exceeded.
  bool charge(size_t bytes);
  // Returns whether charge() would succeed.
  bool can_hold(size_t bytes);
  // Counts text that formats without sharing repeat, such as the frames of the stack of each trace
  // entry in JSON. Fails if the limit would be exceeded.
  bool charge_text(size_t bytes);
  const std::string& problem() const { return problem_; }

 private:
  enum class State : uint8_t { kPlain, kAdopted, kConverted };

  // The meaning of `place` depends on the container: for a tuple, it is the index of the first item
  // in tuple_items_; for a plain list or dict with items, an index into item_lists_; for an adopted
  // or converted container, its number.
  struct Object {
    ValueKind kind = ValueKind::kNone;
    State state = State::kPlain;
    uint32_t count = 0;
    uint32_t place = 0;
  };

  bool add_object(ValueKind kind, Value& made);
  bool add_items(Object& object, std::span<const Value> items);
  void drop_items(Object& object);

  size_t value_limit_bytes() const;
  size_t text_limit_bytes() const;

  const ReadLimits limits_;
  size_t charged_bytes_ = 0;
  size_t text_bytes_ = 0;
  DictAdopter* adopter_ = nullptr;
  std::deque<std::string> strings_;
  std::unordered_map<std::string_view, uint32_t, SeededHash> string_index_;
  std::vector<Object> objects_;
  std::vector<Value> tuple_items_;
  std::vector<std::vector<Value>> item_lists_;
  std::vector<uint32_t> free_item_lists_;
  Value last_tuple_{};  // kNone: no tuple yet
  std::string problem_;
};

}  // namespace ashlar
