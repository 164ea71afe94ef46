// SPDX-License-Identifier: Apache-2.0
//
// The handle of a shared block, as a value and as the bytes that travel between processes
// (docs/reference/formats/share_handle.md). Parsing validates untrusted bytes. Equal values have
// equal bytes, which can serve as keys. Pure functions.
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
// Identifies an exporter and its socket. Random, so that exporters do not collide.
using ExporterToken = std::array<uint8_t, 16>;

// The handle of a block in a range. Unless is_bare is set, offset + bytes <= range_bytes. With
// kExtents, range_bytes == granule_bytes * granule_count, and the block overlaps the first and the
// last granule.
struct ShareHandle {
  enum class Kind : uint8_t {
    kAllocation = 'c',  // part of a plain allocation, which `allocation` opens
    kExtents = 'e',     // part of granules that the exporter sends as file descriptors
  };
  Kind kind = Kind::kAllocation;
  // Whether the handle is a bare AllocationHandle (cudaIpcMemHandle_t), with or without the prefix
  // of PyTorch's newer formats. If so, only `allocation` is set.
  bool is_bare = false;
  DeviceUuid device{};
  ExporterToken exporter{};
  uint32_t exporter_pid = 0;  // PID in the exporter's PID namespace; for error messages only
  uint64_t share_id = 0;
  uint64_t offset = 0;  // the offset of the block in the range
  uint64_t bytes = 0;   // the size of the block, as requested by its owner
  uint64_t range_bytes = 0;
  uint64_t granule_bytes = 0;
  uint64_t granule_count = 0;
  AllocationHandle allocation{};

  friend bool operator==(const ShareHandle&, const ShareHandle&) = default;
};

inline constexpr uint16_t kShareFormatVersion = 1;
inline constexpr size_t kShareHandleBytes = 192;
// Limits that reject implausible handles: 2^24 granules, and the address space of current
// processors.
inline constexpr uint64_t kMaxSharedGranules = uint64_t{1} << 24;
inline constexpr uint64_t kMaxSharedBytes = uint64_t{1} << 47;

// Serializes a handle. REQUIRES: the invariants of ShareHandle, and !is_bare.
std::string to_bytes(const ShareHandle& handle);
// Parses a handle. kFormat: the bytes are not a valid handle, or the handle is from a newer version
// or for memory that is shared over a fabric.
Result<ShareHandle> parse_share_handle(std::string_view bytes);

// Returns the abstract name of the exporter's socket: "ashlar-share-" and the token in hexadecimal.
std::string socket_name(const ExporterToken& token);
std::string to_hex(const std::array<uint8_t, 16>& bytes);

}  // namespace ashlar
