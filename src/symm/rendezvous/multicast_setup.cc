// SPDX-License-Identifier: Apache-2.0
//
// Multicast for a block, set up by all ranks together in five phases: create and export, exchange,
// import and take part, bind and map, commit. After each of them that can fail the ranks agree
// whether all could; if not, all go on without, for the same reason, and undo what they did in
// reverse order. No rank decides alone: others would wait for it in the driver for ever.
#include <algorithm>
#include <optional>

#include "base/text.h"
#include "base/wire.h"
#include "symm/rendezvous/communicator.h"
#include "symm/rendezvous/rendezvous_record.h"

namespace ashlar::symm {
namespace {

// Rank 0's hold on the object, which lasts until all others have theirs: a driver gives who comes
// later another object, and all wait for each other in it.
class Creation {
 public:
  Creation() = default;
  ~Creation() {
    if (driver_ != nullptr) (void)driver_->release(object_).ok();
  }
  Creation(const Creation&) = delete;
  Creation& operator=(const Creation&) = delete;

  Status make(MulticastDriver& driver, const MulticastDriver::Shape& shape) {
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
  MulticastDriver* driver_ = nullptr;  // null: nothing was created
  MulticastDriver::Object object_ = 0;
};

// Empty: all ranks can.
std::string why_not(const std::vector<RendezvousRecord>& all) {
  const auto count = static_cast<int>(all.size());
  const auto reason = [&](int rank) { return all[static_cast<size_t>(rank)].multicast; };
  std::string not_all = why_not_all("not all ranks have multicast", count, reason);
  if (!not_all.empty()) return not_all;
  const auto bytes = [&](int rank) { return all[static_cast<size_t>(rank)].block_bytes; };
  const std::string sizes = list_differences(count, bytes);
  return sizes.empty() ? sizes : "the ranks' blocks are of different sizes: " + sizes;
}

}  // namespace

std::string Communicator::why_no_multicast() const {
  if (!options_.use_multicast) return "it is switched off in the group's options";
  if (options_.may_share_device) return "ranks may share devices, which multicast cannot";
  MulticastDriver* driver = heap_.backend().multicast();
  if (driver == nullptr) return text("back end ", heap_.backend().name(), " has none");
  return with_call(driver->availability()).message();
}

Result<MulticastOutcome> Communicator::set_up_multicast(const HeapBlock& block,
                                                        const std::vector<RendezvousRecord>& all,
                                                        Deadline deadline) {
  MulticastOutcome outcome;
  outcome.reason = why_not(all);
  if (!outcome.reason.empty()) return outcome;
  MulticastDriver& driver = *heap_.backend().multicast();
  const MulticastDriver::Shape shape{.device_count = rank_info_.world_size,
                                     .bytes = block.memory->bytes(),
                                     .by_fabric = needs_fabric()};
  // 1. Destroyed last: everybody's own hold goes before.
  Creation creation;
  Status own = rank_info_.rank == 0 ? creation.make(driver, shape) : Status();
  // 2. Rank 0's word is everybody's.
  reach(Phase::kMulticast);
  if (Status made = exchange_.agree(with_call(own), deadline); !made.ok()) return without(made);
  const Result<MulticastHandle> object = shape.by_fabric
                                             ? tell_all(creation.handle.fabric, deadline)
                                             : hand_out(creation.handle.fd, deadline);
  if (!object.ok() && failure_->has_happened()) return object.status();
  // 3. Rank 0, too, by an import of its own: what an object is good for depends on where it is
  // from.
  auto multicast = std::make_unique<Multicast>(driver);
  own = object.ok() ? multicast->import_and_join(*object, shape) : object.status();
  if (Status joined = exchange_.agree(with_call(own), deadline); !joined.ok()) {
    multicast.reset();
    return without(joined);
  }
  // 4. No driver waits here any more, since all take part.
  own = multicast->bind_and_map(block.memory);
  if (Status bound = exchange_.agree(with_call(own), deadline); !bound.ok()) {
    multicast.reset();
    return without(bound);
  }
  // 5.
  outcome.multicast = std::move(multicast);
  return outcome;
}

// From rank 0 to all, on any machine: it is nothing but bytes.
Result<MulticastHandle> Communicator::tell_all(const FabricHandle& created, Deadline deadline) {
  WireWriter own;
  own.raw({reinterpret_cast<const char*>(created.data()), created.size()});
  const Result<std::vector<std::string>> gathered = exchange_.all_gather(own.take(), deadline);
  if (!gathered.ok()) return gathered.status();
  MulticastHandle handle;
  WireReader reader((*gathered)[0]);
  const std::string_view bytes = reader.raw(handle.fabric.size());
  if (!reader.is_done()) return Status::format("rank 0's multicast object is no fabric handle");
  std::ranges::copy(bytes, handle.fabric.begin());
  return handle;
}

// The same over the channel, or within the process.
Result<MulticastHandle> Communicator::hand_out(std::shared_ptr<const UniqueFd> created,
                                               Deadline deadline) {
  Process& process = heap_.process();
  WireWriter own;
  own.number(created == nullptr ? uint64_t{0} : process.register_fd(created));
  const Result<std::vector<std::string>> gathered = exchange_.all_gather(own.take(), deadline);
  if (!gathered.ok()) return gathered.status();
  const uint64_t sequence = exchange_.sequence();
  if (rank_info_.rank != 0 && connections_->reaches(0)) {
    Result<UniqueFd> got = connections_->receive(0, sequence, deadline);
    if (!got.ok()) return got.status();
    if (!got->valid()) return Status::peer_lost("rank 0 handed no multicast object over");
    return MulticastHandle{std::make_shared<const UniqueFd>(*std::move(got)), {}};
  }
  if (rank_info_.rank != 0) {
    WireReader reader((*gathered)[0]);
    std::shared_ptr<const UniqueFd> lent = process.find_fd(reader.number<uint64_t>());
    if (lent == nullptr) return Status::format("rank 0's multicast object is gone");
    return MulticastHandle{std::move(lent), {}};
  }
  Status outcome;
  for (int rank = 1; rank < rank_info_.world_size; ++rank) {
    if (!connections_->reaches(rank)) continue;
    const Status sent = connections_->send(rank, sequence, created->get(), deadline);
    if (outcome.ok()) outcome = sent;
  }
  if (!outcome.ok()) return outcome;
  return MulticastHandle{std::move(created), {}};
}

// A group that has failed has no multicast, and nothing else; otherwise this is no failure.
Result<MulticastOutcome> Communicator::without(const Status& reason) const {
  if (failure_->has_happened()) return failure_->reason();
  MulticastOutcome outcome;
  outcome.reason = reason.message();
  return outcome;
}

}  // namespace ashlar::symm
