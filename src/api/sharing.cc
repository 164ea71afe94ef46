// SPDX-License-Identifier: Apache-2.0
//
// The facade's part in sharing: blocks with other processes, and with other devices.
#include "ashlar/sharing.h"

#include <algorithm>
#include <vector>

#include "api/allocator_parts.h"
#include "api/unwrap.h"
#include "base/text.h"

namespace ashlar {

// --- exporting ----------------------------------------------------------------------------------

Share Allocator::share(const Buffer& buffer) {
  return Share(parts_->shares, block_of(buffer), unwrap(parts_->shares.share(block_of(buffer))));
}

Share Allocator::share(DeviceAddress address) {
  Block* block = parts_->block_at(address);
  return Share(parts_->shares, block, unwrap(parts_->shares.share(block)));
}

Block* Allocator::block_of(const Buffer& buffer) const {
  if (buffer.block_ == nullptr)
    unwrap(Status::invalid_argument("an empty buffer has no memory to share"));
  if (buffer.engine_ != parts_->engine.get()) {
    unwrap(Status::invalid_argument(
        text("the buffer at ", buffer.address(), " is of another allocator")));
  }
  return buffer.block_;
}

Share::Share(Share&& other) noexcept
    : server_(std::exchange(other.server_, nullptr)),
      block_(std::exchange(other.block_, nullptr)),
      handle_(std::exchange(other.handle_, {})) {}

Share& Share::operator=(Share&& other) noexcept {
  if (this == &other) return *this;
  reset();
  server_ = std::exchange(other.server_, nullptr);
  block_ = std::exchange(other.block_, nullptr);
  handle_ = std::exchange(other.handle_, {});
  return *this;
}

void Share::reset() noexcept {
  if (server_ != nullptr) server_->end_share(block_);
  server_ = nullptr;
  block_ = nullptr;
  handle_.clear();
}

// --- importing ----------------------------------------------------------------------------------

struct SharedBuffer::Parts {
  Imports& imports;
  Device& device;                  // whose allocator opened it
  std::shared_ptr<Import> import;  // shared with others who opened the same handle
  std::vector<StreamUse> uses;
};

SharedBuffer Allocator::open_shared(std::string_view handle, StreamId stream) {
  const ShareHandle parsed = unwrap(parse_share_handle(handle));
  if (!parsed.is_bare && parts_->shares.is_own(parsed.exporter)) {
    unwrap(Status::invalid_argument(
        "this allocator shared that block itself: it has its address already"));
  }
  std::shared_ptr<Import> import = unwrap(parts_->imports.open(handle));
  const StreamUse first{&parts_->device, stream};
  SharedBuffer::Parts parts{parts_->imports, parts_->device, std::move(import), {first}};
  return SharedBuffer(std::make_unique<SharedBuffer::Parts>(std::move(parts)));
}

SharedBuffer::SharedBuffer() = default;
SharedBuffer::SharedBuffer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
SharedBuffer::SharedBuffer(SharedBuffer&& other) noexcept = default;
SharedBuffer::~SharedBuffer() { reset(); }

SharedBuffer& SharedBuffer::operator=(SharedBuffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  parts_ = std::move(other.parts_);
  return *this;
}

DeviceAddress SharedBuffer::address() const {
  return parts_ == nullptr ? DeviceAddress() : parts_->import->block.begin;
}

size_t SharedBuffer::bytes() const { return parts_ == nullptr ? 0 : parts_->import->block.bytes; }

void SharedBuffer::record_stream(StreamId stream) {
  if (parts_ == nullptr) unwrap(Status::invalid_argument("an empty buffer is used by no stream"));
  record_stream(parts_->device, stream);
}

void SharedBuffer::record_stream(Device& device, StreamId stream) {
  if (parts_ == nullptr) unwrap(Status::invalid_argument("an empty buffer is used by no stream"));
  const StreamUse use{&device, stream};
  std::vector<StreamUse>& uses = parts_->uses;
  if (std::find(uses.begin(), uses.end(), use) == uses.end()) uses.push_back(use);
}

bool SharedBuffer::is_exporter_alive() const {
  if (parts_ == nullptr) unwrap(Status::invalid_argument("an empty buffer has no exporter"));
  const std::optional<Lease>& lease = parts_->import->lease;
  return !lease || lease->is_exporter_alive();
}

void SharedBuffer::reset() noexcept {
  if (parts_ == nullptr) return;
  parts_->imports.close(std::move(parts_->import), std::move(parts_->uses));
  parts_.reset();
}

// --- base allocations ---------------------------------------------------------------------------

AddressRange Allocator::base_allocation(const Buffer& buffer) const {
  return base_of(block_of(buffer));
}

AddressRange Allocator::base_allocation(DeviceAddress address) const {
  return base_of(parts_->block_at(address));
}

AddressRange Allocator::base_of(const Block* block) const {
  const BlockMemory memory = parts_->engine->block_memory(block);
  const bool is_mapped = memory.origin == BlockMemory::Origin::kExtents ||
                         memory.origin == BlockMemory::Origin::kPaused;
  if (is_mapped) {
    unwrap(Status::invalid_argument(
        "the block's memory (of the paged engine, or of an expandable segment) is no allocation of "
        "the device and cannot be shared between processes as one: use Allocator::share with "
        "expandable_segments_ipc, or engine:classic with expandable_segments:False in the "
        "processes that share"));
  }
  return memory.range;
}

// --- peers --------------------------------------------------------------------------------------

void Allocator::enable_peer_access(Device& accessor) {
  const DeviceProperties& own = parts_->device.properties();
  const DeviceProperties& theirs = accessor.properties();
  if (own.backend != theirs.backend) {
    unwrap(Status::invalid_argument(text("a device of back end ", theirs.backend,
                                         " cannot reach memory of back end ", own.backend)));
  }
  unwrap(accessor.enable_peer_access(own.index));
  unwrap(parts_->engine->add_accessor(theirs.index));
  unwrap(parts_->imports.add_accessor(theirs.index));
}

// A plain copy needs access to both ends. The other form needs none, and costs more where there is.
void Allocator::copy_to(const Allocator& destination, const CopyRequest& copy) {
  Device& device = parts_->device;
  const DeviceIndex target = destination.parts_->device.properties().index;
  const bool has_access = destination.parts_->engine->is_accessor(device.properties().index);
  unwrap(has_access ? device.copy(copy.to, copy.from, copy.bytes, copy.stream)
                    : device.copy_to_peer(target, copy.to, copy.from, copy.bytes, copy.stream));
}

}  // namespace ashlar
