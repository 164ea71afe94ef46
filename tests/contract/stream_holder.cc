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
  find(library, "cuDevicePrimaryCtxRetain", retain_);
  find(library, "cuCtxPushCurrent_v2", push_);
  find(library, "cuCtxPopCurrent_v2", pop_);
  find(library, "cuStreamWaitValue32_v2", wait_);
  // Never freed: the device is there as long as the process.
  words_ = static_cast<uint32_t*>(must(device_.allocate_host(kWordCount * sizeof(uint32_t))));
  std::fill_n(words_, kWordCount, 0U);
}

Status StreamHolder::hold(StreamId stream) {
  if (next_ == kWordCount) return Status::usage("all words of the holder are used");
  void* context = nullptr;
  if (const int code = retain_(&context, 0); code != 0) {
    return Status::device_fault("cuDevicePrimaryCtxRetain", code, "no context");
  }
  push_(context);
  const size_t word = next_++;
  const int code = wait_(reinterpret_cast<void*>(stream.value()),
                         reinterpret_cast<uint64_t>(words_ + word), 1, /*at least*/ 0);
  pop_(&context);
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
