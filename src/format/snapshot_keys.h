// SPDX-License-Identifier: Apache-2.0
//
// The keys and constant strings of the snapshot schema (docs/reference/formats/snapshot.md) as
// numbers. Readers add them to an empty ValueStore first, so that comparing a key is comparing an
// integer.
#pragma once

#include <cstdint>
#include <string_view>

#include "format/value_store.h"

namespace ashlar {

enum class Key : uint32_t {
  kAction,
  kActiveSize,
  kAddr,
  kAddress,
  kAllocatedSize,
  kAllocatorSettings,
  kAshlar,
  kBlocks,
  kCompileContext,
  kDevice,
  kDeviceFree,
  kDeviceTraces,
  kExtents,
  kExternalAnnotations,
  kFilename,
  kForwardFrames,
  kFrames,
  kHistory,
  kHome,
  kHostSegments,
  kHostTraces,
  kId,
  kIsExpandable,
  kIsLarge,
  kIsPaused,
  kLine,
  kMadeUs,
  kMappedSize,
  kMappings,
  kName,
  kPoolId,
  kRealSize,
  kRequestedSize,
  kReservedSize,
  kSegmentPoolId,
  kSegmentType,
  kSegments,
  kSize,
  kState,
  kStream,
  kTimeUs,
  kTotalSize,
  kTraced,
  kUserMetadata,
  kVersion,
  kViews,
  // Strings that occur as values.
  kNotAvailable,
  kNothing,
  kLarge,
  kSmall,
  kActiveAllocated,
  kActivePendingFree,
  kActiveAwaitingFree,
  kInactive,
  // Values of "action", in the order of TraceAction.
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kSnapshot,
  kOom,
  kAnnotate,
  kFree,         // in old files, which have a single action for a free
  kUserDefined,  // in old files, instead of annotations
  kCount,
};

// Returns the text as it occurs in files: "action", "active_size" and so on.
std::string_view key_text(Key key);

// Adds the texts of all keys, in the order of Key.
// REQUIRES: the store is empty and its limit is at least a few KiB.
void add_key_texts(ValueStore& store);

// Returns the key with this text. A result of Key::kCount or above means that the string is not a
// key.
// REQUIRES: `string` belongs to a store that add_key_texts() filled first.
inline Key key_of(Value string) { return static_cast<Key>(string.index()); }

}  // namespace ashlar
