// SPDX-License-Identifier: Apache-2.0
//
// Pickles, protocol 4, as small and as plain as PyTorch's viewer wants them: no more than a
// thousand items at once, strings and shared things through the memo, and only opcodes that it
// knows (docs/formats/pickle.md).
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
  void natural(uint64_t value) override;
  void real(double value) override;
  void flag(bool value) override;
  void string(std::string_view value) override;
  void string(Key word) override;
  void pool(PoolId value) override;
  bool reuse(Shared kind, uint32_t index) override;
  Status finish() override;

 private:
  static constexpr uint32_t kNotInMemo = UINT32_MAX;

  struct Container {
    char opcode = 0;
    char close = 0;  // the opcode that adds the items above a mark
    uint32_t item_count = 0;
  };
  struct Thing {
    Shared kind;
    uint32_t index;
  };

  void begin(Container container);
  void end();
  // Before every item of a list and every key of a dict.
  void begin_item();
  void begin_value();
  void put_number(int64_t value);
  void put_string(std::string_view value);
  void put_word(Key word);
  void put_get(uint32_t memo_index);
  uint32_t put_memoize();
  uint32_t& memo_of(Thing thing);

  std::vector<Container> open_;
  uint32_t memo_count_ = 0;
  std::unordered_map<std::string, uint32_t> strings_;
  std::array<uint32_t, static_cast<size_t>(Key::kCount)> words_{};
  std::array<std::vector<uint32_t>, 3> shared_;  // by kind and index
  std::optional<Thing> next_shared_;             // what the next container is
};

}  // namespace ashlar
