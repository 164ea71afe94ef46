// SPDX-License-Identifier: Apache-2.0
//
// Implements Status as a pointer to an immutable description of the error; null means ok.
#include "ashlar/status.h"

#include "base/text.h"

namespace ashlar {

struct Status::Detail {
  StatusKind kind;
  std::string message;
  std::string call;
  long code = 0;
};

std::string_view name(StatusKind kind) {
  switch (kind) {
    case StatusKind::kOk: return "ok";
    case StatusKind::kOutOfMemory: return "out of memory";
    case StatusKind::kInvalidArgument: return "invalid argument";
    case StatusKind::kUnsupported: return "unsupported";
    case StatusKind::kDeviceFault: return "device fault";
    case StatusKind::kDeviceLost: return "device lost";
    case StatusKind::kFormat: return "format error";
    case StatusKind::kTimeout: return "timeout";
    case StatusKind::kPeerLost: return "peer lost";
  }
  return "unknown";
}

void Status::Deleter::operator()(const Detail* detail) const {
  std::default_delete<const Detail>()(detail);
}

Status::Status(Detail detail)
    : detail_(std::make_unique<const Detail>(std::move(detail)).release()) {}

Status::OwnDetail Status::copy_detail() const {
  return OwnDetail(std::make_unique<const Detail>(*detail_).release());
}

Status Status::out_of_memory(std::string message) {
  return Status({StatusKind::kOutOfMemory, std::move(message), {}, 0});
}

Status Status::invalid_argument(std::string message) {
  return Status({StatusKind::kInvalidArgument, std::move(message), {}, 0});
}

Status Status::unsupported(std::string message) {
  return Status({StatusKind::kUnsupported, std::move(message), {}, 0});
}

Status Status::format(std::string message) {
  return Status({StatusKind::kFormat, std::move(message), {}, 0});
}

Status Status::timeout(std::string message) {
  return Status({StatusKind::kTimeout, std::move(message), {}, 0});
}

Status Status::peer_lost(std::string message) {
  return Status({StatusKind::kPeerLost, std::move(message), {}, 0});
}

Status Status::device_fault(std::string_view call, long code, std::string message) {
  return Status({StatusKind::kDeviceFault, std::move(message), std::string(call), code});
}

Status Status::device_lost(std::string_view call, long code, std::string message) {
  return Status({StatusKind::kDeviceLost, std::move(message), std::string(call), code});
}

StatusKind Status::kind() const { return detail_ ? detail_->kind : StatusKind::kOk; }

const std::string& Status::message() const {
  static const std::string none;
  return detail_ ? detail_->message : none;
}

const std::string& Status::failed_call() const {
  static const std::string none;
  return detail_ ? detail_->call : none;
}

long Status::code() const { return detail_ ? detail_->code : 0; }

std::string Status::to_string() const {
  if (ok()) return "ok";
  std::string described = text(name(kind()), ": ", message());
  if (!failed_call().empty()) described += text(" (", failed_call(), ", code ", code(), ")");
  return described;
}

}  // namespace ashlar
