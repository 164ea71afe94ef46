// SPDX-License-Identifier: Apache-2.0
//
// The protocol between importer and exporter: requests and responses on one connection, which is
// the importer's lease. Both processes run on one machine, so messages are plain structs. The
// version in a request detects that the processes use incompatible versions of Ashlar.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <type_traits>

#include "share/share_format.h"

namespace ashlar {

inline constexpr uint32_t kShareProtocolVersion = 1;
// The maximum number of file descriptors in one response. It is well below the kernel's limit, and
// small enough that neither process has many descriptors open at a time.
inline constexpr size_t kMaxFdsPerResponse = 32;

struct ShareRequest {
  uint32_t version = kShareProtocolVersion;
  uint32_t zero = 0;  // must be 0
  ExporterToken exporter{};
  uint64_t share_id = 0;
  uint64_t first_granule = 0;  // the response has the descriptors from this granule on
};
static_assert(sizeof(ShareRequest) == 40);

enum class ShareCode : uint32_t {
  kGranted = 1,      // the lease is valid; the descriptors, if any, are attached
  kNoSuchShare = 2,  // the share ended or never existed
  kTooMany = 3,      // the connection limit is reached
  kFailed = 4,       // the exporter's device failed; see `why`
  kNotUnderstood = 5,
};

struct ShareResponse {
  ShareCode code = ShareCode::kNotUnderstood;
  uint32_t fd_count = 0;
  std::array<char, 248> why{};  // zero-terminated
};
static_assert(sizeof(ShareResponse) == 256);

template <typename T>
std::span<uint8_t> bytes_of(T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<uint8_t*>(&value), sizeof(T)};
}

}  // namespace ashlar
