// SPDX-License-Identifier: Apache-2.0
//
// Searches the interleavings depth first, and schedules the fibers.
#include "unit/symm/signals/explorer.h"

#include "base/check.h"

namespace ashlar::symm::testing {
namespace {

constexpr size_t kStackBytes = 128 * 1024;

// The explorer whose fiber starts next. It is a variable, because makecontext(3) passes only ints.
Explorer* starting_explorer = nullptr;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash + value + 0x632BE59BD9B4E019) * 0x9E3779B97F4A7C15;
  return hash ^ (hash >> 29);
}

}  // namespace

void ExploredMemory::yield_to_scheduler() {
  Explorer::Fiber& self = explorer_.fibers_[static_cast<size_t>(rank_)];
  ::swapcontext(&self.context, &explorer_.scheduler_);
}

void ExploredMemory::end_wait() { explorer_.fibers_[static_cast<size_t>(rank_)].first_sleep = 0; }

void ExploredMemory::add_to_history(uint64_t value) {
  Explorer::Fiber& self = explorer_.fibers_[static_cast<size_t>(rank_)];
  self.history = mix(self.history, value + 1);
}

void ExploredMemory::sleep(const uint32_t* word, uint32_t seen, std::chrono::nanoseconds) {
  Explorer::Fiber& self = explorer_.fibers_[static_cast<size_t>(rank_)];
  yield_to_scheduler();
  if (*word == seen) {
    self.asleep_on = word;
    yield_to_scheduler();
  }
  // A second sleep in the same wait loop adds no information to the state, so the history returns
  // to its value at the first sleep.
  if (self.first_sleep == 0) self.first_sleep = self.history;
  self.history = self.first_sleep;
}

void ExploredMemory::wake_all(const uint32_t* word) {
  yield_to_scheduler();
  for (Explorer::Fiber& fiber : explorer_.fibers_) {
    if (fiber.asleep_on == word) fiber.asleep_on = nullptr;
  }
}

Explorer::Findings Explorer::explore(int world_size, const std::function<Trial()>& begin) {
  Findings findings;
  fibers_.resize(static_cast<size_t>(world_size));
  for (Fiber& fiber : fibers_) fiber.stack = std::make_unique<char[]>(kStackBytes);
  do {
    switch (run_once(begin)) {
      case Outcome::kFinished: ++findings.finished_count; break;
      case Outcome::kDeadlock: ++findings.deadlock_count; break;
      case Outcome::kVisitedBefore: break;
    }
  } while (next_order());
  findings.state_count = visited_.size();
  return findings;
}

void Explorer::enter_fiber() {
  Explorer& self = *starting_explorer;
  const size_t index = self.running_fiber_;
  const int rank = static_cast<int>(index);
  ExploredMemory memory(self, rank);
  self.trial_.body(rank, memory);
  self.fibers_[index].is_done = true;
}

void Explorer::start_fibers() {
  starting_explorer = this;
  for (Fiber& fiber : fibers_) {
    ASHLAR_CHECK(::getcontext(&fiber.context) == 0);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = &scheduler_;
    fiber.history = 0;
    fiber.first_sleep = 0;
    fiber.asleep_on = nullptr;
    fiber.is_done = false;
    ::makecontext(&fiber.context, &Explorer::enter_fiber, 0);
  }
}

Explorer::Outcome Explorer::run_once(const std::function<Trial()>& begin) {
  trial_ = begin();
  start_fibers();
  for (size_t depth = 0;; ++depth) {
    const std::vector<size_t> ready = ready_fibers();
    if (ready.empty()) {
      for (const Fiber& fiber : fibers_) {
        if (!fiber.is_done) return Outcome::kDeadlock;
      }
      return Outcome::kFinished;
    }
    if (depth == choices_.size()) {
      if (!visited_.insert(state_key()).second) return Outcome::kVisitedBefore;
      choices_.push_back({.index = 0, .count = ready.size()});
    }
    running_fiber_ = ready[choices_[depth].index];
    fibers_[running_fiber_].history = mix(fibers_[running_fiber_].history, 0);  // one step
    ::swapcontext(&scheduler_, &fibers_[running_fiber_].context);
  }
}

std::vector<size_t> Explorer::ready_fibers() const {
  std::vector<size_t> ready;
  for (size_t i = 0; i < fibers_.size(); ++i) {
    if (!fibers_[i].is_done && fibers_[i].asleep_on == nullptr) ready.push_back(i);
  }
  return ready;
}

uint64_t Explorer::state_key() const {
  uint64_t key = std::hash<std::string>()(trial_.contents());
  for (const Fiber& fiber : fibers_) {
    key = mix(key, fiber.history);
    key = mix(key, fiber.asleep_on == nullptr ? 0 : 1);
  }
  return key;
}

// Backtracks to the last choice that has an unexplored alternative.
bool Explorer::next_order() {
  while (!choices_.empty() && choices_.back().index + 1 == choices_.back().count) {
    choices_.pop_back();
  }
  if (choices_.empty()) return false;
  ++choices_.back().index;
  return true;
}

}  // namespace ashlar::symm::testing
