// SPDX-License-Identifier: Apache-2.0
//
// Publish, read, and meet under the name of what was read.
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

constexpr uint32_t kRosterMagic = 0x6a687361;  // "ashj"
constexpr uint32_t kNoticeMagic = 0x67687361;  // "ashg"
constexpr uint16_t kRosterVersion = 5;
constexpr size_t kMaxWayReasonBytes = 1024;
constexpr nanoseconds kFirstRosterRest = std::chrono::microseconds(100);
constexpr nanoseconds kLongestRosterRest = std::chrono::milliseconds(10);

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

std::string meeting_prefix(const MemberListOptions& options, const Token& token) {
  return text(options.prefix, '/', to_hex(token));
}

std::string here_key(const MemberListOptions& options, const Token& token, int rank) {
  return text(meeting_prefix(options, token), "/here/", rank);
}

// What takes the place of a rank's record when it gives up: why, for those who have read that.
struct Notice {
  Token attempt{};
  Status why{};
};

std::string notice_bytes(const Notice& notice) {
  WireWriter writer;
  return writer.number(kNoticeMagic).raw(view_of(notice.attempt)).raw(to_bytes(notice.why)).take();
}

std::optional<Notice> parse_notice(std::string_view bytes) {
  WireReader reader(bytes);
  Notice notice;
  const bool has_magic = reader.number<uint32_t>() == kNoticeMagic;
  read_into(reader, notice.attempt);
  const size_t head_bytes = sizeof(uint32_t) + notice.attempt.size();
  if (!has_magic || bytes.size() < head_bytes) return std::nullopt;
  notice.why = parse_status(bytes.substr(head_bytes));
  return notice;
}

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

// One joining. `records_` are the ranks' records as they were last read; empty: none yet.
class Gathering {
 public:
  Gathering(Store& store, const MemberListOptions& options, const JoinRecord& own)
      : store_(store),
        options_(options),
        rank_info_(own.rank_info),
        attempt_(own.attempt),
        own_bytes_(to_bytes(own)),
        records_(static_cast<size_t>(rank_info_.world_size)) {}

  Result<MemberList> run(Deadline deadline) {
    nanoseconds pause = kFirstRosterRest;
    for (;;) {
      std::vector<int> missing;
      const bool is_late = deadline.has_passed();
      const Deadline look = allow_final_attempt(deadline);
      if (Status read = read_records(missing, look); !read.ok()) return lose_store(read);
      if (missing.empty()) {
        if (Status met = meet(missing, look); !met.ok()) return lose_store(met);
      }
      if (missing.empty()) return member_list();
      if (is_late) return give_up(missing);
      std::this_thread::sleep_for(std::min(pause, deadline.left()));
      pause = std::min(2 * pause, kLongestRosterRest);
    }
  }

 private:
  // What cannot be read is not there yet: its rank is going to write over it. What is gone was
  // taken back by a rank that has its roster, and stays as it was.
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
          is_contested_ |= record && !records_[rank].empty();
          Status set = store_.set(keys[rank], own_bytes_, options_.key_ttl, deadline);
          if (!set.ok()) return set;
        }
        records_[rank] = own_bytes_;
        continue;
      }
      const Result<JoinRecord> parsed =
          record ? parse_join_record(*record) : Result<JoinRecord>(Status::format("none"));
      const bool is_sound = parsed.ok() && parsed->rank_info.rank == rank &&
                            parsed->rank_info.world_size == rank_info_.world_size;
      if (!is_sound && record) note_parting(rank, *record);
      if (is_sound && *record != records_[rank]) {
        if (!records_[rank].empty()) heard_ = {};  // it has come again
        records_[rank] = *std::move(record);
      }
      if (records_[rank].empty()) missing.push_back(rank);
    }
    return {};
  }

  // Of one whose record we have.
  void note_parting(int rank, std::string_view bytes) {
    if (records_[rank].empty() || !heard_.ok()) return;
    const std::optional<Notice> notice = parse_notice(bytes);
    const bool is_its_last =
        notice && notice->attempt == parse_join_record(records_[rank])->attempt;
    if (is_its_last) heard_ = notice->why;
  }

  // Others who have met here, too, read in the same place why one of them gave up.
  FailureRecord failure_record() const {
    const std::shared_ptr<Store> borrowed(std::shared_ptr<Store>(), &store_);
    return FailureRecord(borrowed, meeting_prefix(options_, token_), std::make_shared<Failure>(),
                         options_.failure_ttl);
  }

  Status meet(std::vector<int>& missing, Deadline deadline) {
    const Token token = token_of(records_);
    if (token != token_) {
      leave_meeting(deadline);
      token_ = token;
    }
    std::vector<std::string> keys;
    for (int rank = 0; rank < rank_info_.world_size; ++rank) {
      keys.push_back(here_key(options_, token_, rank));
    }
    keys.push_back(failure_record().key());
    const Result<std::vector<std::optional<std::string>>> found =
        checked_try_get(store_, keys, deadline);
    if (!found.ok()) return found.status();
    for (int rank = 0; rank < rank_info_.world_size; ++rank) {
      if (!(*found)[rank]) missing.push_back(rank);
    }
    if (heard_.ok() && found->back()) heard_ = FailureRecord::parse_reason(*found->back());
    if ((*found)[rank_info_.rank]) return {};
    return store_.set(keys[rank_info_.rank], "here", options_.key_ttl, deadline);
  }

  void leave_meeting(Deadline deadline) {
    if (token_ == Token{}) return;
    (void)store_.erase(here_key(options_, token_, rank_info_.rank), deadline).ok();
  }

  Status late(const std::vector<int>& missing) const {
    return Status::timeout(text(name_ranks(missing), " of group ", options_.group,
                                " did not come to join before the deadline",
                                is_contested_
                                    ? text("; somebody else joins as rank ", rank_info_.rank,
                                           ", too: give each its own number")
                                    : std::string()));
  }

  // What a rank published that never came may be left from a crash. One that is only late publishes
  // it again at its next look.
  void take_back(const std::vector<int>& missing, Deadline deadline) {
    for (const int rank : missing) {
      if (records_[rank].empty()) continue;
      (void)store_.erase(join_key(options_, rank), deadline).ok();
    }
  }

  // The first who gives up says why, where the others find it; then it goes, or they would name it,
  // too.
  Status give_up(const std::vector<int>& missing) {
    const std::chrono::milliseconds patience{1000};  // for all of it
    const Deadline deadline = Deadline::after(patience);
    const std::string own_key = join_key(options_, rank_info_.rank);
    const bool has_rendezvous = token_ != Token{};
    Status why = heard_.ok() ? late(missing) : heard_;
    if (has_rendezvous && heard_.ok()) why = failure_record().publish(why, patience);
    if (has_rendezvous) {
      leave_meeting(deadline);
      (void)store_.erase(own_key, deadline).ok();
    } else {  // it is those to tell who have our record
      const std::string notice = notice_bytes({attempt_, why});
      (void)store_.set(own_key, notice, options_.failure_ttl, deadline).ok();
    }
    take_back(missing, deadline);
    return why;
  }

  Status lose_store(const Status& why) {
    const Deadline deadline = Deadline::after(kLostStoreTimeout);
    leave_meeting(deadline);
    (void)store_.erase(join_key(options_, rank_info_.rank), deadline).ok();
    return why;
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
  Status heard_;               // what one said who gave up; ok: nobody has
  bool is_contested_ = false;  // our record was written over after we had published it
};

}  // namespace

std::string to_bytes(const JoinRecord& record) {
  WireWriter writer;
  writer.number(kRosterMagic).number(kRosterVersion);
  writer.number(record.rank_info.rank).number(record.rank_info.world_size).number(record.member);
  writer.raw(view_of(record.attempt)).raw(view_of(record.process)).text(record.host);
  writer.text(record.channel.name).raw(view_of(record.channel.token));
  writer.text(record.backend).raw(view_of(record.device)).number(record.pad_bytes);
  writer.text(std::string_view(record.no_fd).substr(0, kMaxWayReasonBytes));
  writer.text(std::string_view(record.no_fabric).substr(0, kMaxWayReasonBytes));
  writer.number(uint16_t{record.wants_fabric});
  writer.number(uint16_t{record.may_share_device}).number(uint16_t{record.measures_thresholds});
  writer.number(record.lease_ms);
  return writer.text(record.transport).text(record.cores.bytes()).take();
}

Result<JoinRecord> parse_join_record(std::string_view bytes) {
  WireReader reader(bytes);
  JoinRecord record;
  const bool has_magic = reader.number<uint32_t>() == kRosterMagic;
  const bool is_known = reader.number<uint16_t>() == kRosterVersion;
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
  record.no_fd = reader.text(kMaxWayReasonBytes);
  record.no_fabric = reader.text(kMaxWayReasonBytes);
  record.wants_fabric = reader.number<uint16_t>() != 0;
  record.may_share_device = reader.number<uint16_t>() != 0;
  record.measures_thresholds = reader.number<uint16_t>() != 0;
  record.lease_ms = reader.number<int64_t>();
  record.transport = reader.text(Transport::kMaxAddressBytes);
  record.cores = CpuSet(reader.text(CpuSet::kMaxBytes));
  if (!has_magic || !is_known || !reader.is_done()) {
    return Status::format("this is not the record of a rank that joins");
  }
  return record;
}

Result<MemberList> gather_members(Store& store, const MemberListOptions& options,
                                  const JoinRecord& own, Deadline deadline) {
  return Gathering(store, options, own).run(deadline);
}

void erase_join_keys(Store& store, const MemberListOptions& options, const Token& token, int rank,
                     Deadline deadline) {
  (void)store.erase(join_key(options, rank), deadline).ok();
  (void)store.erase(here_key(options, token, rank), deadline).ok();
}

// All have read all records, or nobody would have a roster. Those of a later joining are left
// alone.
void expire_join_keys(Store& store, const MemberListOptions& options, const MemberList& member_list,
                      std::span<const int> ranks, Deadline deadline) {
  std::vector<std::string> joins;
  std::vector<std::string> heres;
  for (const int rank : ranks) {
    joins.push_back(join_key(options, rank));
    heres.push_back(here_key(options, member_list.token, rank));
  }
  expire_keys(store, heres, options.failure_ttl, deadline);
  const auto found = checked_try_get(store, joins, deadline);
  if (!found.ok()) return;
  for (size_t i = 0; i < joins.size(); ++i) {
    if ((*found)[i] != to_bytes(member_list.records[ranks[i]])) continue;
    (void)store.erase(joins[i], deadline).ok();
  }
}

}  // namespace ashlar::symm
