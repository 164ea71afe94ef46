// SPDX-License-Identifier: Apache-2.0
//
// Writes pickles of protocol 4 that PyTorch's viewer accepts: with batches of at most 1,000 items,
// with strings and shared values in the memo, and only with opcodes that the viewer supports
// (docs/reference/formats/pickle.md).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "format/value_writer.h"

namespace ashlar {

class PickleWriter final : public ValueWriter {
 public:
  explicit PickleWriter(ByteSink& sink);

  void begin_list() override { begin({.opcode = ']', .close = 'e'}); }
  void end_list() override { end(); }
  void begin_dict() override { begin({.opcode = '}', .close = 'u'}); }
  void end_dict() override { end(); }
  void key(std::string_view name) override;
  void key(Key name) override;

  void integer(int64_t value) override;
  void unsigned_integer(uint64_t value) override;
  void floating_point(double value) override;
  void boolean(bool value) override;
  void string(std::string_view value) override;
  void string(Key word) override;
  void pool(PoolId value) override;
  bool reuse(SharedKind kind, uint32_t index) override;
  Status finish() override;

 private:
  static constexpr uint32_t kNotInMemo = UINT32_MAX;

  struct Container {
    char opcode = 0;
    char close = 0;  // the opcode that adds the items above the mark
    uint32_t item_count = 0;
  };
  struct SharedId {
    SharedKind kind;
    uint32_t index;
  };

  void begin(Container container);
  void end();
  // Must be called before every item of a list and every key of a dict.
  void begin_item();
  void begin_value();
  void put_number(int64_t value);
  void put_string(std::string_view value);
  void put_key(Key word);
  void put_get(uint32_t memo_index);
  uint32_t put_memoize();
  uint32_t& memo_slot(SharedId id);

  std::vector<Container> open_;
  uint32_t memo_count_ = 0;
  std::unordered_map<std::string, uint32_t> strings_;
  std::array<uint32_t, static_cast<size_t>(Key::kCount)> key_memo_{};
  std::array<std::vector<uint32_t>, 3> shared_;  // memo indexes, by SharedKind and index
  std::optional<SharedId> next_shared_;          // set if the next container is a shared value
};

}  // namespace ashlar
