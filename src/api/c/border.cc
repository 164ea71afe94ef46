// SPDX-License-Identifier: Apache-2.0
//
// The thread's last failure: plain bytes, so that noting one needs no memory and a thread's end
// destroys nothing.
#include "api/c/border.h"

#include <array>
#include <string_view>

namespace ashlar::c_api {
namespace {

// Long enough for every report of the engines.
constexpr size_t kMessageBytes = 4096;
constexpr size_t kCallBytes = 64;

struct LastFailure {
  std::array<char, kMessageBytes> message;
  std::array<char, kCallBytes> call;
  int64_t code;
};

thread_local LastFailure last_failure{};

template <size_t kBytes>
void keep(std::string_view text, std::array<char, kBytes>& into) {
  const size_t count = text.copy(into.data(), kBytes - 1);
  into[count] = '\0';
}

ashlar_status code_of(StatusKind kind) {
  switch (kind) {
    case StatusKind::kOk: return ASHLAR_OK;
    case StatusKind::kOutOfMemory: return ASHLAR_OUT_OF_MEMORY;
    case StatusKind::kInvalidArgument: return ASHLAR_INVALID_ARGUMENT;
    case StatusKind::kUnsupported: return ASHLAR_UNSUPPORTED;
    case StatusKind::kDeviceFault: return ASHLAR_DEVICE_FAULT;
    case StatusKind::kDeviceLost: return ASHLAR_DEVICE_LOST;
    case StatusKind::kFormat: return ASHLAR_FORMAT;
    case StatusKind::kTimeout: return ASHLAR_TIMEOUT;
    case StatusKind::kPeerLost: return ASHLAR_PEER_LOST;
  }
  return ASHLAR_INTERNAL;
}

struct Failure {
  std::string_view message;
  std::string_view call = {};
  int64_t code = 0;
};

void note(const Failure& failure) {
  keep(failure.message, last_failure.message);
  keep(failure.call, last_failure.call);
  last_failure.code = failure.code;
}

}  // namespace

ashlar_status failed(const Status& status) noexcept {
  note({status.message(), status.call(), status.code()});
  return code_of(status.kind());
}

ashlar_status failed_usage(const char* message) noexcept {
  note({message});
  return ASHLAR_INVALID_ARGUMENT;
}

ashlar_status failed_by_exception() noexcept {
  try {
    throw;
  } catch (const OutOfMemory& failure) {
    return failed(failure.status());
  } catch (const Error& failure) {
    return failed(failure.status());
  } catch (const std::bad_alloc&) {
    note({"the host has no memory"});
    return ASHLAR_HOST_OUT_OF_MEMORY;
  } catch (const std::exception& failure) {
    note({failure.what()});
    return ASHLAR_INTERNAL;
  } catch (...) {
    note({"something was thrown that is no std::exception"});
    return ASHLAR_INTERNAL;
  }
}

}  // namespace ashlar::c_api

const char* ashlar_last_message() noexcept { return ashlar::c_api::last_failure.message.data(); }
const char* ashlar_last_call() noexcept { return ashlar::c_api::last_failure.call.data(); }
int64_t ashlar_last_code() noexcept { return ashlar::c_api::last_failure.code; }

const char* ashlar_status_name(ashlar_status status) noexcept {
  switch (status) {
    case ASHLAR_OK: return "ok";
    case ASHLAR_OUT_OF_MEMORY: return "out of memory";
    case ASHLAR_INVALID_ARGUMENT: return "invalid argument";
    case ASHLAR_UNSUPPORTED: return "unsupported";
    case ASHLAR_DEVICE_FAULT: return "device fault";
    case ASHLAR_DEVICE_LOST: return "device lost";
    case ASHLAR_FORMAT: return "format error";
    case ASHLAR_TIMEOUT: return "timeout";
    case ASHLAR_PEER_LOST: return "peer lost";
    case ASHLAR_HOST_OUT_OF_MEMORY: return "out of host memory";
    case ASHLAR_INTERNAL: return "internal";
    default: return "unknown";
  }
}
