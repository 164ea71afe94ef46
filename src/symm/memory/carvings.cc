// SPDX-License-Identifier: Apache-2.0
//
// Finding by offset; a carving that is gone has met nobody.
#include "symm/memory/carvings.h"

#include <algorithm>
#include <iterator>

namespace ashlar::symm {

void Carvings::add(const Carving& carving) {
  auto made = std::make_shared<const Carving>(carving);
  MutexLock lock(mutex_);
  entries_.emplace(carving.offset, Entry{std::move(made), {}});
}

void Carvings::remove(size_t offset) {
  MutexLock lock(mutex_);
  entries_.erase(offset);
}

std::shared_ptr<const Carving> Carvings::find(size_t offset) const {
  MutexLock lock(mutex_);
  const auto after = entries_.upper_bound(offset);
  if (after == entries_.begin()) return nullptr;
  const std::shared_ptr<const Carving>& found = std::prev(after)->second.carving;
  const bool is_inside = offset - found->offset < std::max<size_t>(found->bytes, 1);
  return is_inside ? found : nullptr;
}

bool Carvings::has_met(const Carving& carving, const Token& group) const {
  MutexLock lock(mutex_);
  const auto found = entries_.find(carving.offset);
  return found != entries_.end() && found->second.carving->ordinal == carving.ordinal &&
         found->second.met.contains(group);
}

void Carvings::keep_met(const Carving& carving, const Token& group) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(carving.offset);
  if (found == entries_.end() || found->second.carving->ordinal != carving.ordinal) return;
  found->second.met.insert(group);
}

void Carvings::forget_group(const Token& group) {
  MutexLock lock(mutex_);
  for (auto& [offset, entry] : entries_) entry.met.erase(group);
}

}  // namespace ashlar::symm
