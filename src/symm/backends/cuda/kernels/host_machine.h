// SPDX-License-Identifier: Apache-2.0
//
// The host in a device's place, for machine.h: the threads of a kernel run one after the other on
// the thread that runs the stream. Whoever runs kernels so says here which thread it is, and how
// addresses of the device are seen.
#pragma once

#include <atomic>
#include <cstdint>

namespace ashlar::symm::kernels {

class HostMachine {
 public:
  virtual ~HostMachine() = default;
  // Memory at an address of the device; does not return if there is none.
  virtual void* see(uint64_t address, uint64_t bytes) = 0;
  // How many there are of what a multicast address stands for, and one of them; as above.
  virtual uint32_t copy_count(uint64_t /*address*/) { return 1; }
  virtual void* see_copy(uint64_t address, uint64_t bytes, uint32_t /*copy*/) {
    return see(address, bytes);
  }
  // Between two looks at a word; does not return once the device is lost.
  virtual void rest(uint32_t turn) = 0;
  virtual uint64_t now_ns() const = 0;

  uint64_t began_ns = 0;
  uint32_t thread_index = 0;
  uint32_t thread_count = 1;
  uint32_t block_index = 0;
  uint32_t block_count = 1;
};

// The one that runs a kernel on this thread.
inline HostMachine*& running_machine() {
  thread_local HostMachine* machine = nullptr;
  return machine;
}

inline uint32_t thread_index() { return running_machine()->thread_index; }
inline uint32_t thread_count() { return running_machine()->thread_count; }
inline uint32_t block_index() { return running_machine()->block_index; }
inline uint32_t block_count() { return running_machine()->block_count; }
inline uint64_t now_ns() { return running_machine()->now_ns(); }
inline uint64_t began_ns() { return running_machine()->began_ns; }
inline void rest(uint32_t turn) { running_machine()->rest(turn); }

template <typename T>
T* device_memory(uint64_t address, uint64_t count = 1) {
  return static_cast<T*>(running_machine()->see(address, count * sizeof(T)));
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
