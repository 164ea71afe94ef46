// SPDX-License-Identifier: Apache-2.0
//
// Records, serializes and compares calls.
#include "symm/memory/pool_call_log.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "base/wire.h"

namespace ashlar::symm {
namespace {

uint64_t hash_with(uint64_t hash, const PoolCall& call) {
  return hash_append(hash_append(hash, static_cast<uint64_t>(call.kind)), call.argument);
}

// The recorded calls of one rank, which have the numbers `first`, `first` + 1, ...
struct Tail {
  uint64_t first = 0;
  uint64_t hash_before = 0;
  std::vector<PoolCall> calls{};

  uint64_t end() const { return first + calls.size(); }
  uint64_t hash_before_call(uint64_t number) const {
    uint64_t hash = hash_before;
    for (uint64_t i = first; i < number; ++i) hash = hash_with(hash, calls[i - first]);
    return hash;
  }
};

Result<Tail> parse(size_t rank, const std::string& bytes) {
  WireReader reader(bytes);
  Tail tail;
  tail.first = reader.number<uint64_t>();
  tail.hash_before = reader.number<uint64_t>();
  const auto count = reader.number<uint32_t>();
  for (uint32_t i = 0; i < count && i < PoolCallLog::kKeptCalls && reader.ok(); ++i) {
    const auto kind = reader.number<uint8_t>();
    const auto argument = reader.number<uint64_t>();
    if (kind > static_cast<uint8_t>(PoolCall::Kind::kTrim)) break;
    tail.calls.push_back({static_cast<PoolCall::Kind>(kind), argument});
  }
  if (!reader.is_done() || tail.calls.size() != count || tail.first > UINT64_MAX - count) {
    return Status::format(text("rank ", rank, " sent a malformed call log of its pool"));
  }
  return tail;
}

}  // namespace

std::string PoolCall::to_string() const {
  switch (kind) {
    case Kind::kAllocate: return text("allocated ", argument, " bytes");
    case Kind::kAllocateFailed: return text("ran out of memory for ", argument, " bytes");
    case Kind::kFree: return text("freed buffer ", argument);
    case Kind::kTrim: return "trimmed the pool";
  }
  return "made an unknown call";
}

PoolCallLog::State PoolCallLog::append(const PoolCall& call) {
  MutexLock lock(mutex_);
  entries_.push_back({call, hash_});
  if (entries_.size() > kKeptCalls) entries_.pop_front();
  hash_ = hash_with(hash_, call);
  return {count_++, hash_};
}

PoolCallLog::State PoolCallLog::state() const {
  MutexLock lock(mutex_);
  return {count_, hash_};
}

std::string PoolCallLog::tail_up_to(uint64_t last) const {
  MutexLock lock(mutex_);
  const uint64_t first = count_ - entries_.size();
  const uint64_t sent_count =
      last < first ? 0 : std::min<uint64_t>(last - first + 1, entries_.size());
  WireWriter writer;
  writer.append_number(first).append_number(entries_.empty() ? hash_
                                                             : entries_.front().hash_before);
  writer.append_number(static_cast<uint32_t>(sent_count));
  for (uint64_t i = 0; i < sent_count; ++i) {
    writer.append_number(static_cast<uint8_t>(entries_[i].call.kind))
        .append_number(entries_[i].call.argument);
  }
  return writer.take();
}

Result<std::string> first_difference(std::span<const std::string> tails) {
  std::vector<Tail> all;
  uint64_t begin = 0;
  uint64_t end = UINT64_MAX;
  for (size_t rank = 0; rank < tails.size(); ++rank) {
    Result<Tail> tail = parse(rank, tails[rank]);
    if (!tail.ok()) return tail.status();
    all.push_back(*std::move(tail));
    begin = std::max(begin, all.back().first);
    end = std::min(end, all.back().end());
  }
  const std::string not_recorded = text("before call ", begin, ": only the last ",
                                        PoolCallLog::kKeptCalls, " calls are recorded");
  if (begin > end) return not_recorded;
  for (const Tail& each : all) {
    if (each.hash_before_call(begin) != all[0].hash_before_call(begin)) return not_recorded;
  }
  for (uint64_t number = begin; number < end; ++number) {
    const auto call_of = [&](size_t rank) { return all[rank].calls[number - all[rank].first]; };
    bool is_same = true;
    std::string listed;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      is_same &= call_of(rank) == call_of(0);
      listed += text(rank == 0 ? "" : ", ", "rank ", rank, ' ', call_of(rank).to_string());
    }
    if (!is_same) return text("in call ", number, ": ", listed);
  }
  return std::string();
}

}  // namespace ashlar::symm
