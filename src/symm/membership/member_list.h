// SPDX-License-Identifier: Apache-2.0
//
// The list of a group's members. Every rank publishes a join record in the store, and the ranks
// agree on the set of records before they do anything else.
//
// Records that an earlier group of the same name left in the store are harmless. The ranks confirm
// the set under a key derived from all records as they read them. If a rank has read a stale
// record, not all ranks confirm under the key that this rank derives, so it reads the records again
// until it gets the new one.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "ashlar/store.h"
#include "ashlar/symmetric_types.h"
#include "symm/backends/backend.h"
#include "symm/channel/channel.h"
#include "symm/core/cpu_set.h"
#include "symm/core/rank_info.h"

namespace ashlar::symm {

struct JoinRecord {
  RankInfo rank_info{};
  uint64_t member = 0;  // the rank's index in the job; see CommunicatorOptions::members
  Token attempt{};      // random, so that no two records are the same
  Token process{};      // Process::token
  std::string host{};   // Process::host, which identifies the machine
  ChannelAddress channel{};
  std::string backend{};
  DeviceUuid device{};
  // Why the rank's memory cannot be exported as a descriptor or as a fabric handle; empty if it
  // can.
  std::string no_fd_reason{};
  std::string no_fabric_reason{};
  bool wants_fabric = false;  // requests fabric handles where possible
  // The next five fields must be the same on all ranks.
  bool may_share_device = false;
  bool measures_thresholds = false;
  uint64_t one_shot_bytes = 0;  // CommunicatorOptions::one_shot_bytes
  int64_t lease_ms = 0;         // determines how long a failure record stays in the store
  uint64_t pad_bytes = 0;       // the size of the group's signal pad
  bool has_transport = false;   // whether the rank can reach ranks on other machines
  CpuSet cores{};               // the cores that the rank may run on
};

std::string to_bytes(const JoinRecord& record);
// Returns kFormat if `bytes` is not a record of this version.
Result<JoinRecord> parse_join_record(std::string_view bytes);

// The join records of all ranks, indexed by rank. The same on all ranks.
struct MemberList {
  Token token{};  // identifies this instance of the group
  std::vector<JoinRecord> records{};

  bool is_single_machine() const;
  // Returns how rank `own` reaches the memory of `rank`: directly if it is device memory, or if
  // both ranks are on one machine. REQUIRES: both are ranks of the group.
  PeerAccess access(int own, int rank) const;
};

struct MemberListOptions {
  std::string prefix{};  // the prefix of the keys of all groups with this name and these members
  std::string group{};   // for error messages
  std::chrono::milliseconds key_ttl{};
  std::chrono::milliseconds failure_ttl = std::chrono::seconds(15);  // see Exchange::Options
};

// Publishes `own` and collects the records of all ranks. The message of kTimeout names the missing
// ranks. A rank that times out publishes the reason. Ranks that have read its record keep waiting
// for it to rejoin, and report the same reason when they time out.
Result<MemberList> gather_members(Store& store, const MemberListOptions& options,
                                  const JoinRecord& own, Deadline deadline);
// Erases the keys that `rank` published. REQUIRES: all ranks have completed gather_members, which a
// later barrier of the group ensures.
void erase_join_keys(Store& store, const MemberListOptions& options, const Token& token, int rank,
                     Deadline deadline);
// The counterpart of `erase_join_keys` for a failed group, whose `ranks` may be dead: erases their
// join records, and makes their confirmations expire after `failure_ttl`, so that peers that have
// not read the confirmations yet still can.
void expire_join_keys(Store& store, const MemberListOptions& options, const MemberList& member_list,
                      std::span<const int> ranks, Deadline deadline);

}  // namespace ashlar::symm
