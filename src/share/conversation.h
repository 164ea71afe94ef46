// SPDX-License-Identifier: Apache-2.0
//
// What an importer and an exporter say to each other: a question, an answer, again and again on one
// connection. The connection is the importer's lease: while it is open, the exporter keeps the
// block. Both are on one machine, so these are plain structures; the version is for two processes
// with different versions of Ashlar.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <type_traits>

#include "share/share_format.h"

namespace ashlar {

inline constexpr uint32_t kConversationVersion = 1;
// File descriptors in one answer: well below what the kernel attaches to a message, and so few that
// neither side needs many at once.
inline constexpr size_t kMostFdsPerAnswer = 32;

struct Question {
  uint32_t version = kConversationVersion;
  uint32_t zero = 0;
  ExporterToken exporter{};
  uint64_t share_id = 0;
  uint64_t first_granule = 0;  // the answer has the descriptors from here on
};
static_assert(sizeof(Question) == 40);

enum class AnswerCode : uint32_t {
  kGranted = 1,      // the lease holds; descriptors come with it, where there are any
  kNoSuchShare = 2,  // it was ended, or never was
  kTooMany = 3,      // no more connections are taken
  kFailed = 4,       // the exporter's device refused: `why` says it
  kNotUnderstood = 5,
};

struct Answer {
  AnswerCode code = AnswerCode::kNotUnderstood;
  uint32_t fd_count = 0;
  std::array<char, 248> why{};  // ends with a zero
};
static_assert(sizeof(Answer) == 256);

template <typename T>
std::span<uint8_t> bytes_of(T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<uint8_t*>(&value), sizeof(T)};
}

}  // namespace ashlar
