// SPDX-License-Identifier: Apache-2.0
//
// A block of an allocator, seen by two processes.
//
//   Share share = allocator.share(buffer);              // in one, which then sends share.handle()
//   SharedBuffer seen = allocator.open_shared(handle);  // in the other
//
// The exporter's allocator keeps the memory until its Share and every SharedBuffer of it are gone,
// whoever frees the buffer meanwhile; if an importer is killed, the system says so. Both processes
// are on one machine and belong to one user. docs/guide/sharing.md has the rest.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "ashlar/device.h"
#include "ashlar/export.h"
#include "ashlar/types.h"

namespace ashlar {

struct Block;
class ShareServer;

// While it lives, others can open the block. The allocator outlives it.
class ASHLAR_EXPORT Share {
 public:
  Share() = default;
  Share(Share&& other) noexcept;
  Share& operator=(Share&& other) noexcept;
  ~Share() { reset(); }

  // Bytes to be sent to another process; empty for an empty share. Equal for equal blocks, as long
  // as the block is shared, so that they can be a key. Whoever has them can open the block, if it
  // runs as the same user.
  const std::string& handle() const { return handle_; }
  explicit operator bool() const { return server_ != nullptr; }

  // Nobody can open it from here on; those who have it keep it.
  void reset() noexcept;

 private:
  friend class Allocator;
  Share(ShareServer& server, Block* block, std::string handle)
      : server_(&server), block_(block), handle_(std::move(handle)) {}

  ShareServer* server_ = nullptr;
  Block* block_ = nullptr;
  std::string handle_;
};

// Memory of another process. The allocator that opened it outlives it. One thread at a time.
class ASHLAR_EXPORT SharedBuffer {
 public:
  SharedBuffer();
  SharedBuffer(SharedBuffer&& other) noexcept;
  SharedBuffer& operator=(SharedBuffer&& other) noexcept;
  ~SharedBuffer();

  DeviceAddress address() const;  // null when empty
  size_t bytes() const;           // as the exporter asked for; of a bare handle, all there is
  explicit operator bool() const { return parts_ != nullptr; }

  // Work on a stream other than the one it was opened for uses the buffer: it is not closed before
  // that stream has got past what is queued there when the buffer is reset. Throws InvalidArgument
  // if empty.
  void record_stream(StreamId stream);
  void record_stream(Device& device, StreamId stream);

  // Whether the exporter's allocator still is there. If not, memory of expandable segments stays
  // as it is; a plain allocation may be gone with a real driver, and is not to be touched.
  // Of a bare allocation handle nobody knows: true. Throws InvalidArgument if empty.
  bool is_exporter_alive() const;

  // Closes it, without waiting: the mapping goes when the streams are done. A failure surfaces at
  // the allocator's next open_shared or trim.
  void reset() noexcept;

 private:
  friend class Allocator;
  struct Parts;
  explicit SharedBuffer(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace ashlar
