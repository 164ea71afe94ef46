// SPDX-License-Identifier: Apache-2.0
//
// The wire format between two processes, sent as UCX active messages: calls, responses, and lists
// of completed calls.
//
// Ashlar does not use UCX's own puts, gets and atomics. Over TCP they are messages too, and UCX
// 1.13 executes them without checking that the memory is shared. If a peer dies while some of them
// are queued, UCX crashes on either side (ucp_request_send_state_ff). Active messages can be
// cancelled, and every call is checked against an existing region and its bounds.
//
// Numbers have the native byte order, because all supported machines are little-endian.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace ashlar::symm {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint32_t kUcxMessageMagic = 0x32584355;  // "UCX2"
inline constexpr unsigned kMessageId = 7;  // arbitrary: the worker has no other handler

enum class MessageKind : uint32_t { kHello = 1, kPut, kGet, kAtomic, kResponse, kCompleted };
enum class ResponseCode : uint32_t { kOk = 0, kUnknownRegion = 1, kInvalidCall = 2 };

// A random secret that grants access to a region. Ranks receive it through the store, as part of
// the region's key.
using RegionToken = std::array<uint64_t, 2>;

struct Message {
  uint32_t magic = kUcxMessageMagic;
  MessageKind kind = MessageKind::kHello;
  uint64_t call = 0;  // chosen by the caller; repeated in the response
  RegionToken region{};
  uint64_t offset = 0;
  uint64_t bytes = 0;                     // kGet: the requested size
  uint32_t atomic = 0;                    // kAtomic: the AtomicKind
  uint32_t word_bytes = 0;                // kAtomic: 4 or 8
  uint64_t operand = 0;                   // kAtomic: the operand; kResponse: the old value
  uint64_t expected = 0;                  // kAtomic: the value that a compare-and-swap expects
  ResponseCode code = ResponseCode::kOk;  // kResponse: the outcome of the call
  uint32_t is_posted = 0;  // in a call: success may be reported by kCompleted instead of kResponse
};
static_assert(std::is_trivially_copyable_v<Message> && sizeof(Message) == 80);

// The maximum number of calls in one kCompleted message, whose data is a list of call numbers.
// Failed calls are reported by a kResponse each.
inline constexpr size_t kMaxCompletedCalls = 1024;

// The maximum size of the data in one put or response. Larger transfers are split.
inline constexpr size_t kMaxDataBytes = size_t{64} << 10;

}  // namespace ashlar::symm
