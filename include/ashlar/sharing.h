// SPDX-License-Identifier: Apache-2.0
//
// Shares blocks of an allocator with other processes and other devices.
//
//   Share share = allocator.sharing().share(buffer);       // exporter: send share.handle()
//   SharedBuffer buffer = allocator.sharing().open(handle);  // importer
//
// The exporter's allocator keeps the memory until the Share and every SharedBuffer opened from it
// are destroyed, even if the buffer is freed earlier. If an importer is killed, its SharedBuffers
// count as destroyed. Both processes must run on one machine, as the same user. See
// docs/how-to/sharing.md.
//
// Errors: functions throw.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "ashlar/buffer.h"
#include "ashlar/device.h"
#include "ashlar/export.h"
#include "ashlar/types.h"

namespace ashlar {

class Allocator;
class ShareServer;

// Lets other processes open a block while this object exists. The allocator must outlive it.
class ASHLAR_EXPORT Share {
 public:
  Share() = default;
  Share(Share&& other) noexcept;
  Share& operator=(Share&& other) noexcept;
  ~Share() { reset(); }

  // Returns the bytes to send to another process; empty if the share is empty. While a block is
  // shared, its handle does not change, so it can serve as a key. Any process of the same user that
  // has the handle can open the block.
  const std::string& handle() const { return handle_; }
  explicit operator bool() const { return server_ != nullptr; }

  // Ends this share. Once all shares of the block have ended, new importers are rejected; existing
  // importers keep the block.
  void reset() noexcept;

 private:
  friend class AllocatorSharing;
  Share(ShareServer& server, Block* block, std::string handle)
      : server_(&server), block_(block), handle_(std::move(handle)) {}

  ShareServer* server_ = nullptr;
  Block* block_ = nullptr;
  std::string handle_;
};

// Memory of another process. The allocator that opened the buffer must outlive the buffer. Not
// thread safe.
class ASHLAR_EXPORT SharedBuffer {
 public:
  SharedBuffer();
  SharedBuffer(SharedBuffer&& other) noexcept;
  SharedBuffer& operator=(SharedBuffer&& other) noexcept;
  ~SharedBuffer();

  DeviceAddress address() const;  // null if empty
  // Returns the size that the exporter requested; for a bare AllocationHandle, the size of the
  // device allocation.
  size_t bytes() const;
  explicit operator bool() const { return impl_ != nullptr; }

  // Declares that work on a stream other than the one passed to `open` uses the buffer. The buffer
  // stays mapped until the work queued on that stream at the time of `reset` is done. Throws
  // InvalidArgument if the buffer is empty.
  void record_stream(StreamId stream);
  void record_stream(Device& device, StreamId stream);

  // Returns whether the exporter's allocator still exists; always true for a bare AllocationHandle.
  // Once that allocator is destroyed, mapped memory (of the paged engine or of expandable segments)
  // stays valid, but the driver may have freed a plain allocation, which must not be accessed.
  // Throws InvalidArgument if the buffer is empty.
  bool is_exporter_alive() const;

  // Closes the buffer without waiting: the memory is unmapped when the work on the recorded streams
  // is done. If closing fails, the allocator's next open or trim throws the error. If several
  // buffers failed to close, only the first error is thrown.
  void reset() noexcept;

 private:
  friend class AllocatorSharing;
  struct Impl;
  explicit SharedBuffer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// A copy from the memory of one allocator to the memory of another.
struct CopyRequest {
  DeviceAddress to{};
  DeviceAddress from{};
  size_t bytes = 0;
  StreamId stream{};  // a stream of the source device
};

// Sharing of one allocator's memory: `allocator.sharing()`. Thread safe.
class ASHLAR_EXPORT AllocatorSharing {
 public:
  AllocatorSharing(const AllocatorSharing&) = delete;
  AllocatorSharing& operator=(const AllocatorSharing&) = delete;
  ~AllocatorSharing();

  // Shares the whole block of a buffer, or of an address from allocate_raw. Blocks of the paged
  // engine and of expandable segments require AllocatorOptions::shareable_expandable_segments.
  // Throws InvalidArgument if the memory cannot be shared, for example because it comes from a
  // SegmentSource.
  Share share(const Buffer& buffer);
  Share share(DeviceAddress address);
  // Opens a block that another allocator shared, for work on `stream`, as if it were allocated on
  // that stream. `handle` is a Share::handle, a bare AllocationHandle (cudaIpcMemHandle_t), or
  // PyTorch's handle of a plain allocation. The same handle yields the same address. Throws
  // FormatError for a malformed handle or one of a newer version; InvalidArgument if the block
  // belongs to another device or to this allocator; DeviceError if the exporter is dead or has
  // ended the share.
  SharedBuffer open(std::string_view handle, StreamId stream = kDefaultStream);
  // Returns the device allocation that contains the block. Throws InvalidArgument for mapped memory
  // (of the paged engine or of expandable segments), which is not part of a device allocation.
  AddressRange base_allocation(const Buffer& buffer) const;
  AddressRange base_allocation(DeviceAddress address) const;

  // Gives `accessor` access to all present and future memory of this allocator, including memory
  // opened from other processes. Throws InvalidArgument if the devices are not peers.
  void enable_peer_access(Device& accessor);
  // Queues a copy from this allocator's memory to the memory of `destination`, over the fastest
  // path between their devices.
  void copy_to(const Allocator& destination, const CopyRequest& copy);

 private:
  friend class Allocator;
  struct Impl;
  explicit AllocatorSharing(Engine& engine);
  Status trim_imports();
  Block* block_of(const Buffer& buffer) const;
  AddressRange base_of(const Block* block) const;

  Engine& engine_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ashlar
