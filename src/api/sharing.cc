// SPDX-License-Identifier: Apache-2.0
//
// Implements ashlar/sharing.h: shares memory with other processes and with other devices.
#include "ashlar/sharing.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "api/allocator_impl.h"
#include "api/unwrap.h"
#include "base/text.h"
#include "share/imports.h"
#include "share/share_server.h"

namespace ashlar {

struct AllocatorSharing::Impl {
  explicit Impl(Engine& engine) : server(engine), imports(engine.device()) {}

  ShareServer server;
  Imports imports;
};

AllocatorSharing::AllocatorSharing(Engine& engine)
    : engine_(engine), impl_(std::make_unique<Impl>(engine)) {}

AllocatorSharing::~AllocatorSharing() = default;

Status AllocatorSharing::trim_imports() { return impl_->imports.trim(); }

// Exports.

Share AllocatorSharing::share(const Buffer& buffer) {
  Block* block = block_of(buffer);
  return Share(impl_->server, block, unwrap(impl_->server.share(block)));
}

Share AllocatorSharing::share(DeviceAddress address) {
  Block* block = block_at(engine_, address);
  return Share(impl_->server, block, unwrap(impl_->server.share(block)));
}

Block* AllocatorSharing::block_of(const Buffer& buffer) const {
  buffer.check_usable();
  if (buffer.engine_ != &engine_) {
    unwrap(Status::invalid_argument(
        text("the buffer at ", buffer.address(), " belongs to another allocator")));
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

// In a forked child, ends nothing: the share belongs to the parent.
void Share::reset() noexcept {
  if (server_ != nullptr && server_->in_creating_process()) server_->end_share(block_);
  server_ = nullptr;
  block_ = nullptr;
  handle_.clear();
}

// Imports.

struct SharedBuffer::Impl {
  Engine& engine;
  Imports& imports;
  Device& device;                  // the device of the allocator that opened the buffer
  std::shared_ptr<Import> import;  // shared by all buffers that opened the same handle
  std::vector<DeviceStream> uses;
};

SharedBuffer AllocatorSharing::open(std::string_view handle, StreamId stream) {
  usable(engine_);
  const ShareHandle parsed = unwrap(parse_share_handle(handle));
  if (!parsed.is_bare && impl_->server.is_own(parsed.exporter)) {
    unwrap(Status::invalid_argument(
        "the block was shared by this allocator: use the address of its buffer"));
  }
  const DeviceStream first{&engine_.device(), stream};
  SharedBuffer::Impl impl{engine_, impl_->imports, engine_.device(), {}, {first}};
  auto opened = std::make_unique<SharedBuffer::Impl>(std::move(impl));
  // The last step: an import that has been opened must be closed.
  opened->import = unwrap(impl_->imports.open(handle));
  return SharedBuffer(std::move(opened));
}

SharedBuffer::SharedBuffer() = default;
SharedBuffer::SharedBuffer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SharedBuffer::SharedBuffer(SharedBuffer&& other) noexcept = default;
SharedBuffer::~SharedBuffer() { reset(); }

SharedBuffer& SharedBuffer::operator=(SharedBuffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  impl_ = std::move(other.impl_);
  return *this;
}

DeviceAddress SharedBuffer::address() const {
  return impl_ == nullptr ? DeviceAddress() : impl_->import->block.begin;
}

size_t SharedBuffer::bytes() const { return impl_ == nullptr ? 0 : impl_->import->block.bytes; }

void SharedBuffer::record_stream(StreamId stream) {
  if (impl_ == nullptr) unwrap(Status::invalid_argument("the shared buffer is empty"));
  record_stream(impl_->device, stream);
}

void SharedBuffer::record_stream(Device& device, StreamId stream) {
  if (impl_ == nullptr) unwrap(Status::invalid_argument("the shared buffer is empty"));
  const DeviceStream use{&device, stream};
  std::vector<DeviceStream>& uses = impl_->uses;
  if (std::find(uses.begin(), uses.end(), use) == uses.end()) uses.push_back(use);
}

bool SharedBuffer::is_exporter_alive() const {
  if (impl_ == nullptr) unwrap(Status::invalid_argument("the shared buffer is empty"));
  usable(impl_->engine);
  const std::optional<Lease>& lease = impl_->import->lease;
  return !lease || lease->is_exporter_alive();
}

// In a forked child, leaks the import, which belongs to the parent.
void SharedBuffer::reset() noexcept {
  if (impl_ == nullptr) return;
  if (!impl_->engine.in_creating_process()) {
    static_cast<void>(impl_.release());
    return;
  }
  impl_->imports.close(std::move(impl_->import), std::move(impl_->uses));
  impl_.reset();
}

// Base allocations.

AddressRange AllocatorSharing::base_allocation(const Buffer& buffer) const {
  return base_of(block_of(buffer));
}

AddressRange AllocatorSharing::base_allocation(DeviceAddress address) const {
  return base_of(block_at(engine_, address));
}

AddressRange AllocatorSharing::base_of(const Block* block) const {
  const BlockMemory memory = engine_.block_memory(block);
  const bool is_mapped = memory.origin == BlockMemory::Origin::kExtents ||
                         memory.origin == BlockMemory::Origin::kPaused;
  if (is_mapped) {
    unwrap(Status::invalid_argument(
        "the block's memory is mapped (paged engine or expandable segment) and not part of a "
        "device allocation: use AllocatorSharing::share with expandable_segments_ipc, or "
        "engine:classic with expandable_segments:False in the processes that share"));
  }
  return memory.range;
}

// Peers.

void AllocatorSharing::enable_peer_access(Device& accessor) {
  usable(engine_);
  const DeviceProperties& own_properties = engine_.device().properties();
  const DeviceProperties& accessor_properties = accessor.properties();
  if (own_properties.backend != accessor_properties.backend) {
    unwrap(Status::invalid_argument(text("a device of back end ", accessor_properties.backend,
                                         " cannot access memory of back end ",
                                         own_properties.backend)));
  }
  unwrap(accessor.enable_peer_access(own_properties.index));
  unwrap(engine_.add_accessor(accessor_properties.index));
  unwrap(impl_->imports.add_accessor(accessor_properties.index));
}

// A plain copy requires access to both ends but is faster than a peer copy, which requires none.
void AllocatorSharing::copy_to(const Allocator& destination, const CopyRequest& copy) {
  Device& device = usable(engine_).device();
  const DeviceIndex target = destination.device().properties().index;
  const Engine& target_engine = usable(*AllocatorAccess::impl(destination).engine);
  const bool has_access = target_engine.is_accessor(device.properties().index);
  unwrap(has_access ? device.copy(copy.to, copy.from, copy.bytes, copy.stream)
                    : device.copy_to_peer(target, copy.to, copy.from, copy.bytes, copy.stream));
}

}  // namespace ashlar
