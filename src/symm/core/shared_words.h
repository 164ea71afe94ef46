// SPDX-License-Identifier: Apache-2.0
//
// Atomic operations on words that several ranks share, and waiting until a word changes. Ranks are
// threads or processes on one machine.
//
// The signal and barrier algorithms take this class as a template parameter, so that a test can
// substitute one that explores every interleaving.
#pragma once

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>

namespace ashlar::symm {

class SharedWords {
 public:
  template <typename T>
  static T load(const T* word, std::memory_order order) {
    return std::atomic_ref<T>(*const_cast<T*>(word)).load(order);
  }
  template <typename T>
  static void store(T* word, T value, std::memory_order order) {
    std::atomic_ref<T>(*word).store(value, order);
  }
  template <typename T>
  static T add(T* word, T value, std::memory_order order) {
    return std::atomic_ref<T>(*word).fetch_add(value, order);
  }
  // Returns true if the word was `expected` and has been set to `wanted`.
  template <typename T>
  static bool compare_exchange(T* word, T expected, T wanted, std::memory_order order) {
    return std::atomic_ref<T>(*word).compare_exchange_strong(expected, wanted, order,
                                                             std::memory_order_relaxed);
  }

  static void pause();  // one iteration of a spin loop
  // Yields the core, unless a recent yield took long. Returns false if the caller should sleep
  // instead, because other programs occupy the core for whole time slices.
  static bool yield();
  // If `*word == seen`, sleeps until `wake_all`, a POSIX signal, or the end of `at_most`. Does not
  // report the cause, so the caller has to check the word again.
  static void sleep(const uint32_t* word, uint32_t seen, std::chrono::nanoseconds at_most);
  static void wake_all(const uint32_t* word);
};

// Returns the part of a word that `sleep` and `wake_all` use, since a futex is 32 bits wide. For a
// 64-bit counter that is the low half, which changes unless a multiple of 2^32 is added.
inline const uint32_t* futex_word(const uint32_t* word) { return word; }
inline const uint32_t* futex_word(const uint64_t* word) {
  static_assert(std::endian::native == std::endian::little);
  return reinterpret_cast<const uint32_t*>(word);
}

inline void SharedWords::pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // `yield` is a no-op on most aarch64 cores; `isb` takes about as long as `pause` on x86.
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace ashlar::symm
