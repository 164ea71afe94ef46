// SPDX-License-Identifier: Apache-2.0
//
// The functions are called by the driver's own names, since no part of Ashlar needs them.
#include "stream_holder.h"

#include <dlfcn.h>

#include <algorithm>

#include "base/text.h"
#include "device_contract.h"

namespace ashlar::contract {
namespace {

template <typename Function>
void find(void* library, const char* name, Function& function) {
  void* found = dlsym(library, name);
  if (found == nullptr) must(Status::unsupported(text("the driver has no ", name)));
  function = reinterpret_cast<Function>(found);
}

}  // namespace

StreamHolder::StreamHolder(Device& device) : device_(device) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) must(Status::unsupported("the CUDA driver is not in use"));
  int (*retain)(void**, int) = nullptr;
  find(library, "cuDevicePrimaryCtxRetain", retain);
  find(library, "cuCtxPushCurrent_v2", push_);
  find(library, "cuCtxPopCurrent_v2", pop_);
  find(library, "cuStreamWaitValue32_v2", wait_);
  const int code = retain(&context_, static_cast<int>(device_.properties().index.value()));
  if (code != 0) must(Status::device_fault("cuDevicePrimaryCtxRetain", code, "no context"));
  // Neither is given back: the device is there as long as the process.
  words_ = static_cast<uint32_t*>(must(device_.allocate_host(kWordCount * sizeof(uint32_t))));
  std::fill_n(words_, kWordCount, 0U);
}

Status StreamHolder::hold(StreamId stream) {
  if (held_.contains(stream)) return {};
  if (next_ == kWordCount) return Status::invalid_argument("all words of the holder are used");
  push_(context_);
  const size_t word = next_++;
  const int code = wait_(reinterpret_cast<void*>(stream.value()),
                         reinterpret_cast<uint64_t>(words_ + word), 1, /*at least*/ 0);
  void* popped = nullptr;
  pop_(&popped);
  if (code != 0) return Status::device_fault("cuStreamWaitValue32", code, "it does not wait");
  held_[stream] = word;
  return {};
}

Status StreamHolder::resume(StreamId stream) {
  const auto found = held_.find(stream);
  if (found == held_.end()) return {};
  std::atomic_ref<uint32_t>(words_[found->second]).store(1);
  held_.erase(found);
  return {};
}

}  // namespace ashlar::contract
