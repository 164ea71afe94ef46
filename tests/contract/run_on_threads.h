// SPDX-License-Identifier: Apache-2.0
//
// Runs one function on many threads.
#pragma once

#include <exception>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ashlar::contract {

// Runs `function` on each thread and waits for all threads. All calls start at the same time. An
// exception fails the test.
inline void run_on_threads(size_t thread_count,
                           const std::function<void(size_t thread)>& function) {
  std::latch start(static_cast<std::ptrdiff_t>(thread_count));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < thread_count; ++i) {
    threads.emplace_back([&start, &function, i] {
      start.arrive_and_wait();
      try {
        function(i);
      } catch (const std::exception& failure) {
        ADD_FAILURE() << "thread " << i << ": " << failure.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ashlar::contract
