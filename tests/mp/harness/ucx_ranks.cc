// SPDX-License-Identifier: Apache-2.0
//
// Exchanges the addresses of the ranks through a store. Before leaving, announces to all ranks that
// the connections close.
#include "mp/harness/ucx_ranks.h"

#include <atomic>
#include <stdexcept>

namespace ashlar::symm {

void check_ok(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.to_string());
}

UcxRank::UcxRank(RankContext& context, const std::string& transports, const std::string& devices)
    : context_(context) {
  UcxOptions options;
  options.transports = transports;
  options.devices = devices;
  transport = check_ok(try_open_ucx_transport(options));
  region_ = check_ok(transport->share(memory_));
  Store& store = *context.store;
  check_ok(store.set(text("address/", context.rank), check_ok(transport->address()), kNoExpiry,
                     long_deadline()));
  check_ok(store.set(text("key/", context.rank), region_->key(), kNoExpiry, long_deadline()));
  for (int rank = 0; rank < context.world_size; ++rank) {
    const std::string address = check_ok(store.get(text("address/", rank), long_deadline()));
    const std::string key = check_ok(store.get(text("key/", rank), long_deadline()));
    endpoints_.push_back(
        check_ok(transport->connect(address, {rank, "tested", failure}, long_deadline())));
    regions_.push_back(check_ok(endpoints_.back()->open(key)));
  }
  barrier();
}

void UcxRank::barrier() {
  const std::string key = text("barrier/", barrier_count_++);
  check_ok(context_.store->barrier(key, context_.world_size, kNoExpiry, long_deadline()));
}

void UcxRank::leave() {
  check_ok(transport->quiet(long_deadline()));
  for (const auto& endpoint : endpoints_) endpoint->announce_close();
  barrier();
}

uint64_t UcxRank::own_word(size_t offset) const {
  auto* word = reinterpret_cast<uint64_t*>(const_cast<std::byte*>(memory_.data() + offset));
  return std::atomic_ref<uint64_t>(*word).load(std::memory_order_acquire);
}

}  // namespace ashlar::symm
