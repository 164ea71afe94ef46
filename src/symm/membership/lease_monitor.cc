// SPDX-License-Identifier: Apache-2.0
//
// By this machine's clock alone: numbers have no meaning but that they change.
#include "symm/membership/lease_monitor.h"

#include "base/text.h"
#include "symm/stores/store_helpers.h"

namespace ashlar::symm {

LeaseMonitor::LeaseMonitor(std::shared_ptr<Store> store, FailureRecord& failure_record,
                           Options options)
    : store_(std::move(store)),
      failure_record_(failure_record),
      options_(std::move(options)),
      heard_(options_.watched.size(), Heard{{}, Deadline::Clock::now()}),
      last_run_(Deadline::Clock::now()) {}

void LeaseMonitor::run(Deadline deadline) {
  if (failure_record_.failure().has_happened()) {
    // Whoever parts waits for this beat; what is not told now is told at the next.
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
  // Where we or the store stood still, nobody else can be blamed for it.
  const auto now = Deadline::Clock::now();
  if (now - last_run_ > options_.lease / 2) {
    for (Heard& each : heard_) each.at = now;
  }
  last_run_ = now;
  judge(*found);
}

void LeaseMonitor::judge(const std::vector<std::optional<std::string>>& numbers) {
  const auto now = Deadline::Clock::now();
  std::vector<int> lost;
  for (size_t i = 0; i < heard_.size(); ++i) {
    const std::string number = numbers[i + 1].value_or(std::string());
    if (number != heard_[i].number) heard_[i] = {number, now};
    if (now - heard_[i].at > options_.lease) lost.push_back(options_.watched[i]);
  }
  if (lost.empty()) return;
  (void)failure_record_
      .publish(Status::peer_lost(text(name_ranks(lost), " of group ", options_.group,
                                      " gave no sign of life for ", options_.lease.count(),
                                      " ms: stopped, or its machine is gone")))
      .ok();
}

void LeaseMonitor::end(Deadline deadline) {
  (void)store_->erase(key(options_.rank_info.rank), deadline).ok();
}

std::string LeaseMonitor::key(int rank) const { return text(options_.prefix, "/lives/", rank); }

}  // namespace ashlar::symm
