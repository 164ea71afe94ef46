// SPDX-License-Identifier: Apache-2.0
//
// Implements Status as a pointer to an immutable description of the error, with a reference count;
// null means ok.
#include "ashlar/status.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <new>

#include "base/text.h"

namespace ashlar {

struct Status::Detail {
  Detail(StatusKind error_kind, std::string text, std::string_view failed_call, long error_code)
      : kind(error_kind), message(std::move(text)), call(failed_call), code(error_code) {}

  const StatusKind kind;
  const std::string message;
  const std::string call;
  const long code;
  // Number of statuses that share this description.
  mutable std::atomic<uint64_t> reference_count{1};
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
    case StatusKind::kHostOutOfMemory: return "out of host memory";
  }
  return "unknown";
}

// Acquire and release order make all reads of the description happen before its deletion.
void Status::Deleter::operator()(const Detail* detail) const {
  if (detail->reference_count.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    std::default_delete<const Detail>()(detail);
  }
}

Status Status::make(StatusKind kind, std::string message, std::string_view call, long code) {
  auto detail = std::make_unique<const Detail>(kind, std::move(message), call, code);
  return Status(SharedDetail(detail.release()));
}

// Relaxed: the calling thread already holds a reference.
Status::SharedDetail Status::share_detail() const noexcept {
  detail_->reference_count.fetch_add(1, std::memory_order_relaxed);
  return SharedDetail(detail_.get());
}

Status Status::out_of_memory(std::string message) {
  return make(StatusKind::kOutOfMemory, std::move(message));
}

Status Status::invalid_argument(std::string message) {
  return make(StatusKind::kInvalidArgument, std::move(message));
}

Status Status::unsupported(std::string message) {
  return make(StatusKind::kUnsupported, std::move(message));
}

Status Status::format(std::string message) { return make(StatusKind::kFormat, std::move(message)); }

Status Status::timeout(std::string message) {
  return make(StatusKind::kTimeout, std::move(message));
}

Status Status::peer_lost(std::string message) {
  return make(StatusKind::kPeerLost, std::move(message));
}

Status Status::device_fault(std::string_view call, long code, std::string message) {
  return make(StatusKind::kDeviceFault, std::move(message), call, code);
}

Status Status::device_lost(std::string_view call, long code, std::string message) {
  return make(StatusKind::kDeviceLost, std::move(message), call, code);
}

// The description is constructed in static memory, and its text is short enough for std::string to
// store in place. It is never destroyed, because the first reference is never dropped.
Status Status::host_out_of_memory() noexcept {
  alignas(Detail) static std::array<std::byte, sizeof(Detail)> memory;
  static const Detail* const detail =
      std::construct_at(reinterpret_cast<Detail*>(memory.data()), StatusKind::kHostOutOfMemory,
                        "no memory left", std::string_view(), 0);
  detail->reference_count.fetch_add(1, std::memory_order_relaxed);
  return Status(SharedDetail(detail));
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
