// SPDX-License-Identifier: Apache-2.0
//
// Runs the five phases, and undoes them if a rank fails.
#include "symm/rendezvous/multicast_setup.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/wire.h"
#include "symm/core/status_codec.h"
#include "symm/rendezvous/handle_exchange.h"

namespace ashlar::symm {
namespace {

// Rank 0's reference to the object that it created. Released only after all ranks have imported the
// object: after an earlier release, the driver would give a late rank a different object, and the
// ranks would wait for each other indefinitely.
class CreatedObject {
 public:
  CreatedObject() = default;
  ~CreatedObject() {
    if (driver_ != nullptr) (void)driver_->release(object_).ok();
  }
  CreatedObject(const CreatedObject&) = delete;
  CreatedObject& operator=(const CreatedObject&) = delete;

  Status create(MulticastDriver& driver, const MulticastDriver::Shape& shape) {
    const Result<MulticastDriver::Object> created = driver.create(shape);
    if (!created.ok()) return created.status();
    object_ = *created;
    driver_ = &driver;
    if (shape.by_fabric) {
      const Result<FabricHandle> exported = driver.export_fabric(object_);
      if (exported.ok()) handle.fabric = *exported;
      return exported.status();
    }
    Result<UniqueFd> exported = driver.export_fd(object_);
    if (!exported.ok()) return exported.status();
    handle.fd = std::make_shared<const UniqueFd>(*std::move(exported));
    return {};
  }

  MulticastHandle handle;

 private:
  MulticastDriver* driver_ = nullptr;  // null if nothing was created
  MulticastDriver::Object object_ = 0;
};

// Returns why the ranks cannot use multicast for this block, or an empty string if they can.
std::string no_multicast_reason(const std::vector<RendezvousRecord>& all) {
  const auto count = static_cast<int>(all.size());
  const auto reason = [&](int rank) { return all[static_cast<size_t>(rank)].no_multicast_reason; };
  std::string unsupported = unsupported_reason("not all ranks have multicast", count, reason);
  if (!unsupported.empty()) return unsupported;
  const auto bytes = [&](int rank) { return all[static_cast<size_t>(rank)].block_bytes; };
  const std::string sizes = list_differences(count, bytes);
  return sizes.empty() ? sizes : "the ranks' blocks have different sizes: " + sizes;
}

}  // namespace

Result<MulticastSetupResult> MulticastSetup::run(const HeapBlock& block,
                                                 const std::vector<RendezvousRecord>& all,
                                                 Deadline deadline) {
  MulticastSetupResult outcome;
  outcome.reason = no_multicast_reason(all);
  if (!outcome.reason.empty()) return outcome;
  MulticastDriver& driver = *context_.heap.backend().multicast();
  const MulticastDriver::Shape shape{.device_count = context_.rank_info.world_size,
                                     .bytes = block.memory->bytes(),
                                     .by_fabric = needs_fabric(context_.members)};
  // 1. Create and export on rank 0. `created` is declared first and so destroyed last, after this
  // rank's import.
  CreatedObject created;
  Status own = context_.rank_info.rank == 0 ? created.create(driver, shape) : Status();
  // 2. Distribute the handle.
  context_.begin_phase(Phase::kMulticast);
  if (Status agreed = context_.exchange.agree(with_call(own), deadline); !agreed.ok()) {
    return continue_without_multicast(agreed);
  }
  const Result<MulticastHandle> object =
      shape.by_fabric ? broadcast_fabric_handle(created.handle.fabric, deadline)
                      : broadcast_descriptor(created.handle.fd, deadline);
  if (!object.ok() && context_.failure.has_happened()) return object.status();
  // 3. Import and join. Rank 0 imports its own object too, so that all ranks hold the same kind of
  // object.
  auto multicast = std::make_unique<Multicast>(driver);
  own = object.ok() ? multicast->import_and_join(*object, shape) : object.status();
  if (Status agreed = context_.exchange.agree(with_call(own), deadline); !agreed.ok()) {
    multicast.reset();
    return continue_without_multicast(agreed);
  }
  // 4. Bind and map. All ranks have joined, so the driver no longer waits for other ranks.
  own = multicast->bind_and_map(block.memory);
  if (Status agreed = context_.exchange.agree(with_call(own), deadline); !agreed.ok()) {
    multicast.reset();
    return continue_without_multicast(agreed);
  }
  // 5. Commit.
  outcome.multicast = std::move(multicast);
  return outcome;
}

Result<MulticastHandle> MulticastSetup::broadcast_fabric_handle(const FabricHandle& created,
                                                                Deadline deadline) {
  WireWriter own;
  own.append_raw({reinterpret_cast<const char*>(created.data()), created.size()});
  const Result<std::vector<std::string>> gathered =
      context_.exchange.all_gather(own.take(), deadline);
  if (!gathered.ok()) return gathered.status();
  MulticastHandle handle;
  WireReader reader((*gathered)[0]);
  const std::string_view bytes = reader.raw(handle.fabric.size());
  if (!reader.is_done()) return Status::format("rank 0 sent a malformed multicast handle");
  std::ranges::copy(bytes, handle.fabric.begin());
  return handle;
}

// Sends the descriptor over the channel. Ranks in rank 0's process find it in the process's
// registry.
Result<MulticastHandle> MulticastSetup::broadcast_descriptor(
    std::shared_ptr<const UniqueFd> created, Deadline deadline) {
  Process& process = context_.heap.process();
  WireWriter own;
  own.append_number(created == nullptr ? uint64_t{0} : process.register_fd(created));
  const Result<std::vector<std::string>> gathered =
      context_.exchange.all_gather(own.take(), deadline);
  if (!gathered.ok()) return gathered.status();
  const uint64_t sequence = context_.exchange.sequence();
  const int rank = context_.rank_info.rank;
  if (rank != 0 && context_.connections.reaches(0)) {
    Result<UniqueFd> received = context_.connections.receive(0, sequence, deadline);
    if (!received.ok()) return received.status();
    if (!received->valid()) return Status::peer_lost("rank 0 sent no multicast object");
    return MulticastHandle{std::make_shared<const UniqueFd>(*std::move(received)), {}};
  }
  if (rank != 0) {
    WireReader reader((*gathered)[0]);
    std::shared_ptr<const UniqueFd> found = process.find_fd(reader.number<uint64_t>());
    if (found == nullptr) return Status::format("rank 0's multicast object has been destroyed");
    return MulticastHandle{std::move(found), {}};
  }
  Status outcome;
  for (int peer = 1; peer < context_.rank_info.world_size; ++peer) {
    if (!context_.connections.reaches(peer)) continue;
    const Status sent = context_.connections.send(peer, sequence, created->get(), deadline);
    if (outcome.ok()) outcome = sent;
  }
  if (!outcome.ok()) return outcome;
  return MulticastHandle{std::move(created), {}};
}

// Returns a result without multicast, or an error if the group has failed.
Result<MulticastSetupResult> MulticastSetup::continue_without_multicast(
    const Status& reason) const {
  if (context_.failure.has_happened()) return context_.failure.reason();
  MulticastSetupResult outcome;
  outcome.reason = reason.message();
  return outcome;
}

}  // namespace ashlar::symm
