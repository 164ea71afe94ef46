// SPDX-License-Identifier: Apache-2.0
//
// Stores the last error of each thread in arrays of characters, so that storing does not allocate
// and a thread's exit runs no destructor.
#include "api/c/boundary.h"

#include <array>
#include <string_view>

namespace ashlar::c_api {
namespace {

// The sizes of the stored texts. Longer texts are truncated.
constexpr size_t kMessageBytes = 4096;
constexpr size_t kCallBytes = 64;

struct ErrorRecord {
  std::array<char, kMessageBytes> message;
  std::array<char, kCallBytes> call;
  int64_t code;
};

thread_local ErrorRecord last_error{};

template <size_t kBytes>
void copy_truncated(std::string_view text, std::array<char, kBytes>& into) {
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
    case StatusKind::kHostOutOfMemory: return ASHLAR_HOST_OUT_OF_MEMORY;
  }
  return ASHLAR_INTERNAL;
}

struct ErrorText {
  std::string_view message;
  std::string_view call = {};
  int64_t code = 0;
};

void set_last_error(const ErrorText& error) {
  copy_truncated(error.message, last_error.message);
  copy_truncated(error.call, last_error.call);
  last_error.code = error.code;
}

}  // namespace

ashlar_status fail(const Status& status) noexcept {
  set_last_error({status.message(), status.failed_call(), status.code()});
  return code_of(status.kind());
}

ashlar_status fail_invalid_argument(const char* message) noexcept {
  set_last_error({message});
  return ASHLAR_INVALID_ARGUMENT;
}

ashlar_status fail_with_current_exception() noexcept {
  try {
    throw;
  } catch (const OutOfMemory& error) {
    return fail(error.status());
  } catch (const Error& error) {
    return fail(error.status());
  } catch (const std::bad_alloc&) {
    set_last_error({"out of host memory"});
    return ASHLAR_HOST_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    set_last_error({error.what()});
    return ASHLAR_INTERNAL;
  } catch (...) {
    set_last_error({"unknown exception, not derived from std::exception"});
    return ASHLAR_INTERNAL;
  }
}

}  // namespace ashlar::c_api

const char* ashlar_last_message() noexcept { return ashlar::c_api::last_error.message.data(); }
const char* ashlar_last_call() noexcept { return ashlar::c_api::last_error.call.data(); }
int64_t ashlar_last_code() noexcept { return ashlar::c_api::last_error.code; }

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
