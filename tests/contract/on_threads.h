// SPDX-License-Identifier: Apache-2.0
//
// The same act on many threads at once.
#pragma once

#include <exception>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ashlar::contract {

// They begin together; whatever one of them throws is a failure of the test.
inline void run_on_threads(size_t thread_count, const std::function<void(size_t thread)>& act) {
  std::latch start(static_cast<std::ptrdiff_t>(thread_count));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < thread_count; ++i) {
    threads.emplace_back([&start, &act, i] {
      start.arrive_and_wait();
      try {
        act(i);
      } catch (const std::exception& failure) {
        ADD_FAILURE() << "thread " << i << ": " << failure.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ashlar::contract
