// SPDX-License-Identifier: Apache-2.0
//
// Who joins a group: a record of each rank, published in the store, on which all ranks agree before
// anything else is done. What an earlier group of the same name left behind does no harm: the ranks
// meet under a name made of all records as each of them read them, and one that read an old record
// finds nobody there, looks again, and finds the new one.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "ashlar/store.h"
#include "symm/backends/backend.h"
#include "symm/channel/channel.h"
#include "symm/core/cpu_set.h"
#include "symm/core/rank_info.h"

namespace ashlar::symm {

struct JoinRecord {
  RankInfo rank_info{};
  uint64_t member = 0;  // which member of the job it is
  Token attempt{};      // drawn for each joining, so that no two records are the same
  Token process{};
  std::string host{};
  ChannelAddress channel{};
  std::string backend{};
  DeviceUuid device{};
  std::string no_fd{};            // why its memory does not travel as descriptors; empty: it does
  std::string no_fabric{};        // and why not as fabric handles
  bool wants_fabric = false;      // if it can
  bool may_share_device = false;  // these are of the group's options, and the same for all
  bool measures_thresholds = false;
  int64_t lease_ms = 0;     // as long as the verdict must be there for it to be read
  uint64_t pad_bytes = 0;   // of the group's own pad
  std::string transport{};  // where other machines reach it; empty: nowhere
  CpuSet cores{};           // that it may use
};

std::string to_bytes(const JoinRecord& record);
// kFormat: not a record of this version.
Result<JoinRecord> parse_join_record(std::string_view bytes);

// All records, the same on all ranks.
struct MemberList {
  Token token{};  // of the group, as it was formed this time
  std::vector<JoinRecord> records{};
};

struct MemberListOptions {
  std::string prefix{};  // of all keys of groups with this name and these members
  std::string group{};   // for sentences
  std::chrono::milliseconds key_ttl{};
  std::chrono::milliseconds failure_ttl = std::chrono::seconds(15);  // as of an exchange
};

// kTimeout names the ranks that did not come. Whoever gives up tells those that it has met, or that
// know its record, and they say the same in the end; until then they wait for it to come again.
Result<MemberList> gather_members(Store& store, const MemberListOptions& options,
                                  const JoinRecord& own, Deadline deadline);
// Takes what the rank published out of the store. REQUIRES: all ranks have their roster, as one
// that has met them knows.
void erase_join_keys(Store& store, const MemberListOptions& options, const Token& token, int rank,
                     Deadline deadline);
// Instead, where the group has failed, for ranks that may be dead: whoever has not seen yet that
// they are here has the parting life for it.
void expire_join_keys(Store& store, const MemberListOptions& options, const MemberList& member_list,
                      std::span<const int> ranks, Deadline deadline);

}  // namespace ashlar::symm
