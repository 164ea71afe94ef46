// SPDX-License-Identifier: Apache-2.0
//
// Derives the version from the fields of entries and the names of settings, and the platform from
// the files and functions of frames.
#include "analysis/recorded_pytorch.h"

#include <algorithm>
#include <string_view>

#include "analysis/frame_kind.h"
#include "base/text.h"

namespace ashlar {
namespace {

// Minor versions of PyTorch 2. A file with the field or setting was written by this version or a
// later one.
constexpr uint32_t kAssumed = 1;  // the first with expandable_segments
constexpr uint32_t kWithTimes = 2;
constexpr uint32_t kWithUserMetadata = 9;
constexpr uint32_t kWithLargeSegmentSize = 11;
constexpr uint32_t kWithPools = 12;

uint32_t version_of_entry(const TraceEntry& entry) {
  if (entry.has_pool) return kWithPools;
  if (entry.has_user_metadata) return kWithUserMetadata;
  return entry.has_time ? kWithTimes : 0;
}

bool has_setting(const Snapshot& snapshot, std::string_view name) {
  return std::any_of(snapshot.settings.begin(), snapshot.settings.end(),
                     [name](const auto& setting) { return setting.first == name; });
}

// Returns 0 if the file does not reveal the version. All entries of a file have the same fields, so
// the first of each trace suffices.
uint32_t shown_version(const Snapshot& snapshot) {
  uint32_t version = snapshot.settings.empty() ? 0 : kAssumed;
  if (has_setting(snapshot, "graph_capture_record_stream_reuse")) version = kWithUserMetadata;
  for (const std::vector<TraceEntry>& trace : snapshot.device_traces) {
    if (!trace.empty()) version = std::max(version, version_of_entry(trace.front()));
  }
  return version;
}

bool is_of_rocm(const Frame& frame) {
  const std::string_view name = frame.name;
  const std::string_view file = frame.filename;
  return name.starts_with("c10::hip::") || name.find(" c10::hip::") != name.npos ||
         file.find("libtorch_hip") != file.npos || file.find("libc10_hip") != file.npos;
}

RecordedPlatform platform_of(const Snapshot& snapshot) {
  const std::vector<Frame>& frames = snapshot.tables.frames;
  const auto any = [&](auto matches) { return std::any_of(frames.begin(), frames.end(), matches); };
  if (any([](const Frame& frame) { return is_windows_path(frame.filename); })) {
    return RecordedPlatform::kWindows;
  }
  const bool is_rocm = has_setting(snapshot, "pinned_use_hip_host_register") || any(is_of_rocm);
  return is_rocm ? RecordedPlatform::kRocm : RecordedPlatform::kLinux;
}

}  // namespace

RecordedPytorch find_pytorch(const Snapshot& snapshot, const AllocatorOptions& recorded) {
  RecordedPytorch pytorch;
  const uint32_t version = shown_version(snapshot);
  pytorch.is_version_shown = version > 0;
  pytorch.minor_version = std::max(version, kAssumed);
  pytorch.platform = platform_of(snapshot);
  // An option that the recorded program set was available to it.
  const AllocatorOptions defaults;
  pytorch.available.expandable_segments =
      pytorch.platform == RecordedPlatform::kLinux || recorded.expandable_segments;
  pytorch.available.large_segment_size =
      pytorch.minor_version >= kWithLargeSegmentSize ||
      recorded.large_segment_bytes != defaults.large_segment_bytes;
  return pytorch;
}

std::string describe(const RecordedPytorch& pytorch) {
  std::string text =
      pytorch.is_version_shown
          ? ashlar::text("The file was written by PyTorch 2.", pytorch.minor_version, " or later")
          : ashlar::text("The file does not tell its version of PyTorch; 2.", pytorch.minor_version,
                         " or later is assumed");
  if (!pytorch.available.large_segment_size) {
    text +=
        ashlar::text(", so large_segment_size_mb (2.", kWithLargeSegmentSize, ") is not proposed");
  }
  text += ".";
  if (!pytorch.available.expandable_segments) {
    text += pytorch.platform == RecordedPlatform::kWindows
                ? " PyTorch has no expandable_segments on Windows."
                : " Older versions of PyTorch have no expandable_segments on ROCm.";
  }
  return text;
}

}  // namespace ashlar
