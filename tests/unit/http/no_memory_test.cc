// SPDX-License-Identifier: Apache-2.0
//
// Tests of a server without host memory: every allocation of its threads for a connection fails
// once, and the process survives. The failing operator new applies to the whole executable.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <regex>
#include <string>

#include "ashlar/allocator.h"
#include "ashlar/live.h"
#include "ashlar/sim.h"
#include "base/text.h"
#include "base/units.h"
#include "unit/http/socket_client.h"

namespace {

// The number of allocations that succeed before one fails; negative: none fails. Accesses are
// sequentially consistent, because the number is set before a request is sent and read after the
// response.
std::atomic<int64_t> allocations_before_failure{-1};
// Whether allocations of this thread never fail. The test sets it in its own threads.
thread_local bool is_exempt = false;

void* allocate_or_fail(size_t bytes) noexcept {
  if (!is_exempt && allocations_before_failure >= 0 &&
      allocations_before_failure.fetch_sub(1) == 0) {
    return nullptr;
  }
  return std::malloc(bytes == 0 ? 1 : bytes);  // NOLINT(cppcoreguidelines-no-malloc)
}

}  // namespace

void* operator new(size_t bytes) {
  void* memory = allocate_or_fail(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return allocate_or_fail(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }          // NOLINT
void operator delete(void* memory, size_t) noexcept { std::free(memory); }  // NOLINT

namespace ashlar {
namespace {

constexpr const char* kToken = "a-token-of-0123456789";

// Returns the response without numbers, which differ between responses; empty if it is a pickle.
std::string shape_of(const std::string& response) {
  const std::string shape = response.find("octet-stream") < response.size() ? "" : response;
  return std::regex_replace(shape, std::regex("[0-9.]+(e-?[0-9]+)?"), "");
}

class NoMemoryTest : public ::testing::TestWithParam<const char*> {
 protected:
  NoMemoryTest() { is_exempt = true; }
  ~NoMemoryTest() override { is_exempt = false; }
};

TEST_P(NoMemoryTest, DropsClientAndSurvivesWithoutMemory) {
  sim::Options options;
  options.capacity_bytes = kGiB;
  const std::unique_ptr<sim::Machine> machine = *sim::Machine::try_create(options);
  Allocator allocator(machine->device(DeviceIndex(0)));
  const Buffer buffer = allocator.allocate(kMiB);
  const LiveServer live({.port = 0, .token = kToken});
  const auto port = static_cast<uint16_t>(std::stoi(live.url().substr(17)));
  const std::string question = text("GET ", GetParam(), " HTTP/1.1\r\nHost: 127.0.0.1:", port,
                                    "\r\nAuthorization: Bearer ", kToken, "\r\n\r\n");
  const auto exchange = [&] {
    SocketClient client(port);
    client.send(question);
    client.end_sending();
    return client.read_all();
  };
  const std::string wanted = exchange();
  size_t dropped_count = 0;
  bool was_reached = true;
  for (int64_t n = 0; was_reached; ++n) {
    allocations_before_failure = n;
    const std::string received = exchange();
    dropped_count += received.empty() ? 1 : 0;
    if (code_of(received) == 200) {
      EXPECT_EQ(shape_of(received), shape_of(wanted)) << "a part is missing after failure " << n;
    }
    was_reached = allocations_before_failure.exchange(-1) < 0;
    ASSERT_EQ(code_of(exchange()), code_of(wanted)) << "after failure " << n;
  }
  EXPECT_GT(dropped_count, 3U) << "failed allocations must drop connections";
}

INSTANTIATE_TEST_SUITE_P(Requests, NoMemoryTest,
                         ::testing::Values("/stats", "/metrics", "/snapshot", "/nothing"));

}  // namespace
}  // namespace ashlar
