// SPDX-License-Identifier: Apache-2.0
//
// Values of a file turned into ours, one field at a time: each function checks the kind and the
// range, and on a mismatch returns false and keeps a sentence that names the key, what was found
// and what was expected. Callers put the place in front.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ashlar/types.h"
#include "format/snapshot_keys.h"
#include "format/value_store.h"

namespace ashlar {

class Fields {
 public:
  explicit Fields(ValueStore& store) : store_(store) {}

  bool bytes(Key key, Value value, size_t& out);  // 0 to 2^63 - 1
  // Any 64 bits: dumps written by C++ have addresses from 2^63 on as negative numbers.
  bool bits(Key key, Value value, uint64_t& out);
  bool integer(Key key, Value value, int64_t& out);
  bool flag(Key key, Value value, bool& out);
  bool device(Key key, Value value, DeviceIndex& out);
  bool pool(Key key, Value value, PoolId& out);  // a tuple or list of two numbers
  bool string(Key key, Value value);             // only that it is one
  // The items of a list or, since JSON has no others, a tuple; of a dict, keys and values.
  bool list(Key key, Value value, std::span<const Value>& out);
  bool dict(Key key, Value value, std::span<const Value>& out);

  std::string_view text_of(Value string) const { return store_.string_at(string.index()); }

  // Always false.
  bool fail(Key key, Value found, std::string_view expected);
  bool fail(std::string problem);
  const std::string& problem() const { return problem_; }

  // Reading what is shared takes time again for each who shares it. Files that would take more
  // than in proportion to their length are refused.
  void set_allowance(uint64_t visits) { allowance_ = visits; }
  bool visit(std::span<const Value> items);

  ValueStore& store() const { return store_; }

 private:
  ValueStore& store_;
  uint64_t allowance_ = UINT64_MAX;
  std::string problem_;
};

}  // namespace ashlar
