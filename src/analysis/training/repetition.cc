// SPDX-License-Identifier: Apache-2.0
//
// Tokens of one loop occur equally often, and between two occurrences of one token, each other
// token occurs exactly once.
#include "analysis/training/repetition.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ashlar {
namespace {

constexpr size_t kMinIterations = 3;
// Bound the time for crafted files; untuned.
constexpr size_t kMaxCounts = 16;
constexpr size_t kMaxAnchors = 8;

using EntryPositions = std::vector<uint32_t>;

// Returns whether each occurrence of `other` follows one of `anchor` and precedes the next.
bool alternate(const EntryPositions& anchor, const EntryPositions& other) {
  for (size_t i = 0; i < anchor.size(); ++i) {
    if (other[i] < anchor[i]) return false;
    if (i + 1 < anchor.size() && other[i] >= anchor[i + 1]) return false;
  }
  return true;
}

struct LoopCandidate {
  const EntryPositions* anchor = nullptr;
  size_t token_count = 0;
};

// Finds the loop with the most tokens among tokens that occur equally often. Its anchor is the
// token that begins it. Several anchors are tried, because the earliest token may not be part of
// the loop.
LoopCandidate largest_loop(std::vector<const EntryPositions*>& candidates) {
  std::sort(
      candidates.begin(), candidates.end(),
      [](const EntryPositions* a, const EntryPositions* b) { return a->front() < b->front(); });
  LoopCandidate best;
  for (size_t i = 0; i < std::min(candidates.size(), kMaxAnchors); ++i) {
    size_t count = 0;
    for (const EntryPositions* other : candidates)
      count += alternate(*candidates[i], *other) ? 1 : 0;
    if (count > best.token_count) best = {candidates[i], count};
  }
  return best;
}

}  // namespace

std::vector<uint32_t> find_repetition(const std::vector<TokenAt>& tokens) {
  std::map<uint64_t, EntryPositions> occurrences;
  for (const TokenAt& each : tokens) occurrences[each.token].push_back(each.position);

  std::map<size_t, std::vector<const EntryPositions*>> by_count;
  for (const auto& [token, positions] : occurrences) {
    if (positions.size() >= kMinIterations) by_count[positions.size()].push_back(&positions);
  }
  std::vector<std::vector<const EntryPositions*>*> largest;
  for (auto& [count, candidates] : by_count) largest.push_back(&candidates);
  std::stable_sort(largest.begin(), largest.end(),
                   [](const auto* a, const auto* b) { return a->size() > b->size(); });

  LoopCandidate best;
  for (size_t i = 0; i < std::min(largest.size(), kMaxCounts); ++i) {
    const LoopCandidate found = largest_loop(*largest[i]);
    if (found.token_count > best.token_count) best = found;
  }
  // A single repeated token is no evidence of a loop.
  return best.token_count >= 2 ? *best.anchor : EntryPositions();
}

}  // namespace ashlar
