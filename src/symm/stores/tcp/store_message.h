// SPDX-License-Identifier: Apache-2.0
//
// Messages between a TCP store and its server. A message is a frame: the size of its body as four
// bytes, then the body, little-endian. A client first sends a hello with the token, then one
// request at a time; each gets one response. Both sides treat what they receive as hostile: sizes
// are bounded, and the parsers accept only what the serializers write. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/store.h"

namespace ashlar::symm {

inline constexpr size_t kFrameHeaderBytes = 4;
inline constexpr size_t kMinTokenBytes = 16;
inline constexpr size_t kMaxTokenBytes = 256;
// The maximum number of keys in one request. Clients split longer lists.
inline constexpr size_t kMaxRequestKeys = 1024;
// Bounds on the sizes of bodies.
inline constexpr size_t kMaxHelloBytes = 512;
inline constexpr size_t kMaxRequestBytes = Store::kMaxValueBytes + 1024;
// A response to kTryGet ends with the first value that brings it to this size.
inline constexpr size_t kMinSplitBytes = Store::kMaxValueBytes;
inline constexpr size_t kMaxResponseBytes = 2 * Store::kMaxValueBytes + 16 * kMaxRequestKeys;

enum class StoreCall : uint8_t { kHello = 1, kSet, kTryGet, kAdd, kErase, kWait };

// The random name of one addition, by which the server recognizes an addition that is sent again.
struct Receipt {
  uint64_t low = 0;
  uint64_t high = 0;

  bool operator==(const Receipt&) const = default;
};

// A request. The fields that a call does not use have their default values.
struct StoreRequest {
  StoreCall call = StoreCall::kHello;
  std::string token{};              // kHello
  std::vector<std::string> keys{};  // kTryGet: at most kMaxRequestKeys; kSet, kAdd, kErase: one
  std::string value{};              // kSet
  int64_t amount = 0;               // kAdd
  int64_t time_to_live_ms = 0;      // kSet, kAdd
  Receipt receipt{};                // kAdd
  uint64_t version = 0;             // kWait: the version of the store that the client has seen
  uint32_t wait_ms = 0;             // kWait: the maximum time until the response

  bool operator==(const StoreRequest&) const = default;
};

// A response. `number` is the sum of kAdd, the version of the store before a kTryGet was performed,
// and whether the key of a kErase existed.
struct StoreResponse {
  Status status{};  // if not ok, the fields below have their default values
  int64_t number = 0;
  std::vector<std::optional<std::string>> values{};  // kTryGet: of the first keys, at least one
};

// Returns whether a token has kMinTokenBytes to kMaxTokenBytes printable characters without spaces.
bool is_valid_token(std::string_view token);

// Returns a whole frame.
std::string serialize(const StoreRequest& request);
std::string serialize(const StoreResponse& response);

// Parse the body of a frame. kFormat: the body is malformed. Keys and values of requests have valid
// sizes and characters.
Result<StoreRequest> parse_request(std::string_view body);
Result<StoreResponse> parse_response(std::string_view body);

// Returns the size of the body that follows the first kFrameHeaderBytes bytes of `header`.
uint32_t body_bytes(std::string_view header);

}  // namespace ashlar::symm
