// SPDX-License-Identifier: Apache-2.0
//
// The handle of a shared block as a value, and as the bytes that travel between processes:
// docs/formats/share_handle.md. Bytes are never trusted: whoever parses them gets a value whose
// numbers fit together, or a status. Equal values are equal bytes, so that these can be a key.
// Pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ashlar/device.h"
#include "ashlar/status.h"

namespace ashlar {

using DeviceUuid = std::array<uint8_t, 16>;
// Names an exporter, and the socket it listens at. Random, so that nobody meets another's.
using ExporterToken = std::array<uint8_t, 16>;

// offset + bytes <= range_bytes. kExtents: range_bytes == granule_bytes * granule_count, and the
// block touches the first and the last granule.
struct ShareHandle {
  enum class Kind : uint8_t {
    kAllocation = 'c',  // a part of one plain allocation, which `allocation` opens
    kExtents = 'e',     // a part of granules that the exporter gives as file descriptors
  };
  Kind kind = Kind::kAllocation;
  // A bare allocation handle of 64 bytes, as PyTorch's first version sent it: nobody to ask, no
  // device named, and of the numbers below none is known.
  bool is_bare = false;
  DeviceUuid device{};
  ExporterToken exporter{};
  uint32_t exporter_pid = 0;  // as the exporter sees itself; for messages only
  uint64_t share_id = 0;
  uint64_t offset = 0;  // of the block in the range
  uint64_t bytes = 0;   // of the block, as its owner asked for
  uint64_t range_bytes = 0;
  uint64_t granule_bytes = 0;
  uint64_t granule_count = 0;
  AllocationHandle allocation{};

  friend bool operator==(const ShareHandle&, const ShareHandle&) = default;
};

inline constexpr uint16_t kShareFormatVersion = 1;
inline constexpr size_t kShareHandleBytes = 192;
// Absurd beyond these: 2^24 granules, and more addresses than processors have.
inline constexpr uint64_t kMostSharedGranules = uint64_t{1} << 24;
inline constexpr uint64_t kMostSharedBytes = uint64_t{1} << 47;

// REQUIRES: the invariants above; not bare.
std::string to_bytes(const ShareHandle& handle);
// kFormat: not a handle, cut short, of an unknown kind or from a newer version.
Result<ShareHandle> parse_share_handle(std::string_view bytes);

// "ashlar-share-" and the token in hexadecimal: the abstract name of the exporter's socket.
std::string socket_name(const ExporterToken& token);
std::string to_hex(const std::array<uint8_t, 16>& bytes);

}  // namespace ashlar
