// SPDX-License-Identifier: Apache-2.0
//
// What two processes say to each other, over UCX's active messages: a call, and its answer; of
// calls that nobody waits for one by one, which were done.
//
// UCX has puts, gets and atomics of its own. Over TCP these are messages as well, which UCX 1.13
// answers without asking whether the memory was ever shared; and when a peer dies while some are
// waiting to be sent, it crashes (ucp_request_send_state_ff), on either side. Messages it can take
// back; and here every one is held to a region that exists and to its bounds.
//
// Numbers are as they lie in memory: all machines that are supported are little-endian.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace ashlar::symm {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint32_t kMessageMagic = 0x32584355;  // "UCX2"
inline constexpr unsigned kMessageId = 7;              // any: the worker has no other user

enum class MessageKind : uint32_t { kHello = 1, kPut, kGet, kAtomic, kAnswer, kDone };
enum class Outcome : uint32_t { kDone = 0, kNoRegion = 1, kBadCall = 2 };

// Whoever knows it may use the region: drawn, and told to the ranks of the group alone.
using RegionToken = std::array<uint64_t, 2>;

struct Message {
  uint32_t magic = kMessageMagic;
  MessageKind kind = MessageKind::kHello;
  uint64_t call = 0;  // the caller's number; the answer has the same
  RegionToken region{};
  uint64_t offset = 0;
  uint64_t bytes = 0;       // kGet: wanted
  uint32_t atomic = 0;      // AtomicKind
  uint32_t word_bytes = 0;  // 4 or 8
  uint64_t operand = 0;     // kAnswer: what was there before
  uint64_t expected = 0;
  Outcome outcome = Outcome::kDone;  // kAnswer
  uint32_t is_posted = 0;            // a call: once it was done, a kDone may tell its number
};
static_assert(std::is_trivially_copyable_v<Message> && sizeof(Message) == 80);

// The data of a kDone: numbers of calls. One that failed has an answer of its own.
inline constexpr size_t kMostDone = 1024;

// Of a put or an answer in one message; more is cut.
inline constexpr size_t kMostDataBytes = size_t{64} << 10;

}  // namespace ashlar::symm
