// SPDX-License-Identifier: Apache-2.0
//
// The interface between snapshot_writer.cc and the output syntax: pickle or JSON. Values are
// written in order; the contents of a dict alternate keys and values. Not thread safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/types.h"
#include "format/byte_writer.h"
#include "format/snapshot_keys.h"

namespace ashlar {

// Kinds of values that a snapshot stores once and refers to many times.
enum class SharedKind { kStack, kFrame, kForward };

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
  virtual void unsigned_integer(uint64_t value) = 0;
  virtual void floating_point(double value) = 0;
  virtual void boolean(bool value) = 0;
  virtual void string(std::string_view value) = 0;
  virtual void string(Key word) = 0;
  virtual void pool(PoolId value) = 0;

  // Writes a reference to a shared value that was written before. Returns false if the value was
  // not written before, or if the syntax has no references; the caller then writes the value as the
  // next list or dict.
  virtual bool reuse(SharedKind kind, uint32_t index) = 0;

  // Must be called after the last value. Errors are those of the sink.
  virtual Status finish() = 0;

 protected:
  ByteWriter out_;
};

}  // namespace ashlar
