// SPDX-License-Identifier: Apache-2.0
//
// Interns stacks by their words, and resolves them to frames with names.
#include "observe/stack_table.h"

#include <algorithm>

#include "base/host_memory.h"
#include "observe/symbols.h"

namespace ashlar {
namespace {

uint64_t hash_stack(const RawStack& stack) {
  uint64_t hash = stack.provided_count;
  for (const uint64_t word : stack.words) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29;
  }
  return hash;
}

uint32_t add_frame(SnapshotTables& tables, Frame frame, StackTable::SnapshotCache& cache) {
  const auto [entry, is_new] = cache.frames_by_content.try_emplace(
      {frame.name, frame.filename, frame.line}, static_cast<uint32_t>(tables.frames.size()));
  if (is_new) tables.frames.push_back(std::move(frame));
  return entry->second;
}

}  // namespace

StackId StackTable::intern(const RawStack& stack) {
  if (stack.words.empty()) return {};
  const uint64_t hash = hash_stack(stack);
  const auto find = [&]() ASHLAR_REQUIRES(mutex_) {
    const auto [first, last] = by_hash_.equal_range(hash);
    for (auto each = first; each != last; ++each) {
      const StoredStack& stored = *stacks_[each->second];
      const bool same = stored.provided_count == stack.provided_count &&
                        stored.provider == stack.provider &&
                        std::equal(stored.words.begin(), stored.words.end(), stack.words.begin(),
                                   stack.words.end());
      if (same) return StackId(each->second + 1);
    }
    return StackId();
  };
  {
    MutexLock lock(mutex_);
    if (const StackId known = find(); known != StackId()) return known;
  }
  // The stack is new. The provider is user code, so it is called without the lock.
  if (stack.provider != nullptr) {
    for (const uint64_t word : stack.words.first(stack.provided_count)) stack.provider->keep(word);
  }
  MutexLock lock(mutex_);
  if (const StackId known = find(); known != StackId()) return known;
  auto stored = std::make_unique<StoredStack>(
      StoredStack{{stack.words.begin(), stack.words.end()}, stack.provided_count, stack.provider});
  reserve_amortized(stacks_, stacks_.size() + 1);
  by_hash_.emplace(hash, static_cast<uint32_t>(stacks_.size()));
  stacks_.push_back(std::move(stored));
  return StackId(static_cast<uint32_t>(stacks_.size()));
}

StackId StackTable::add_to(SnapshotTables& tables, StackId stack, SnapshotCache& cache,
                           const Symbolizer& symbolizer) const {
  if (stack == StackId() || is_recorded_stack(stack)) return {};
  if (const auto known = cache.stacks.find(stack); known != cache.stacks.end()) {
    return known->second;
  }
  const StoredStack* stored = nullptr;  // immutable; lives as long as the table
  {
    MutexLock lock(mutex_);
    stored = stacks_[stack.value() - 1].get();
  }
  Stack readable;
  for (size_t i = 0; i < stored->words.size(); ++i) {
    FrameProvider* provider = i < stored->provided_count ? stored->provider.get() : nullptr;
    const auto [entry, is_new] = cache.frames.try_emplace({provider, stored->words[i]}, 0);
    if (is_new) {
      Frame frame = provider != nullptr ? provider->describe(stored->words[i])
                                        : symbolizer.describe(stored->words[i]);
      entry->second = add_frame(tables, std::move(frame), cache);
    }
    readable.frames.push_back(entry->second);
  }
  const auto [same, is_first] = cache.stacks_by_content.try_emplace(
      readable.frames, StackId(static_cast<uint32_t>(tables.stacks.size())));
  if (is_first) tables.stacks.push_back(std::move(readable));
  cache.stacks.emplace(stack, same->second);
  return same->second;
}

}  // namespace ashlar
