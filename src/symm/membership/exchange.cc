// SPDX-License-Identifier: Apache-2.0
//
// A rank that got through exchange n has seen that all ranks entered it, and so that all got
// through n - 1: nobody looks at its key of that one any more, and it goes.
#include "symm/membership/exchange.h"

#include <algorithm>
#include <thread>

#include "base/text.h"
#include "base/wire.h"
#include "symm/stores/store_helpers.h"

namespace ashlar::symm {
namespace {

using std::chrono::nanoseconds;

constexpr uint32_t kExchangeMagic = 0x78687361;  // "ashx"
constexpr uint16_t kExchangeVersion = 1;
constexpr nanoseconds kFirstExchangeRest = std::chrono::microseconds(50);
constexpr nanoseconds kLongestExchangeRest = std::chrono::milliseconds(5);

}  // namespace

Exchange::Exchange(std::shared_ptr<Store> store, FailureRecord& failure_record, Options options)
    : store_(std::move(store)), failure_record_(failure_record), options_(std::move(options)) {}

Result<std::vector<std::string>> Exchange::all_gather(std::string_view bytes, Deadline deadline) {
  return all_gather(bytes, options_.key_ttl, deadline);
}

Result<std::vector<std::string>> Exchange::all_gather(std::string_view bytes,
                                                      std::chrono::milliseconds life,
                                                      Deadline deadline) {
  if (failure_record_.failure().has_happened())
    return failure_record_.publish(failure_record_.failure().reason());
  const RankInfo& rank_info = options_.rank_info;
  WireWriter writer;
  writer.number(kExchangeMagic).number(kExchangeVersion).number(sequence_);
  writer.number(rank_info.rank).number(rank_info.world_size).text(bytes);
  Result<std::vector<std::string>> records = gather(writer.take(), life, deadline);
  if (!records.ok()) {
    return failure_record_.publish(records.status(),
                                   has_lost_store_ ? kLostStoreTimeout : kPublishTimeout);
  }
  for (int rank = 0; rank < rank_info.world_size; ++rank) {
    Result<std::string> given = checked(rank, (*records)[rank]);
    if (!given.ok()) return failure_record_.publish(given.status());
    (*records)[rank] = *std::move(given);
  }
  if (sequence_ > 0) (void)store_->erase(key(sequence_ - 1, rank_info.rank), deadline).ok();
  failure_record_.set_completed_exchanges(++sequence_);
  return records;
}

Status Exchange::barrier(Deadline deadline) { return all_gather({}, deadline).status(); }

Status Exchange::agree(const Status& own, Deadline deadline) {
  const Result<std::vector<std::string>> all = all_gather(to_bytes(own), deadline);
  if (!all.ok()) return all.status();
  std::string said;
  Status first;
  for (int rank = 0; rank < options_.rank_info.world_size; ++rank) {
    const Status each = parse_status((*all)[rank]);
    if (each.ok()) continue;
    if (first.ok()) first = each;
    said += text(said.empty() ? "" : "; ", "rank ", rank, ": ", each.message());
  }
  if (first.ok()) return {};
  return make_status(first.kind(), std::move(said));
}

// Whoever comes last through the closing barrier clears away the keys of all. One that dies on its
// way keeps anybody from being the last, so that from the first step on nothing of a rank lives
// long: what it gives to the barrier is given again if it ends while others are waited for.
Status Exchange::finish(Deadline deadline) {
  if (sequence_ > 0 && !failure_record_.failure().has_happened()) {
    expire_keys(*store_, {{key(sequence_ - 1, options_.rank_info.rank)}}, options_.failure_ttl,
                deadline);
  }
  const auto met = all_gather({}, options_.failure_ttl, deadline);
  if (!met.ok()) return met.status();
  const std::string gone = options_.prefix + "/gone";
  const Result<int64_t> place = store_->add(gone, 1, options_.failure_ttl, deadline);
  if (!place.ok()) return place.status();
  if (*place < options_.rank_info.world_size) return {};
  Status cleared;
  for (int rank = 0; rank < options_.rank_info.world_size; ++rank) {
    const Result<bool> erased = store_->erase(key(sequence_ - 1, rank), deadline);
    if (!erased.ok() && cleared.ok()) cleared = erased.status();
  }
  const Result<bool> erased = store_->erase(gone, deadline);
  return cleared.ok() ? erased.status() : cleared;
}

// Others are at most one exchange ahead or behind, and each has records of the one that it is in
// and of the one before.
void Exchange::abandon(std::span<const int> ranks, Deadline deadline) {
  std::vector<std::string> keys;
  const uint64_t oldest = sequence_ - std::min<uint64_t>(sequence_, 2);
  for (uint64_t sequence = oldest; sequence <= sequence_ + 1; ++sequence) {
    for (const int rank : ranks) keys.push_back(key(sequence, rank));
  }
  expire_keys(*store_, keys, options_.failure_ttl, deadline);
}

std::string Exchange::key(uint64_t sequence, int rank) const {
  return text(options_.prefix, '/', sequence, '/', rank);
}

// Our own record is looked for, too: a store that was restarted has forgotten it.
Result<std::vector<std::string>> Exchange::gather(const std::string& own_record,
                                                  std::chrono::milliseconds life,
                                                  Deadline deadline) {
  const RankInfo& rank_info = options_.rank_info;
  std::vector<std::string> records(rank_info.world_size);
  std::vector<int> waited_for;
  for (int rank = 0; rank < rank_info.world_size; ++rank) {
    if (rank != rank_info.rank) waited_for.push_back(rank);
  }
  records[rank_info.rank] = own_record;
  const std::string own_key = key(sequence_, rank_info.rank);
  bool is_set = false;
  nanoseconds pause = kFirstExchangeRest;
  const auto set_own = [&] {
    return store_->set(own_key, own_record, life, allow_final_attempt(deadline));
  };
  for (;;) {
    if (!is_set) {
      if (Status set = set_own(); !set.ok()) return own_trouble(set);
    }
    // Asked before looking: one that came and then failed has come.
    const bool has_failed = failure_record_.failure().has_happened();
    const bool is_late = deadline.has_passed();
    std::vector<std::string> keys = {own_key, failure_record_.key()};
    for (int rank : waited_for) keys.push_back(key(sequence_, rank));
    Result<std::vector<std::optional<std::string>>> found =
        checked_try_get(*store_, keys, allow_final_attempt(deadline));
    if (!found.ok()) return own_trouble(found.status());
    is_set = (*found)[0].has_value();
    std::vector<int> still;
    for (size_t i = 0; i < waited_for.size(); ++i) {
      std::optional<std::string>& record = (*found)[i + 2];
      if (!record) still.push_back(waited_for[i]);
      if (record) records[waited_for[i]] = *std::move(record);
    }
    waited_for.swap(still);
    const std::optional<std::string>& failure_record = (*found)[1];
    const bool is_over =
        failure_record && !FailureRecord::is_after_exchange(*failure_record, sequence_);
    if (waited_for.empty() && !is_over) {
      // Forgotten only now, or about to be over: not all others need have seen it.
      const bool is_lasting = is_set && life == options_.key_ttl;
      if (Status set = is_lasting ? Status() : set_own(); !set.ok()) return own_trouble(set);
      return records;
    }
    if (failure_record) return failure_record_.adopt(*failure_record);
    if (has_failed) return failure_record_.failure().reason();
    if (is_late) return missing(waited_for);
    std::this_thread::sleep_for(std::min(pause, deadline.left()));
    pause = std::min(2 * pause, kLongestExchangeRest);
  }
}

Result<std::string> Exchange::checked(int rank, std::string_view record) const {
  WireReader reader(record);
  const bool has_head = reader.number<uint32_t>() == kExchangeMagic;
  const auto version = reader.number<uint16_t>();
  const auto sequence = reader.number<uint64_t>();
  const int its_rank = reader.number<int>();
  const int its_world_size = reader.number<int>();
  const std::string_view given = reader.text(Store::kMostValueBytes);
  if (has_head && version != kExchangeVersion) {
    return Status::format(text("rank ", rank, " of group ", options_.group, " speaks version ",
                               version, " of the exchange, expected ", kExchangeVersion,
                               ": use one version of Ashlar on all ranks"));
  }
  const bool is_right = sequence == sequence_ && its_rank == rank &&
                        its_world_size == options_.rank_info.world_size && reader.is_done();
  if (!has_head || !is_right) {
    return Status::format(text("what rank ", rank, " of group ", options_.group,
                               " gave to exchange ", sequence_, " is unreadable: ", record.size(),
                               " bytes"));
  }
  return std::string(given);
}

// The others are going to read it, too.
Status Exchange::own_trouble(const Status& status) {
  has_lost_store_ = true;
  return make_status(status.kind(), text("rank ", options_.rank_info.rank, " of group ",
                                         options_.group, " lost the store: ", status.message()));
}

Status Exchange::missing(const std::vector<int>& ranks) const {
  return Status::timeout(text(name_ranks(ranks), " of group ", options_.group,
                              " did not come to exchange ", sequence_, " before the deadline"));
}

}  // namespace ashlar::symm
