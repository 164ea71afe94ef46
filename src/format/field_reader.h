// SPDX-License-Identifier: Apache-2.0
//
// Converts the values of a file to C++ types, one field at a time. Each function checks type and
// range. On a mismatch it returns false, and problem() names the key, what was found and what was
// expected; callers prepend the location. Not thread safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ashlar/types.h"
#include "format/snapshot_keys.h"
#include "format/value_store.h"

namespace ashlar {

class FieldReader {
 public:
  explicit FieldReader(ValueStore& store) : store_(store) {}

  bool bytes(Key key, Value value, size_t& out);  // 0 to kMaxSizeBytes
  // Reads the size of a request, which may exceed the available memory: 0 to 2^63 - 1.
  bool requested_bytes(Key key, Value value, size_t& out);
  // Reads any 64-bit integer. Dumps written by C++ contain addresses of 2^63 and above as negative
  // numbers.
  bool bits(Key key, Value value, uint64_t& out);
  bool integer(Key key, Value value, int64_t& out);
  bool boolean(Key key, Value value, bool& out);
  bool device(Key key, Value value, DeviceIndex& out);
  bool pool(Key key, Value value, PoolId& out);  // a tuple or list of two integers
  bool string(Key key, Value value);             // checks the type only
  // list() reads the items of a list or tuple (JSON has only lists); dict() reads the alternating
  // keys and values of a dict.
  bool list(Key key, Value value, std::span<const Value>& out);
  bool dict(Key key, Value value, std::span<const Value>& out);

  std::string_view text_of(Value string) const { return store_.string_at(string.index()); }

  // Counts memory that the caller is about to allocate against the limit of the store. Many values
  // can refer to one string, so each copy is charged. Fails if the limit would be exceeded.
  bool charge(size_t bytes);
  // Fails if charge() would fail, but charges nothing.
  bool can_hold(size_t bytes);
  // As ValueStore::charge_text().
  bool charge_text(size_t bytes);
  // Appends copies of two strings, and charges for the copies.
  using StringPairs = std::vector<std::pair<std::string, std::string>>;
  bool append_strings(Value first, Value second, StringPairs& out);

  // Sets problem() from what was found and expected, and returns false.
  bool fail(Key key, Value found, std::string_view expected);
  bool fail(std::string problem);
  const std::string& problem() const { return problem_; }

  // Limits the number of values that list() and dict() return in total. Shared values are read
  // once per reference, so without a limit a small file could take exponential time.
  void set_allowance(uint64_t visits) { allowance_ = visits; }
  // Counts the values against the allowance that set_allowance() sets. Fails if the allowance is
  // exhausted.
  bool visit(std::span<const Value> items);

  ValueStore& store() const { return store_; }

 private:
  ValueStore& store_;
  uint64_t allowance_ = UINT64_MAX;
  std::string problem_;
};

}  // namespace ashlar
