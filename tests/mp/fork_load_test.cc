// SPDX-License-Identifier: Apache-2.0
//
// A process forks while its threads use all kinds of allocators, so that the children inherit locks
// that no thread will release. The children use, destroy or ignore the inherited objects, and exit.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ashlar/allocator.h"
#include "ashlar/c/ashlar.h"
#include "ashlar/host.h"
#include "ashlar/live.h"
#include "ashlar/sim.h"
#include "ashlar/store.h"
#include "ashlar/stream.h"
#include "ashlar/symmetric.h"
#include "base/text.h"
#include "base/units.h"

namespace ashlar {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kHasAsan = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kHasAsan = true;
#else
constexpr bool kHasAsan = false;
#endif
#else
constexpr bool kHasAsan = false;
#endif

constexpr int kForkCount = 1000;

// An alarm ends a child that hangs.
constexpr unsigned kChildSeconds = 60;

const std::array<const char*, 5> kOptions = {
    "engine:paged", "engine:classic", "engine:classic,expandable_segments:True", "engine:async",
    "engine:plugin,plugin_alloc:dummy_alloc,plugin_free:dummy_free"};

AllocatorOptions parse(const char* text) {
  AllocatorOptions options = parse_options(text);
  if (options.engine == EngineKind::kPlugin) options.plugin.library = ASHLAR_COUNTING_PLUGIN;
  return options;
}

sim::Options machine_options() {
  sim::Options options;
  options.device_count = 1;
  options.capacity_bytes = kGiB;
  return options;
}

struct CApiAllocator {
  CApiAllocator() {
    EXPECT_EQ(ashlar_device_open("sim", 0, &device), ASHLAR_OK);
    EXPECT_EQ(ashlar_allocator_create(device, "", &allocator), ASHLAR_OK);
    EXPECT_EQ(ashlar_allocate(allocator, 1000, nullptr, &memory), ASHLAR_OK);
    EXPECT_EQ(ashlar_allocate_block(allocator, 1000, nullptr, &block), ASHLAR_OK);
  }
  ~CApiAllocator() { ashlar_allocator_destroy(allocator); }
  CApiAllocator(const CApiAllocator&) = delete;
  CApiAllocator& operator=(const CApiAllocator&) = delete;

  ashlar_device* device = nullptr;
  ashlar_allocator* allocator = nullptr;
  void* memory = nullptr;
  ashlar_block* block = nullptr;
};

// The objects that the children inherit.
struct InheritedObjects {
  InheritedObjects() {
    for (const char* options : kOptions) {
      allocators.push_back(
          std::make_unique<Allocator>(machine->device(DeviceIndex(0)), parse(options)));
      allocators.back()->history().start({.context = RecordContext::kAlloc});
      buffers.push_back(allocators.back()->allocate(1000));
    }
    for (const auto& each : allocators) pools.emplace_back(*each);
    host_buffer = host.allocate(1000);
    symmetric_buffer = heap.allocate(64);
  }

  std::unique_ptr<sim::Machine> machine = *sim::Machine::try_create(machine_options());
  Device& device = machine->device(DeviceIndex(0));
  Stream stream{device};
  std::vector<std::unique_ptr<Allocator>> allocators;
  std::vector<Buffer> buffers;
  std::vector<Pool> pools;
  HostAllocator host{device};
  HostBuffer host_buffer;
  symm::Heap heap{symm::HeapOptions{}};
  symm::SymmetricBuffer symmetric_buffer;
  std::shared_ptr<symm::Store> store = symm::make_memory_store();
  CApiAllocator c_api;
  LiveServer live{LiveOptions{}};
};

// A static object, so that exit() destroys it in the children.
std::optional<InheritedObjects> inherited;

// Uses the objects in `inherited` on several threads until this Load is destroyed.
class Load {
 public:
  Load() {
    for (unsigned number = 0; number < kThreads; ++number) {
      threads_.emplace_back([this, number] {
        for (unsigned round = number; !is_stopping_.load(); ++round) use(round);
      });
    }
  }
  ~Load() {
    is_stopping_ = true;
    for (std::thread& each : threads_) each.join();
  }

 private:
  static constexpr unsigned kThreads = 3;

  static void use(unsigned round) {
    for (const auto& each : inherited->allocators) {
      Buffer first = each->allocate(512 << round % 12);
      Buffer second = each->allocate(3 * kMiB);
      first.record_stream(inherited->stream.id());
      first.reset();
      if (round % 16 == 0) (void)each->stats();
      if (round % 64 == 0) each->trim();
    }
    HostBuffer pinned = inherited->host.allocate(4096 << round % 4);
    pinned.record_stream(inherited->stream.id());
    const symm::SymmetricBuffer symmetric = inherited->heap.allocate(64);
    EXPECT_TRUE(inherited->store->set("key", "value", {}, Deadline::never()).ok());
    ashlar_block* block = nullptr;
    EXPECT_EQ(ashlar_allocate_block(inherited->c_api.allocator, 700, nullptr, &block), ASHLAR_OK);
    EXPECT_EQ(ashlar_free_block(inherited->c_api.allocator, block), ASHLAR_OK);
  }

  std::atomic<bool> is_stopping_{false};
  std::vector<std::thread> threads_;
};

// Runs `body` in a forked child, which then calls exit(). Returns an error description, or an empty
// string if the child exited with status 0.
std::string run_in_child(const std::function<std::string()>& body) {
  std::fflush(nullptr);  // else the child's exit writes the buffered output again
  const pid_t child = ::fork();
  if (child < 0) return "fork failed";
  if (child == 0) {
    ::alarm(kChildSeconds);
    const std::string wrong = body();
    // The child can report errors only through standard error.
    if (!wrong.empty()) (void)!::write(STDERR_FILENO, wrong.data(), wrong.size());
    std::exit(wrong.empty() ? 0 : 1);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return "waitpid failed";
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return WIFEXITED(status) ? text("the child exited with status ", WEXITSTATUS(status))
                           : text("signal ", WTERMSIG(status), " ended the child");
}

// Returns an empty string if the call fails with the error for forks, otherwise a description.
std::string check_refused(const char* name, const std::function<void()>& call) {
  std::string message = "no error";
  try {
    call();
  } catch (const InvalidArgument& refused) {
    message = refused.what();
  } catch (const std::exception& other) {
    message = text("not an InvalidArgument: ", other.what());
  }
  const bool is_refused = message.find("after the fork") != std::string::npos ||
                          message.find("after fork") != std::string::npos;
  return is_refused ? "" : text(name, ": ", message, "; ");
}

std::string check_refused(const char* name, ashlar_status status) {
  const std::string message = status == ASHLAR_OK ? "no error" : ashlar_last_message();
  const bool is_refused =
      status == ASHLAR_INVALID_ARGUMENT && message.find("after the fork") != std::string::npos;
  return is_refused ? "" : text(name, ": ", message, "; ");
}

std::string use_allocators() {
  std::string wrong;
  for (size_t i = 0; i < kOptions.size(); ++i) {
    Allocator& allocator = *inherited->allocators[i];
    Buffer& buffer = inherited->buffers[i];
    const StreamId stream = inherited->stream.id();
    wrong += check_refused("allocate", [&] { (void)allocator.allocate(1000); });
    wrong += check_refused("allocate_raw", [&] { (void)allocator.allocate_raw(1000); });
    wrong += check_refused("free_raw", [&] { allocator.free_raw(buffer.address()); });
    wrong += check_refused("record_stream", [&] { buffer.record_stream(stream); });
    wrong += check_refused("Allocator::record_stream",
                           [&] { allocator.record_stream(buffer.address(), stream); });
    wrong += check_refused("trim", [&] { allocator.trim(); });
    wrong += check_refused("trim_to", [&] { (void)allocator.trim_to(0); });
    wrong += check_refused("stats", [&] { (void)allocator.stats(); });
    wrong += check_refused("snapshot", [&] { (void)allocator.snapshot(); });
    wrong += check_refused("Pool", [&] { const Pool pool(allocator); });
    wrong += check_refused("PoolScope",
                           [&] { const PoolScope scope(allocator, inherited->pools[i].id()); });
    wrong += check_refused("history", [&] { allocator.history().start({}); });
    wrong += check_refused("add_tracker", [&] { allocator.hooks().add_tracker({}); });
    wrong += check_refused("share", [&] { (void)allocator.sharing().share(buffer); });
    wrong += check_refused("reset_peaks", [&] { allocator.statistics().reset_peaks(); });
    buffer.reset();
    if (buffer) wrong += "the buffer is not empty; ";
  }
  wrong += check_refused("HostAllocator", [] { (void)inherited->host.allocate(64); });
  wrong += check_refused("HostAllocator::trim", [] { inherited->host.trim(); });
  wrong +=
      check_refused("HostBuffer", [] { inherited->host_buffer.record_stream(kDefaultStream); });
  inherited->host_buffer.reset();
  wrong += check_refused("Heap", [] { (void)inherited->heap.allocate(64); });
  inherited->symmetric_buffer.reset();
  wrong += check_refused("Store", [] {
    throw_if_error(inherited->store->set("key", "value", {}, Deadline::never()));
  });
  wrong += check_refused("Stream", [] { inherited->stream.synchronize(); });
  return wrong;
}

std::string use_c_api() {
  const CApiAllocator& c_api = inherited->c_api;
  ashlar_allocator* allocator = c_api.allocator;
  void* memory = nullptr;
  ashlar_block* block = nullptr;
  ashlar_stats stats{};
  stats.struct_size = sizeof stats;
  std::string wrong = check_refused("allocate", ashlar_allocate(allocator, 8, nullptr, &memory));
  wrong += check_refused("free", ashlar_free(allocator, c_api.memory));
  wrong += check_refused("allocate_block", ashlar_allocate_block(allocator, 8, nullptr, &block));
  wrong += check_refused("free_block", ashlar_free_block(allocator, c_api.block));
  wrong += check_refused("record_block_stream",
                         ashlar_record_block_stream(allocator, c_api.block, nullptr));
  wrong += check_refused("trim", ashlar_trim(allocator));
  wrong += check_refused("get_stats", ashlar_get_stats(allocator, &stats));
  wrong += check_refused("device_synchronize", ashlar_device_synchronize(c_api.device));
  const CApiAllocator own;
  if (own.device == c_api.device) wrong += "the child's device is that of the parent; ";
  if (own.block == nullptr) wrong += "the child cannot allocate; ";
  return wrong;
}

std::string use_own_objects() {
  const std::unique_ptr<sim::Machine> machine = *sim::Machine::try_create(machine_options());
  Device& device = machine->device(DeviceIndex(0));
  for (const char* options : kOptions) {
    Allocator allocator(device, parse(options));
    Buffer buffer = allocator.allocate(1000);
    buffer.record_stream(kDefaultStream);
    buffer.reset();
    allocator.trim();
  }
  HostAllocator host(device);
  const HostBuffer buffer = host.allocate(1000);
  std::thread([&] { (void)host.allocate(1000); }).join();
  return {};
}

TEST(ForkLoadTest, ChildrenOfAProcessUnderLoadDoNotHang) {
  // LLVM's pull request 75290 added fork handlers for the locks of ASan's allocator. The runtime of
  // clang 14 does not call pthread_atfork.
  if (kHasAsan) {
    GTEST_SKIP()
        << "ASan's own locks may be held by threads of the parent: clang before version 18 "
           "does not release them in a forked child";
  }
  const std::array<std::function<std::string()>, 5> bodies = {
      [] { return std::string(); },  // exit() destroys the objects
      [] {
        inherited.reset();
        return std::string();
      },
      use_allocators, use_c_api, use_own_objects};
  inherited.emplace();
  {
    const Load load;
    for (int i = 0; i < kForkCount; ++i) {
      const size_t body = static_cast<size_t>(i) % bodies.size();
      ASSERT_EQ(run_in_child(bodies[body]), "") << "child " << i << ", body " << body;
    }
  }
  inherited.reset();
}

}  // namespace
}  // namespace ashlar
