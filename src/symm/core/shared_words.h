// SPDX-License-Identifier: Apache-2.0
//
// Memory that several ranks see, as signals and barriers use it: atomic steps on plain words, and
// sleeping until a word changes. Ranks may be threads or processes; nothing here is private to one.
//
// The algorithms take this class as a parameter, so that a test can put another in its place and
// try every order of steps.
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
  // True: it was `expected`, and is now `wanted`.
  template <typename T>
  static bool compare_exchange(T* word, T expected, T wanted, std::memory_order order) {
    return std::atomic_ref<T>(*word).compare_exchange_strong(expected, wanted, order,
                                                             std::memory_order_relaxed);
  }

  static void pause();  // for one turn of a loop that spins
  // Lets others run. False: do not come back for more, since the core is taken by programs that let
  // go of it only when their time is up, and nobody wakes a thread that yields.
  static bool yield();
  // Returns at once unless *word is `seen`; otherwise when woken, when interrupted, or after
  // `at_most`.
  static void sleep(const uint32_t* word, uint32_t seen, std::chrono::nanoseconds at_most);
  static void wake_all(const uint32_t* word);
};

// The system sleeps on 32 bits. Of a 64-bit counter, those that change first.
inline const uint32_t* futex_word(const uint32_t* word) { return word; }
inline const uint32_t* futex_word(const uint64_t* word) {
  static_assert(std::endian::native == std::endian::little);
  return reinterpret_cast<const uint32_t*>(word);
}

inline void SharedWords::pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // A yield does nothing on most of these processors; this one costs about as much as x86's pause.
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace ashlar::symm
