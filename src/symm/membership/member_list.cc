// SPDX-License-Identifier: Apache-2.0
//
// Publishes the join record, reads those of the other ranks, and confirms the set that was read.
#include "symm/membership/member_list.h"

#include <algorithm>
#include <thread>

#include "base/text.h"
#include "base/wire.h"
#include "symm/channel/channel_message.h"
#include "symm/core/hash.h"
#include "symm/membership/failure_record.h"
#include "symm/stores/store_helpers.h"
#include "symm/transports/transport.h"

namespace ashlar::symm {
namespace {

using std::chrono::nanoseconds;

constexpr uint32_t kJoinMagic = 0x6a687361;        // "ashj"
constexpr uint32_t kWithdrawalMagic = 0x67687361;  // "ashg"
constexpr uint16_t kJoinVersion = 6;
constexpr size_t kMaxHandleReasonBytes = 1024;
constexpr nanoseconds kMinJoinPollInterval = std::chrono::microseconds(100);
constexpr nanoseconds kMaxJoinPollInterval = std::chrono::milliseconds(10);

template <size_t N>
std::string_view view_of(const std::array<uint8_t, N>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), N};
}

template <size_t N>
void read_into(WireReader& reader, std::array<uint8_t, N>& bytes) {
  const std::string_view from = reader.raw(N);
  std::copy(from.begin(), from.end(), bytes.begin());
}

std::string join_key(const MemberListOptions& options, int rank) {
  return text(options.prefix, "/join/", rank);
}

std::string group_prefix(const MemberListOptions& options, const Token& token) {
  return text(options.prefix, '/', to_hex(token));
}

std::string presence_key(const MemberListOptions& options, const Token& token, int rank) {
  return text(group_prefix(options, token), "/here/", rank);
}

// Replaces the join record of a rank that gives up before it has confirmed a set. Contains the
// reason why the rank gives up, for peers that have read its record.
struct WithdrawalNotice {
  Token attempt{};
  Status reason{};
};

std::string serialize_withdrawal(const WithdrawalNotice& withdrawal) {
  WireWriter writer;
  return writer.append_number(kWithdrawalMagic)
      .append_raw(view_of(withdrawal.attempt))
      .append_raw(to_bytes(withdrawal.reason))
      .take();
}

std::optional<WithdrawalNotice> parse_withdrawal(std::string_view bytes) {
  WireReader reader(bytes);
  WithdrawalNotice withdrawal;
  const bool has_magic = reader.number<uint32_t>() == kWithdrawalMagic;
  read_into(reader, withdrawal.attempt);
  const size_t head_bytes = sizeof(uint32_t) + withdrawal.attempt.size();
  if (!has_magic || bytes.size() < head_bytes) return std::nullopt;
  withdrawal.reason = parse_status(bytes.substr(head_bytes));
  return withdrawal;
}

// Derives the group's token from the records of all ranks.
Token token_of(const std::vector<std::string>& records) {
  Token token{};
  uint64_t halves[2] = {kHashSeed, hash_append(kHashSeed, "second half")};
  for (const std::string& record : records) {
    for (uint64_t& half : halves) half = hash_append(hash_append(half, record.size()), record);
  }
  for (size_t i = 0; i < token.size(); ++i) {
    token[i] = static_cast<uint8_t>(halves[i / 8] >> (8 * (i % 8)));
  }
  return token;
}

// One attempt to join. `records_` holds the latest record of each rank, or an empty string if no
// record of the rank has been read yet.
class JoinAttempt {
 public:
  JoinAttempt(Store& store, const MemberListOptions& options, const JoinRecord& own)
      : store_(store),
        options_(options),
        rank_info_(own.rank_info),
        attempt_(own.attempt),
        own_bytes_(to_bytes(own)),
        records_(static_cast<size_t>(rank_info_.world_size)) {}

  Result<MemberList> run(Deadline deadline) {
    nanoseconds pause = kMinJoinPollInterval;
    for (;;) {
      std::vector<int> missing;
      const bool is_late = deadline.has_passed();
      const Deadline read_deadline = allow_final_attempt(deadline);
      if (Status read = read_records(missing, read_deadline); !read.ok())
        return handle_store_loss(read);
      if (missing.empty()) {
        if (Status confirmed = confirm(missing, read_deadline); !confirmed.ok())
          return handle_store_loss(confirmed);
      }
      if (missing.empty()) return member_list();
      if (is_late) return give_up(missing);
      std::this_thread::sleep_for(std::min(pause, deadline.left()));
      pause = std::min(2 * pause, kMaxJoinPollInterval);
    }
  }

 private:
  // Publishes this rank's record, reads those of the other ranks, and appends the ranks without a
  // record to `missing`. A malformed record is ignored, because its rank will overwrite it. If a
  // record disappears, the copy that was read before is kept: its rank may have completed the list
  // and erased the record.
  Status read_records(std::vector<int>& missing, Deadline deadline) {
    std::vector<std::string> keys;
    for (int rank = 0; rank < rank_info_.world_size; ++rank)
      keys.push_back(join_key(options_, rank));
    Result<std::vector<std::optional<std::string>>> found = checked_try_get(store_, keys, deadline);
    if (!found.ok()) return found.status();
    for (int rank = 0; rank < rank_info_.world_size; ++rank) {
      std::optional<std::string>& record = (*found)[rank];
      if (rank == rank_info_.rank) {
        if (record != own_bytes_) {
          has_rank_conflict_ |= record && !records_[rank].empty();
          Status set = store_.set(keys[rank], own_bytes_, options_.key_ttl, deadline);
          if (!set.ok()) return set;
        }
        records_[rank] = own_bytes_;
        continue;
      }
      const Result<JoinRecord> parsed =
          record ? parse_join_record(*record) : Result<JoinRecord>(Status::format("none"));
      const bool is_valid = parsed.ok() && parsed->rank_info.rank == rank &&
                            parsed->rank_info.world_size == rank_info_.world_size;
      if (!is_valid && record) record_withdrawal(rank, *record);
      if (is_valid && *record != records_[rank]) {
        if (!records_[rank].empty()) withdrawal_reason_ = {};  // the rank has joined again
        records_[rank] = *std::move(record);
      }
      if (records_[rank].empty()) missing.push_back(rank);
    }
    return {};
  }

  // Sets `withdrawal_reason_` if a rank whose record was read has given up.
  void record_withdrawal(int rank, std::string_view bytes) {
    if (records_[rank].empty() || !withdrawal_reason_.ok()) return;
    const std::optional<WithdrawalNotice> withdrawal = parse_withdrawal(bytes);
    const bool is_latest_attempt =
        withdrawal && withdrawal->attempt == parse_join_record(records_[rank])->attempt;
    if (is_latest_attempt) withdrawal_reason_ = withdrawal->reason;
  }

  // Returns the record in which ranks that have confirmed the same set publish why they give up.
  FailureRecord failure_record() const {
    const std::shared_ptr<Store> borrowed(std::shared_ptr<Store>(), &store_);
    return FailureRecord(borrowed, group_prefix(options_, token_), std::make_shared<Failure>(),
                         options_.failure_ttl);
  }

  // Confirms the set of records, and appends the ranks that have not confirmed it to `missing`.
  Status confirm(std::vector<int>& missing, Deadline deadline) {
    const Token token = token_of(records_);
    if (token != token_) {
      erase_presence(deadline);
      token_ = token;
    }
    std::vector<std::string> keys;
    for (int rank = 0; rank < rank_info_.world_size; ++rank) {
      keys.push_back(presence_key(options_, token_, rank));
    }
    keys.push_back(failure_record().key());
    const Result<std::vector<std::optional<std::string>>> found =
        checked_try_get(store_, keys, deadline);
    if (!found.ok()) return found.status();
    for (int rank = 0; rank < rank_info_.world_size; ++rank) {
      if (!(*found)[rank]) missing.push_back(rank);
    }
    if (withdrawal_reason_.ok() && found->back())
      withdrawal_reason_ = FailureRecord::parse_reason(*found->back());
    if ((*found)[rank_info_.rank]) return {};
    return store_.set(keys[rank_info_.rank], "here", options_.key_ttl, deadline);
  }

  void erase_presence(Deadline deadline) {
    if (token_ == Token{}) return;
    (void)store_.erase(presence_key(options_, token_, rank_info_.rank), deadline).ok();
  }

  Status timeout_error(const std::vector<int>& missing) const {
    return Status::timeout(
        text(name_ranks(missing), " of group ", options_.group, " did not join before the deadline",
             has_rank_conflict_ ? text("; another process joined as rank ", rank_info_.rank,
                                       ": give each process its own rank")
                                : std::string()));
  }

  // Erases the records of ranks that never confirmed, which may be left over from a crash. A rank
  // that is merely late publishes its record again.
  void erase_stale_records(const std::vector<int>& missing, Deadline deadline) {
    for (const int rank : missing) {
      if (records_[rank].empty()) continue;
      (void)store_.erase(join_key(options_, rank), deadline).ok();
    }
  }

  // Publishes the reason before it erases this rank's keys. In the reverse order, the other ranks
  // would report this rank as missing.
  Status give_up(const std::vector<int>& missing) {
    const std::chrono::milliseconds timeout{1000};
    const Deadline deadline = Deadline::after(timeout);
    const std::string own_key = join_key(options_, rank_info_.rank);
    const bool has_confirmed = token_ != Token{};
    Status reason = withdrawal_reason_.ok() ? timeout_error(missing) : withdrawal_reason_;
    if (has_confirmed && withdrawal_reason_.ok())
      reason = failure_record().publish(reason, timeout);
    if (has_confirmed) {
      erase_presence(deadline);
      (void)store_.erase(own_key, deadline).ok();
    } else {  // only peers that have read the join record need the reason
      const std::string withdrawal = serialize_withdrawal({attempt_, reason});
      (void)store_.set(own_key, withdrawal, options_.failure_ttl, deadline).ok();
    }
    erase_stale_records(missing, deadline);
    return reason;
  }

  // Tries to erase this rank's keys, and returns `reason`.
  Status handle_store_loss(const Status& reason) {
    const Deadline deadline = Deadline::after(kTimeoutAfterStoreLoss);
    erase_presence(deadline);
    (void)store_.erase(join_key(options_, rank_info_.rank), deadline).ok();
    return reason;
  }

  Result<MemberList> member_list() const {
    MemberList made;
    made.token = token_;
    for (const std::string& record : records_) made.records.push_back(*parse_join_record(record));
    return made;
  }

  Store& store_;
  const MemberListOptions& options_;
  const RankInfo rank_info_;
  const Token attempt_;
  const std::string own_bytes_;
  std::vector<std::string> records_;
  Token token_{};
  Status withdrawal_reason_;        // why a rank gave up; ok if none did or a rank rejoined
  bool has_rank_conflict_ = false;  // another process has overwritten this rank's record
};

}  // namespace

std::string to_bytes(const JoinRecord& record) {
  WireWriter writer;
  writer.append_number(kJoinMagic).append_number(kJoinVersion);
  writer.append_number(record.rank_info.rank)
      .append_number(record.rank_info.world_size)
      .append_number(record.member);
  writer.append_raw(view_of(record.attempt))
      .append_raw(view_of(record.process))
      .append_text(record.host);
  writer.append_text(record.channel.name).append_raw(view_of(record.channel.token));
  writer.append_text(record.backend)
      .append_raw(view_of(record.device))
      .append_number(record.pad_bytes);
  writer.append_text(std::string_view(record.no_fd_reason).substr(0, kMaxHandleReasonBytes));
  writer.append_text(std::string_view(record.no_fabric_reason).substr(0, kMaxHandleReasonBytes));
  writer.append_number(uint16_t{record.wants_fabric});
  writer.append_number(uint16_t{record.may_share_device})
      .append_number(uint16_t{record.measures_thresholds})
      .append_number(record.one_shot_bytes);
  writer.append_number(record.lease_ms);
  writer.append_number(uint16_t{record.has_transport});
  return writer.append_text(record.cores.bytes()).take();
}

Result<JoinRecord> parse_join_record(std::string_view bytes) {
  WireReader reader(bytes);
  JoinRecord record;
  const bool has_magic = reader.number<uint32_t>() == kJoinMagic;
  const bool is_known = reader.number<uint16_t>() == kJoinVersion;
  record.rank_info.rank = reader.number<int>();
  record.rank_info.world_size = reader.number<int>();
  record.member = reader.number<uint64_t>();
  read_into(reader, record.attempt);
  read_into(reader, record.process);
  record.host = reader.text(512);
  record.channel.name = reader.text(100);
  read_into(reader, record.channel.token);
  record.backend = reader.text(100);
  read_into(reader, record.device);
  record.pad_bytes = reader.number<uint64_t>();
  record.no_fd_reason = reader.text(kMaxHandleReasonBytes);
  record.no_fabric_reason = reader.text(kMaxHandleReasonBytes);
  record.wants_fabric = reader.number<uint16_t>() != 0;
  record.may_share_device = reader.number<uint16_t>() != 0;
  record.measures_thresholds = reader.number<uint16_t>() != 0;
  record.one_shot_bytes = reader.number<uint64_t>();
  record.lease_ms = reader.number<int64_t>();
  record.has_transport = reader.number<uint16_t>() != 0;
  record.cores = CpuSet(reader.text(CpuSet::kMaxBytes));
  if (!has_magic || !is_known || !reader.is_done()) {
    return Status::format("malformed join record");
  }
  return record;
}

bool MemberList::is_single_machine() const {
  return std::ranges::all_of(records,
                             [&](const auto& each) { return each.host == records[0].host; });
}

PeerAccess MemberList::access(int own, int rank) const {
  const bool is_local = records[rank].host == records[own].host;
  const bool is_device = records[own].device != DeviceUuid{};
  return is_local || is_device ? PeerAccess::kDirect : PeerAccess::kRemote;
}

Result<MemberList> gather_members(Store& store, const MemberListOptions& options,
                                  const JoinRecord& own, Deadline deadline) {
  return JoinAttempt(store, options, own).run(deadline);
}

void erase_join_keys(Store& store, const MemberListOptions& options, const Token& token, int rank,
                     Deadline deadline) {
  (void)store.erase(join_key(options, rank), deadline).ok();
  (void)store.erase(presence_key(options, token, rank), deadline).ok();
}

// All ranks have read all join records, so the records can be erased, unless a later attempt to
// join has replaced them.
void expire_join_keys(Store& store, const MemberListOptions& options, const MemberList& member_list,
                      std::span<const int> ranks, Deadline deadline) {
  std::vector<std::string> join_keys;
  std::vector<std::string> presence_keys;
  for (const int rank : ranks) {
    join_keys.push_back(join_key(options, rank));
    presence_keys.push_back(presence_key(options, member_list.token, rank));
  }
  expire_keys(store, presence_keys, options.failure_ttl, deadline);
  const auto found = checked_try_get(store, join_keys, deadline);
  if (!found.ok()) return;
  for (size_t i = 0; i < join_keys.size(); ++i) {
    if ((*found)[i] != to_bytes(member_list.records[ranks[i]])) continue;
    (void)store.erase(join_keys[i], deadline).ok();
  }
}

}  // namespace ashlar::symm
