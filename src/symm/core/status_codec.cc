// SPDX-License-Identifier: Apache-2.0
//
// The serialized form: magic number, kind, and a message of bounded length.
#include "symm/core/status_codec.h"

#include "base/text.h"
#include "base/wire.h"

namespace ashlar::symm {
namespace {

constexpr uint32_t kStatusMagic = 0x73687361;  // "ashs"
constexpr size_t kMaxStatusText = 4000;

}  // namespace

Status with_call(const Status& status) {
  if (status.failed_call().empty()) return status;
  return make_status(status.kind(), text(status.failed_call(), ": ", status.message()));
}

Status make_status(StatusKind kind, std::string message) {
  switch (kind) {
    case StatusKind::kOk: return {};
    case StatusKind::kOutOfMemory: return Status::out_of_memory(std::move(message));
    case StatusKind::kInvalidArgument: return Status::invalid_argument(std::move(message));
    case StatusKind::kUnsupported: return Status::unsupported(std::move(message));
    case StatusKind::kDeviceFault: return Status::device_fault({}, 0, std::move(message));
    case StatusKind::kDeviceLost: return Status::device_lost({}, 0, std::move(message));
    case StatusKind::kFormat: return Status::format(std::move(message));
    case StatusKind::kTimeout: return Status::timeout(std::move(message));
    case StatusKind::kPeerLost: return Status::peer_lost(std::move(message));
    case StatusKind::kHostOutOfMemory: return Status::host_out_of_memory();
  }
  return Status::format(std::move(message));
}

std::string to_bytes(const Status& status) {
  const std::string_view message = status.message();
  WireWriter writer;
  writer.append_number(kStatusMagic).append_number(static_cast<uint8_t>(status.kind()));
  return writer.append_text(message.substr(0, kMaxStatusText)).take();
}

Status parse_status(std::string_view bytes) {
  WireReader reader(bytes);
  const bool has_magic = reader.number<uint32_t>() == kStatusMagic;
  const auto kind = static_cast<StatusKind>(reader.number<uint8_t>());
  std::string message(reader.text(kMaxStatusText));
  if (!has_magic || !reader.is_done()) return Status::format("another rank's status is unreadable");
  if (kind > StatusKind::kHostOutOfMemory) {
    return Status::format(text("another rank's status has the unknown kind ", int(kind)));
  }
  return make_status(kind, std::move(message));
}

}  // namespace ashlar::symm
