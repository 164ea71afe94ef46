// SPDX-License-Identifier: Apache-2.0
//
// Looks up the driver functions by name, because the cuda back end does not expose its driver
// table, which also lacks cuStreamWaitValue32.
#include "stream_pauser.h"

#include <dlfcn.h>

#include <algorithm>

#include "base/text.h"
#include "device_contract.h"

namespace ashlar::contract {
namespace {

template <typename Function>
void find(void* library, const char* name, Function& function) {
  void* found = dlsym(library, name);
  if (found == nullptr) require_ok(Status::unsupported(text("the driver has no ", name)));
  function = reinterpret_cast<Function>(found);
}

}  // namespace

StreamPauser::StreamPauser(Device& device) : device_(device) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) require_ok(Status::unsupported("the CUDA driver is not loaded"));
  int (*retain)(void**, int) = nullptr;
  find(library, "cuDevicePrimaryCtxRetain", retain);
  find(library, "cuCtxPushCurrent_v2", push_);
  find(library, "cuCtxPopCurrent_v2", pop_);
  find(library, "cuStreamWaitValue32_v2", wait_);
  const int code = retain(&context_, static_cast<int>(device_.properties().index.value()));
  if (code != 0) require_ok(Status::device_fault("cuDevicePrimaryCtxRetain", code, "no context"));
  // The context and the words are never released, because the device is used until the process
  // exits.
  words_ = static_cast<uint32_t*>(require_ok(device_.allocate_host(kWordCount * sizeof(uint32_t))));
  std::fill_n(words_, kWordCount, 0U);
}

Status StreamPauser::pause_stream(StreamId stream) {
  if (paused_.contains(stream)) return {};
  if (next_ == kWordCount) return Status::invalid_argument("all words are used");
  push_(context_);
  const size_t word = next_++;
  const int code = wait_(reinterpret_cast<void*>(stream.value()),
                         reinterpret_cast<uint64_t>(words_ + word), 1, /*at least*/ 0);
  void* popped = nullptr;
  pop_(&popped);
  if (code != 0) return Status::device_fault("cuStreamWaitValue32", code, "cannot queue the wait");
  paused_[stream] = word;
  return {};
}

Status StreamPauser::resume_stream(StreamId stream) {
  const auto found = paused_.find(stream);
  if (found == paused_.end()) return {};
  std::atomic_ref<uint32_t>(words_[found->second]).store(1);
  paused_.erase(found);
  return {};
}

}  // namespace ashlar::contract
