// SPDX-License-Identifier: Apache-2.0
//
// Handles, except bare handles, have little-endian fields at fixed offsets. All other bytes must be
// zero.
#include "share/share_format.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/text.h"

namespace ashlar {
namespace {

constexpr std::string_view kMagic = "ashshare";
constexpr uint8_t kNoDescriptors = 0;    // kind 'c'
constexpr uint8_t kFileDescriptors = 1;  // kind 'e'
constexpr uint8_t kFabricHandles = 2;    // reserved; not supported by this version

// Offsets of the fields.
enum FieldOffset : size_t {
  kMagicAt = 0,
  kVersionAt = 8,
  kKindAt = 10,
  kTransportAt = 11,
  kPidAt = 12,
  kDeviceAt = 16,
  kExporterAt = 32,
  kShareIdAt = 48,
  kOffsetAt = 56,
  kBytesAt = 64,
  kRangeBytesAt = 72,
  kGranuleBytesAt = 80,
  kGranuleCountAt = 88,
  kAllocationAt = 96,
  kZeroAt = 160,
};
static_assert(kZeroAt + 32 == kShareHandleBytes);

template <typename T>
void put(std::string& bytes, FieldOffset at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    bytes[at + i] = static_cast<char>((value >> (8 * i)) & 255);
}

template <typename T>
T get(std::string_view bytes, FieldOffset at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(static_cast<uint8_t>(bytes[at + i])) << (8 * i));
  }
  return value;
}

template <size_t N>
void put(std::string& bytes, FieldOffset at, const std::array<uint8_t, N>& value) {
  std::memcpy(bytes.data() + at, value.data(), N);
}

template <size_t N>
void get(std::string_view bytes, FieldOffset at, std::array<uint8_t, N>& value) {
  std::memcpy(value.data(), bytes.data() + at, N);
}

Status invalid_handle_error(std::string why) {
  return Status::format(text("not the handle of a shared block: ", why));
}

Status check_version(std::string_view bytes) {
  if (bytes.size() < kKindAt || !bytes.starts_with(kMagic)) {
    return invalid_handle_error(text("its ", bytes.size(), " bytes do not begin with ", kMagic));
  }
  const auto version = get<uint16_t>(bytes, kVersionAt);
  if (version > kShareFormatVersion) {
    return Status::format(text("the handle is from a newer version (format ", version,
                               ", this reads ", kShareFormatVersion,
                               "): update Ashlar in this process, or use one version in both"));
  }
  if (version == 0) return invalid_handle_error("there is no format 0");
  if (bytes.size() != kShareHandleBytes) {
    return invalid_handle_error(
        text("it has ", bytes.size(), " bytes, expected ", kShareHandleBytes));
  }
  return {};
}

bool is_zero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; });
}

// Checks the fields that the handle's kind requires or excludes.
Status check_kind(std::string_view bytes, const ShareHandle& handle) {
  const auto transport = get<uint8_t>(bytes, kTransportAt);
  if (!is_zero(bytes.substr(kZeroAt))) return invalid_handle_error("reserved bytes are not zero");
  switch (handle.kind) {
    case ShareHandle::Kind::kAllocation:
      if (transport != kNoDescriptors || handle.granule_bytes != 0 || handle.granule_count != 0) {
        return invalid_handle_error("it is for a plain allocation but has granules");
      }
      return {};
    case ShareHandle::Kind::kExtents:
      if (transport == kFabricHandles) {
        return Status::format(
            "the handle's memory is shared over a fabric, which this version does "
            "not support: share it by file descriptor");
      }
      if (transport != kFileDescriptors) {
        return invalid_handle_error(text("its transport is unknown: ", int{transport}));
      }
      if (!is_zero(bytes.substr(kAllocationAt, sizeof(AllocationHandle)))) {
        return invalid_handle_error("it is for granules but has an allocation handle");
      }
      return {};
  }
  return invalid_handle_error(text("its kind is unknown: ", int{get<uint8_t>(bytes, kKindAt)}));
}

Status check_numbers(const ShareHandle& handle) {
  const uint64_t range = handle.range_bytes;
  if (handle.bytes == 0 || range > kMaxSharedBytes || handle.offset > range ||
      handle.bytes > range - handle.offset) {
    return invalid_handle_error(text("a block of ", handle.bytes, " B at offset ", handle.offset,
                                     " of ", range, " B is out of range"));
  }
  if (handle.kind == ShareHandle::Kind::kAllocation) return {};
  const uint64_t granule = handle.granule_bytes;
  const uint64_t count = handle.granule_count;
  const bool fits = count != 0 && count <= kMaxSharedGranules && granule != 0 &&
                    range % granule == 0 && range / granule == count;
  if (!fits) {
    return invalid_handle_error(
        text(count, " granules of ", granule, " B do not make a range of ", range, " B"));
  }
  const uint64_t behind = range - handle.offset - handle.bytes;
  if (handle.offset >= granule || behind >= granule) {
    return invalid_handle_error("it has granules that the block does not overlap");
  }
  return {};
}

// PyTorch's handles begin with a version and the kind of the memory.
constexpr size_t kPyTorchPrefixBytes = 2;
constexpr uint8_t kPyTorchVersion = 2;  // the newest known
constexpr char kPyTorchAllocation = 'c';
constexpr char kPyTorchExpandable = 'e';

bool has_pytorch_prefix(std::string_view bytes) {
  if (bytes.size() < kPyTorchPrefixBytes || bytes.starts_with(kMagic)) return false;
  return bytes[1] == kPyTorchAllocation || bytes[1] == kPyTorchExpandable;
}

// Checks that the bytes are PyTorch's handle of a plain allocation.
Status check_pytorch_handle(std::string_view bytes) {
  const auto version = static_cast<uint8_t>(bytes[0]);
  if (version == 0 || version > kPyTorchVersion) {
    return invalid_handle_error(text("it has PyTorch's format, version ", int{version},
                                     " (expected 1 to ", int{kPyTorchVersion}, ")"));
  }
  if (bytes[1] == kPyTorchExpandable) {
    return Status::format(
        "the handle is for an expandable segment of PyTorch's own allocator, which only PyTorch "
        "can open: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False in the process that "
        "shares");
  }
  if (bytes.size() != kPyTorchPrefixBytes + sizeof(AllocationHandle)) {
    return invalid_handle_error(text("it has PyTorch's format but ", bytes.size(), " bytes"));
  }
  return {};
}

ShareHandle bare_handle(std::string_view bytes) {
  ShareHandle handle;
  handle.is_bare = true;
  std::memcpy(handle.allocation.data(), bytes.data(), handle.allocation.size());
  return handle;
}

}  // namespace

std::string to_bytes(const ShareHandle& handle) {
  const bool has_extents = handle.kind == ShareHandle::Kind::kExtents;
  std::string bytes(kShareHandleBytes, '\0');
  std::memcpy(bytes.data() + kMagicAt, kMagic.data(), kMagic.size());
  put(bytes, kVersionAt, kShareFormatVersion);
  put(bytes, kKindAt, static_cast<uint8_t>(handle.kind));
  put(bytes, kTransportAt, has_extents ? kFileDescriptors : kNoDescriptors);
  put(bytes, kPidAt, handle.exporter_pid);
  put(bytes, kDeviceAt, handle.device);
  put(bytes, kExporterAt, handle.exporter);
  put(bytes, kShareIdAt, handle.share_id);
  put(bytes, kOffsetAt, handle.offset);
  put(bytes, kBytesAt, handle.bytes);
  put(bytes, kRangeBytesAt, handle.range_bytes);
  put(bytes, kGranuleBytesAt, handle.granule_bytes);
  put(bytes, kGranuleCountAt, handle.granule_count);
  put(bytes, kAllocationAt, handle.allocation);
  return bytes;
}

Result<ShareHandle> parse_share_handle(std::string_view bytes) {
  if (bytes.size() == sizeof(AllocationHandle) && !bytes.starts_with(kMagic)) {
    return bare_handle(bytes);
  }
  if (has_pytorch_prefix(bytes)) {
    if (Status known = check_pytorch_handle(bytes); !known.ok()) return known;
    return bare_handle(bytes.substr(kPyTorchPrefixBytes));
  }
  if (Status known = check_version(bytes); !known.ok()) return known;
  ShareHandle handle;
  handle.kind = static_cast<ShareHandle::Kind>(get<uint8_t>(bytes, kKindAt));
  handle.exporter_pid = get<uint32_t>(bytes, kPidAt);
  get(bytes, kDeviceAt, handle.device);
  get(bytes, kExporterAt, handle.exporter);
  handle.share_id = get<uint64_t>(bytes, kShareIdAt);
  handle.offset = get<uint64_t>(bytes, kOffsetAt);
  handle.bytes = get<uint64_t>(bytes, kBytesAt);
  handle.range_bytes = get<uint64_t>(bytes, kRangeBytesAt);
  handle.granule_bytes = get<uint64_t>(bytes, kGranuleBytesAt);
  handle.granule_count = get<uint64_t>(bytes, kGranuleCountAt);
  get(bytes, kAllocationAt, handle.allocation);
  if (Status kind = check_kind(bytes, handle); !kind.ok()) return kind;
  if (Status numbers = check_numbers(handle); !numbers.ok()) return numbers;
  return handle;
}

std::string to_hex(const std::array<uint8_t, 16>& bytes) {
  std::string hex;
  for (uint8_t byte : bytes) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

std::string socket_name(const ExporterToken& token) { return "ashlar-share-" + to_hex(token); }

}  // namespace ashlar
