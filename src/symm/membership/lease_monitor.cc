// SPDX-License-Identifier: Apache-2.0
//
// Leases are measured by the local clock. Heartbeat numbers are compared for equality only.
#include "symm/membership/lease_monitor.h"

#include "base/text.h"
#include "symm/stores/store_helpers.h"

namespace ashlar::symm {

LeaseMonitor::LeaseMonitor(std::shared_ptr<Store> store, FailureRecord& failure_record,
                           Options options)
    : store_(std::move(store)),
      failure_record_(failure_record),
      options_(std::move(options)),
      heartbeats_(options_.watched.size(), Heartbeat{{}, Deadline::Clock::now()}),
      last_run_(Deadline::Clock::now()) {}

void LeaseMonitor::run(Deadline deadline) {
  if (failure_record_.failure().has_happened()) {
    // Makes a single attempt to publish the reason, because a thread that leaves the group waits
    // for this call. If the attempt fails, the next heartbeat repeats it.
    (void)failure_record_.try_publish(failure_record_.failure().reason(), deadline);
    return;
  }
  const std::string number = text(++own_number_);
  if (!store_->set(key(options_.rank_info.rank), number, options_.key_ttl, deadline).ok()) return;
  std::vector<std::string> keys = {failure_record_.key()};
  for (int rank : options_.watched) keys.push_back(key(rank));
  const Result<std::vector<std::optional<std::string>>> found =
      checked_try_get(*store_, keys, deadline);
  if (!found.ok()) return;
  if ((*found)[0]) {
    (void)failure_record_.adopt(*(*found)[0]).ok();
    return;
  }
  // If this process or the store was stalled, unchanged heartbeats do not prove that a rank is
  // lost: restart all leases.
  const auto now = Deadline::Clock::now();
  if (now - last_run_ > options_.lease / 2) {
    for (Heartbeat& each : heartbeats_) each.changed_at = now;
  }
  last_run_ = now;
  check_leases(*found);
}

void LeaseMonitor::check_leases(const std::vector<std::optional<std::string>>& numbers) {
  const auto now = Deadline::Clock::now();
  std::vector<int> lost;
  for (size_t i = 0; i < heartbeats_.size(); ++i) {
    const std::string number = numbers[i + 1].value_or(std::string());
    if (number != heartbeats_[i].number) heartbeats_[i] = {number, now};
    if (now - heartbeats_[i].changed_at > options_.lease) lost.push_back(options_.watched[i]);
  }
  if (lost.empty()) return;
  (void)failure_record_
      .publish(Status::peer_lost(text(name_ranks(lost), " of group ", options_.group,
                                      " sent no heartbeat for ", options_.lease.count(),
                                      " ms: the process is suspended or its machine is down")))
      .ok();
}

void LeaseMonitor::erase_heartbeat(Deadline deadline) {
  (void)store_->erase(key(options_.rank_info.rank), deadline).ok();
}

std::string LeaseMonitor::key(int rank) const { return text(options_.prefix, "/lives/", rank); }

}  // namespace ashlar::symm
