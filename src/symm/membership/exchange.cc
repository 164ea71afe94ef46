// SPDX-License-Identifier: Apache-2.0
//
// A rank that got through exchange n has seen that all ranks entered it, and so that all got
// through n - 1: nobody looks at its key of that one any more, and it goes.
#include "symm/membership/exchange.h"

#include <algorithm>
#include <thread>

#include "base/text.h"
#include "base/wire.h"
#include "symm/stores/checked_look.h"
#include "symm/stores/expiry.h"

namespace ashlar::symm {
namespace {

using std::chrono::nanoseconds;

constexpr uint32_t kExchangeMagic = 0x78687361;  // "ashx"
constexpr uint16_t kExchangeVersion = 1;
constexpr nanoseconds kFirstExchangeRest = std::chrono::microseconds(50);
constexpr nanoseconds kLongestExchangeRest = std::chrono::milliseconds(5);

}  // namespace

Exchange::Exchange(std::shared_ptr<Store> store, Verdict& verdict, Options options)
    : store_(std::move(store)), verdict_(verdict), options_(std::move(options)) {}

Result<std::vector<std::string>> Exchange::all_gather(std::string_view bytes, Deadline deadline) {
  return all_gather(bytes, options_.key_life, deadline);
}

Result<std::vector<std::string>> Exchange::all_gather(std::string_view bytes,
                                                      std::chrono::milliseconds life,
                                                      Deadline deadline) {
  if (verdict_.failure().has_happened()) return verdict_.announce(verdict_.failure().reason());
  const Seat& seat = options_.seat;
  WireWriter writer;
  writer.number(kExchangeMagic).number(kExchangeVersion).number(sequence_);
  writer.number(seat.rank).number(seat.world_size).text(bytes);
  Result<std::vector<std::string>> records = gather(writer.take(), life, deadline);
  if (!records.ok()) {
    return verdict_.announce(records.status(),
                             has_lost_store_ ? kLostStorePatience : kTellingPatience);
  }
  for (int rank = 0; rank < seat.world_size; ++rank) {
    Result<std::string> given = checked(rank, (*records)[rank]);
    if (!given.ok()) return verdict_.announce(given.status());
    (*records)[rank] = *std::move(given);
  }
  if (sequence_ > 0) (void)store_->erase(key(sequence_ - 1, seat.rank), deadline).ok();
  verdict_.note_passed(++sequence_);
  return records;
}

Status Exchange::barrier(Deadline deadline) { return all_gather({}, deadline).status(); }

Status Exchange::agree(const Status& own, Deadline deadline) {
  const Result<std::vector<std::string>> all = all_gather(to_bytes(own), deadline);
  if (!all.ok()) return all.status();
  std::string said;
  Status first;
  for (int rank = 0; rank < options_.seat.world_size; ++rank) {
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
  if (sequence_ > 0 && !verdict_.failure().has_happened()) {
    fade(*store_, {{key(sequence_ - 1, options_.seat.rank)}}, options_.parting_life, deadline);
  }
  const auto met = all_gather({}, options_.parting_life, deadline);
  if (!met.ok()) return met.status();
  const std::string gone = options_.prefix + "/gone";
  const Result<int64_t> place = store_->add(gone, 1, options_.parting_life, deadline);
  if (!place.ok()) return place.status();
  if (*place < options_.seat.world_size) return {};
  Status cleared;
  for (int rank = 0; rank < options_.seat.world_size; ++rank) {
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
  fade(*store_, keys, options_.parting_life, deadline);
}

std::string Exchange::key(uint64_t sequence, int rank) const {
  return text(options_.prefix, '/', sequence, '/', rank);
}

// Our own record is looked for, too: a store that was restarted has forgotten it.
Result<std::vector<std::string>> Exchange::gather(const std::string& own_record,
                                                  std::chrono::milliseconds life,
                                                  Deadline deadline) {
  const Seat& seat = options_.seat;
  std::vector<std::string> records(seat.world_size);
  std::vector<int> waited_for;
  for (int rank = 0; rank < seat.world_size; ++rank) {
    if (rank != seat.rank) waited_for.push_back(rank);
  }
  records[seat.rank] = own_record;
  const std::string own_key = key(sequence_, seat.rank);
  bool is_set = false;
  nanoseconds pause = kFirstExchangeRest;
  const auto set_own = [&] {
    return store_->set(own_key, own_record, life, with_a_last_look(deadline));
  };
  for (;;) {
    if (!is_set) {
      if (Status set = set_own(); !set.ok()) return own_trouble(set);
    }
    // Asked before looking: one that came and then failed has come.
    const bool has_failed = verdict_.failure().has_happened();
    const bool is_late = deadline.has_passed();
    std::vector<std::string> keys = {own_key, verdict_.key()};
    for (int rank : waited_for) keys.push_back(key(sequence_, rank));
    Result<std::vector<std::optional<std::string>>> found =
        checked_look(*store_, keys, with_a_last_look(deadline));
    if (!found.ok()) return own_trouble(found.status());
    is_set = (*found)[0].has_value();
    std::vector<int> still;
    for (size_t i = 0; i < waited_for.size(); ++i) {
      std::optional<std::string>& record = (*found)[i + 2];
      if (!record) still.push_back(waited_for[i]);
      if (record) records[waited_for[i]] = *std::move(record);
    }
    waited_for.swap(still);
    const std::optional<std::string>& verdict = (*found)[1];
    const bool is_over = verdict && !Verdict::has_passed(*verdict, sequence_);
    if (waited_for.empty() && !is_over) {
      // Forgotten only now, or about to be over: not all others need have seen it.
      const bool is_lasting = is_set && life == options_.key_life;
      if (Status set = is_lasting ? Status() : set_own(); !set.ok()) return own_trouble(set);
      return records;
    }
    if (verdict) return verdict_.adopt(*verdict);
    if (has_failed) return verdict_.failure().reason();
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
                        its_world_size == options_.seat.world_size && reader.is_done();
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
  return make_status(status.kind(), text("rank ", options_.seat.rank, " of group ", options_.group,
                                         " lost the store: ", status.message()));
}

Status Exchange::missing(const std::vector<int>& ranks) const {
  return Status::timeout(text(name_ranks(ranks), " of group ", options_.group,
                              " did not come to exchange ", sequence_, " before the deadline"));
}

}  // namespace ashlar::symm
