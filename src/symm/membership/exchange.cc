// SPDX-License-Identifier: Apache-2.0
//
// A rank that completes exchange n has seen that all ranks entered it, and thus that all ranks
// completed exchange n - 1. No other rank reads its key of exchange n - 1 any more, so it erases
// the key.
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
constexpr nanoseconds kMinExchangePollInterval = std::chrono::microseconds(50);
constexpr nanoseconds kMaxExchangePollInterval = std::chrono::milliseconds(5);

}  // namespace

Exchange::Exchange(std::shared_ptr<Store> store, FailureRecord& failure_record, Options options)
    : store_(std::move(store)), failure_record_(failure_record), options_(std::move(options)) {}

Result<std::vector<std::string>> Exchange::all_gather(std::string_view bytes, Deadline deadline) {
  return all_gather(bytes, options_.key_ttl, deadline);
}

Result<std::vector<std::string>> Exchange::all_gather(std::string_view bytes,
                                                      std::chrono::milliseconds key_ttl,
                                                      Deadline deadline) {
  if (failure_record_.failure().has_happened())
    return failure_record_.publish(failure_record_.failure().reason());
  const RankInfo& rank_info = options_.rank_info;
  WireWriter writer;
  writer.append_number(kExchangeMagic).append_number(kExchangeVersion).append_number(sequence_);
  writer.append_number(rank_info.rank).append_number(rank_info.world_size).append_text(bytes);
  Result<std::vector<std::string>> records = gather(writer.take(), key_ttl, deadline);
  if (!records.ok()) {
    return failure_record_.publish(records.status(),
                                   has_lost_store_ ? kTimeoutAfterStoreLoss : kPublishTimeout);
  }
  for (int rank = 0; rank < rank_info.world_size; ++rank) {
    Result<std::string> value = parse_record(rank, (*records)[rank]);
    if (!value.ok()) return failure_record_.publish(value.status());
    (*records)[rank] = *std::move(value);
  }
  if (sequence_ > 0) (void)store_->erase(key(sequence_ - 1, rank_info.rank), deadline).ok();
  failure_record_.set_completed_exchanges(++sequence_);
  return records;
}

Status Exchange::barrier(Deadline deadline) { return all_gather({}, deadline).status(); }

Status Exchange::agree(const Status& own, Deadline deadline) {
  const Result<std::vector<std::string>> all = all_gather(to_bytes(own), deadline);
  if (!all.ok()) return all.status();
  std::string errors;
  Status first;
  for (int rank = 0; rank < options_.rank_info.world_size; ++rank) {
    const Status each = parse_status((*all)[rank]);
    if (each.ok()) continue;
    if (first.ok()) first = each;
    errors += text(errors.empty() ? "" : "; ", "rank ", rank, ": ", each.message());
  }
  if (first.ok()) return {};
  return make_status(first.kind(), std::move(errors));
}

// The last rank to pass the final barrier erases the keys of all ranks. If a rank dies before it
// passes the barrier, no rank erases the keys, so every rank first gives its keys a short time to
// live. If this rank's key expires while the rank still waits, `gather` sets the key again.
Status Exchange::finish(Deadline deadline) {
  if (sequence_ > 0 && !failure_record_.failure().has_happened()) {
    expire_keys(*store_, {{key(sequence_ - 1, options_.rank_info.rank)}}, options_.failure_ttl,
                deadline);
  }
  const auto gathered = all_gather({}, options_.failure_ttl, deadline);
  if (!gathered.ok()) return gathered.status();
  const std::string departures_key = options_.prefix + "/gone";
  const Result<int64_t> departed = store_->add(departures_key, 1, options_.failure_ttl, deadline);
  if (!departed.ok()) return departed.status();
  if (*departed < options_.rank_info.world_size) return {};
  Status result;
  for (int rank = 0; rank < options_.rank_info.world_size; ++rank) {
    const Result<bool> erased = store_->erase(key(sequence_ - 1, rank), deadline);
    if (!erased.ok() && result.ok()) result = erased.status();
  }
  const Result<bool> erased = store_->erase(departures_key, deadline);
  return result.ok() ? erased.status() : result;
}

// The other ranks are at most one exchange ahead or behind, and each has keys of its current and of
// its previous exchange. Keys of exchanges `sequence_` - 2 to `sequence_` + 1 may therefore exist.
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

// Publishes this rank's record and waits for the records of all ranks. Also reads this rank's own
// record, to publish it again if a restarted store has lost it.
Result<std::vector<std::string>> Exchange::gather(const std::string& own_record,
                                                  std::chrono::milliseconds key_ttl,
                                                  Deadline deadline) {
  const RankInfo& rank_info = options_.rank_info;
  std::vector<std::string> records(rank_info.world_size);
  std::vector<int> missing;
  for (int rank = 0; rank < rank_info.world_size; ++rank) {
    if (rank != rank_info.rank) missing.push_back(rank);
  }
  records[rank_info.rank] = own_record;
  const std::string own_key = key(sequence_, rank_info.rank);
  bool is_set = false;
  nanoseconds pause = kMinExchangePollInterval;
  const auto set_own = [&] {
    return store_->set(own_key, own_record, key_ttl, allow_final_attempt(deadline));
  };
  for (;;) {
    if (!is_set) {
      if (Status set = set_own(); !set.ok()) return handle_store_loss(set);
    }
    // The failure and the deadline are checked before the store is read, so that a rank that
    // publishes its record and then fails, or publishes it just before the deadline, still counts
    // as having entered.
    const bool has_failed = failure_record_.failure().has_happened();
    const bool is_late = deadline.has_passed();
    std::vector<std::string> keys = {own_key, failure_record_.key()};
    for (int rank : missing) keys.push_back(key(sequence_, rank));
    Result<std::vector<std::optional<std::string>>> found =
        checked_try_get(*store_, keys, allow_final_attempt(deadline));
    if (!found.ok()) return handle_store_loss(found.status());
    is_set = (*found)[0].has_value();
    std::vector<int> still_missing;
    for (size_t i = 0; i < missing.size(); ++i) {
      std::optional<std::string>& record = (*found)[i + 2];
      if (!record) still_missing.push_back(missing[i]);
      if (record) records[missing[i]] = *std::move(record);
    }
    missing.swap(still_missing);
    const std::optional<std::string>& failure_record = (*found)[1];
    const bool has_failed_before =
        failure_record && !FailureRecord::is_after_exchange(*failure_record, sequence_);
    if (missing.empty() && !has_failed_before) {
      // If this rank's record was just lost, or has a short time to live, sets the record again,
      // because other ranks may not have read it.
      const bool is_stable = is_set && key_ttl == options_.key_ttl;
      if (Status set = is_stable ? Status() : set_own(); !set.ok()) return handle_store_loss(set);
      return records;
    }
    if (failure_record) return failure_record_.adopt(*failure_record);
    if (has_failed) return failure_record_.failure().reason();
    if (is_late) return missing_ranks_error(missing);
    std::this_thread::sleep_for(std::min(pause, deadline.left()));
    pause = std::min(2 * pause, kMaxExchangePollInterval);
  }
}

Result<std::string> Exchange::parse_record(int rank, std::string_view record) const {
  WireReader reader(record);
  const bool has_head = reader.number<uint32_t>() == kExchangeMagic;
  const auto version = reader.number<uint16_t>();
  const auto sequence = reader.number<uint64_t>();
  const int record_rank = reader.number<int>();
  const int record_world_size = reader.number<int>();
  const std::string_view value = reader.text(Store::kMaxValueBytes);
  if (has_head && version != kExchangeVersion) {
    return Status::format(text("rank ", rank, " of group ", options_.group, " uses version ",
                               version, " of the exchange protocol, expected ", kExchangeVersion,
                               ": use one version of Ashlar on all ranks"));
  }
  const bool is_expected = sequence == sequence_ && record_rank == rank &&
                           record_world_size == options_.rank_info.world_size && reader.is_done();
  if (!has_head || !is_expected) {
    return Status::format(text("rank ", rank, " of group ", options_.group,
                               " published a malformed record of ", record.size(),
                               " bytes in exchange ", sequence_));
  }
  return std::string(value);
}

// Sets has_lost_store_, and returns an error that names this rank, because other ranks may read
// the error.
Status Exchange::handle_store_loss(const Status& status) {
  has_lost_store_ = true;
  return make_status(status.kind(), text("rank ", options_.rank_info.rank, " of group ",
                                         options_.group, " lost the store: ", status.message()));
}

Status Exchange::missing_ranks_error(const std::vector<int>& ranks) const {
  return Status::timeout(text(name_ranks(ranks), " of group ", options_.group,
                              " did not reach exchange ", sequence_, " before the deadline"));
}

}  // namespace ashlar::symm
