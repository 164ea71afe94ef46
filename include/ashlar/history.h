// SPDX-License-Identifier: Apache-2.0
//
// What an allocator remembers of its acts, and from where it was called.
//
// Off until asked for. On, each act goes into a ring of the last `max_entries`; with stacks, the
// return addresses of the caller are kept too, and turned into names only when a snapshot is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ashlar/export.h"
#include "ashlar/snapshot.h"
#include "ashlar/trace.h"

namespace ashlar {

// From where stacks are kept. Each level includes those before it.
enum class RecordContext {
  kNever,
  kState,  // for what is allocated now
  kAlloc,  // in the entries of allocations, too
  kAll,    // and for frees
};

// Frames of another language, a Python interpreter's say. Functions are called with no lock held,
// from the thread that allocates or frees, but for `describe`, which whoever takes a snapshot
// calls. None may throw.
class ASHLAR_EXPORT FrameProvider {
 public:
  virtual ~FrameProvider() = default;
  // Writes a word for each frame of the calling thread, innermost first, and says how many; cheap,
  // as it happens with each allocation.
  virtual size_t gather(std::span<uint64_t> frames) = 0;
  // The word will be asked about later: keep what it stands for. May come several times for one.
  virtual void keep(uint64_t frame) = 0;
  virtual Frame describe(uint64_t frame) = 0;
};

struct HistoryOptions {
  size_t max_entries = size_t{1} << 20;  // of the ring; 0 counts as 1
  RecordContext context = RecordContext::kNever;
  bool native_stacks = true;  // return addresses of this program
  // Frames of another language, above the native ones. Shared with the entries that name them.
  std::shared_ptr<FrameProvider> provider{};
  std::vector<TraceAction> skip_actions{};  // these never enter the ring
  bool clear = false;                       // forget what was recorded before
};

// Text that is stamped on what this thread does from here on, whatever the allocator: the innermost
// compiled region it is in, and what the program wants to say.
ASHLAR_EXPORT void push_compile_context(std::string name);
ASHLAR_EXPORT void pop_compile_context();  // without a push before it does nothing
ASHLAR_EXPORT void set_user_metadata(std::string text);
ASHLAR_EXPORT std::string user_metadata();

}  // namespace ashlar
