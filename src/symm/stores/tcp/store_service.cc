// SPDX-License-Identifier: Apache-2.0
//
// Implements the calls of a TCP store.
#include "symm/stores/tcp/store_service.h"

namespace ashlar::symm {

StoreResponse StoreService::perform(const StoreRequest& request, Time now) {
  switch (request.call) {
    case StoreCall::kSet: return set(request, now);
    case StoreCall::kTryGet: return try_get(request, now);
    case StoreCall::kAdd: return add(request, now);
    case StoreCall::kErase:
      ++version_;
      return {.number = entries_.erase(request.keys.front(), now) ? 1 : 0};
    case StoreCall::kHello:
    case StoreCall::kWait: break;
  }
  return {.status = Status::invalid_argument("the server does not expect this call")};
}

StoreResponse StoreService::set(const StoreRequest& request, Time now) {
  ++version_;
  return {.status = entries_.put(request.keys.front(), request.value,
                                 std::chrono::milliseconds(request.time_to_live_ms), now)};
}

StoreResponse StoreService::try_get(const StoreRequest& request, Time now) const {
  StoreResponse response;
  response.number = static_cast<int64_t>(version_);
  size_t bytes = 0;
  for (const std::string& key : request.keys) {
    const std::string* value = entries_.find(key, now);
    response.values.push_back(value == nullptr ? std::optional<std::string>() : *value);
    bytes += value == nullptr ? 0 : value->size();
    if (bytes >= kMinSplitBytes) break;
  }
  return response;
}

StoreResponse StoreService::add(const StoreRequest& request, Time now) {
  if (const auto done = sums_.find(request.receipt); done != sums_.end()) {
    return {.number = done->second};
  }
  ++version_;
  const Result<int64_t> sum = entries_.add(request.keys.front(), request.amount,
                                           std::chrono::milliseconds(request.time_to_live_ms), now);
  if (!sum.ok()) return {.status = sum.status()};
  receipts_.push_back(request.receipt);
  sums_.emplace(request.receipt, *sum);
  if (receipts_.size() > kMaxReceipts) {
    sums_.erase(receipts_.front());
    receipts_.pop_front();
  }
  return {.number = *sum};
}

}  // namespace ashlar::symm
