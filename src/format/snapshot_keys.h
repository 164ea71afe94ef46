// SPDX-License-Identifier: Apache-2.0
//
// The words of the snapshot schema (docs/formats/snapshot.md), PyTorch's and our own, as numbers:
// readers give them to a fresh ValueStore first, so that comparing a key is comparing a number.
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
  // Words that stand as values.
  kNotAvailable,
  kNothing,
  kLarge,
  kSmall,
  kActiveAllocated,
  kActivePendingFree,
  kActiveAwaitingFree,
  kInactive,
  // The acts, in the order of TraceAction.
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
  kFree,         // of files from before frees had two acts
  kUserDefined,  // of files from before annotations
  kCount,
};

// "action", "active_size", and so on: as they stand in files.
std::string_view word(Key key);

// REQUIRES: the store is empty, and may hold a few KiB.
void add_words(ValueStore& store);

// REQUIRES: a string of a store with the words. Anything >= Key::kCount is another word.
inline Key key_of(Value string) { return static_cast<Key>(string.index()); }

}  // namespace ashlar
