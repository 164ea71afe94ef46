// SPDX-License-Identifier: Apache-2.0
//
// Host implementation of intrinsics.h for tests: the threads of a kernel run one after the other on
// one host thread. The executor provides the thread index and translates device addresses.
#pragma once

#include <atomic>
#include <cstdint>

namespace ashlar::symm::kernels {

class HostExecutor {
 public:
  virtual ~HostExecutor() = default;
  // Translates a device address. Does not return if the address is invalid.
  virtual void* translate(uint64_t address, uint64_t bytes) = 0;
  // Returns the number of ranks' copies behind a multicast address. `translate_copy` translates the
  // address to copy number `copy`.
  virtual uint32_t copy_count(uint64_t /*address*/) { return 1; }
  virtual void* translate_copy(uint64_t address, uint64_t bytes, uint32_t /*copy*/) {
    return translate(address, bytes);
  }
  // Called between polls of a word. Does not return after the device is lost.
  virtual void back_off(uint32_t turn) = 0;
  virtual uint64_t now_ns() const = 0;

  uint64_t began_ns = 0;
  uint32_t thread_index = 0;
  uint32_t thread_count = 1;
  uint32_t block_index = 0;
  uint32_t block_count = 1;
};

// The executor that runs a kernel on this thread.
inline HostExecutor*& current_executor() {
  thread_local HostExecutor* executor = nullptr;
  return executor;
}

inline uint32_t thread_index() { return current_executor()->thread_index; }
inline uint32_t thread_count() { return current_executor()->thread_count; }
inline uint32_t block_index() { return current_executor()->block_index; }
inline uint32_t block_count() { return current_executor()->block_count; }
inline uint64_t now_ns() { return current_executor()->now_ns(); }
inline uint64_t began_ns() { return current_executor()->began_ns; }
inline void back_off(uint32_t turn) { current_executor()->back_off(turn); }

template <typename T>
T* device_memory(uint64_t address, uint64_t count = 1) {
  return static_cast<T*>(current_executor()->translate(address, count * sizeof(T)));
}
template <typename T>
T* host_memory(uint64_t address) {
  return reinterpret_cast<T*>(static_cast<uintptr_t>(address));
}

template <typename Pack>
Pack read_pack(const Pack* from) {
  return *from;
}
template <typename Pack>
void write_pack(Pack* to, const Pack& pack) {
  *to = pack;
}

template <typename Word>
std::atomic_ref<Word> atomic(const Word* word) {
  return std::atomic_ref<Word>(*const_cast<Word*>(word));
}
inline uint32_t load(const uint32_t* word) { return atomic(word).load(std::memory_order_relaxed); }
inline uint64_t load(const uint64_t* word) { return atomic(word).load(std::memory_order_relaxed); }
template <typename Word>
Word load_acquire(const Word* word) {
  return atomic(word).load(std::memory_order_acquire);
}
template <typename Word>
void store(Word* word, Word value) {
  atomic(word).store(value, std::memory_order_relaxed);
}
template <typename Word>
void store_release(Word* word, Word value) {
  atomic(word).store(value, std::memory_order_release);
}
inline bool compare_exchange(uint32_t* word, uint32_t expected, uint32_t wanted) {
  return atomic(word).compare_exchange_strong(expected, wanted, std::memory_order_acq_rel);
}
template <typename Word>
Word add(Word* word, Word amount) {
  return atomic(word).fetch_add(amount, std::memory_order_acq_rel);
}

}  // namespace ashlar::symm::kernels
