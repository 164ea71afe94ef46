// SPDX-License-Identifier: Apache-2.0
//
// The syntax that snapshot_writer.cc writes in: pickle or JSON. Values are written in order, each
// dict's as key and value in turn.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/types.h"
#include "format/byte_writer.h"
#include "format/snapshot_keys.h"

namespace ashlar {

// What a snapshot keeps once and uses many times.
enum class Shared { kStack, kFrame, kForward };

class ValueWriter {
 public:
  explicit ValueWriter(ByteSink& sink) : out_(sink) {}
  virtual ~ValueWriter() = default;
  ValueWriter(const ValueWriter&) = delete;
  ValueWriter& operator=(const ValueWriter&) = delete;

  virtual void begin_list() = 0;
  virtual void end_list() = 0;
  virtual void begin_dict() = 0;
  virtual void end_dict() = 0;
  virtual void key(std::string_view name) = 0;
  virtual void key(Key name) = 0;

  virtual void integer(int64_t value) = 0;
  virtual void natural(uint64_t value) = 0;
  virtual void real(double value) = 0;
  virtual void flag(bool value) = 0;
  virtual void string(std::string_view value) = 0;
  virtual void string(Key word) = 0;
  virtual void pool(PoolId value) = 0;

  // Whether the `index`-th thing of a kind was written before and now stands here again. If not,
  // the next list or dict is it.
  virtual bool reuse(Shared kind, uint32_t index) = 0;

  // Everything is there. Other kinds than ok come from the sink.
  virtual Status finish() = 0;

 protected:
  ByteWriter out_;
};

}  // namespace ashlar
