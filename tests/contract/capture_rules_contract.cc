// SPDX-License-Identifier: Apache-2.0
//
// Tests which calls invalidate a capture, depending on its mode and on the calling thread, which
// calls are rejected without effect, and which calls are allowed.
#include <thread>

#include "device_contract.h"

namespace ashlar::contract {
namespace {

constexpr CaptureMode kModes[] = {CaptureMode::kGlobal, CaptureMode::kThreadLocal,
                                  CaptureMode::kRelaxed};

void on_this_thread(const std::function<void()>& function) { function(); }
void on_another_thread(const std::function<void()>& function) { std::thread(function).join(); }

}  // namespace

void CaptureRulesContract::SetUp() {
  CaptureContract::SetUp();
  if (IsSkipped() || HasFatalFailure()) return;
  stream_ = create_stream();
  unrelated_stream_ = create_stream();
  unrelated_event_ = create_event();
  unrelated_memory_ = require_ok(device().allocate(granule_bytes()));
  if (properties().has_stream_ordered_pool) {
    unrelated_pool_memory_ = require_ok(device().allocate_async(4096, unrelated_stream_));
  }
  unrelated_host_memory_ = require_ok(device().allocate_host(granule_bytes()));
}

void CaptureRulesContract::TearDown() {
  if (unrelated_host_memory_ != nullptr) {
    if (capture_state_of(stream_).status != CaptureStatus::kNone)
      (void)device().end_capture(stream_);
    EXPECT_TRUE(ok(device().free(unrelated_memory_)));
    if (properties().has_stream_ordered_pool) {
      EXPECT_TRUE(ok(device().free_async(unrelated_pool_memory_, unrelated_stream_)));
    }
    EXPECT_TRUE(ok(device().free_host(unrelated_host_memory_)));
  }
  CaptureContract::TearDown();
}

std::vector<CaptureRulesContract::NamedCall> CaptureRulesContract::blocking_calls() {
  std::vector<NamedCall> calls = {
      {"allocate",
       [this] {
         const Result<DeviceAddress> made = device().allocate(granule_bytes());
         return made.ok() ? device().free(*made) : made.status();
       }},
      {"free",
       [this] {
         if (Status freed = device().free(unrelated_memory_); !freed.ok()) return freed;
         const Result<DeviceAddress> again = device().allocate(granule_bytes());
         if (again.ok()) unrelated_memory_ = *again;
         return again.status();
       }},
      {"allocate_host",
       [this] {
         const Result<void*> made = device().allocate_host(granule_bytes());
         return made.ok() ? device().free_host(*made) : made.status();
       }},
      {"free_host",
       [this] {
         if (Status freed = device().free_host(unrelated_host_memory_); !freed.ok()) return freed;
         const Result<void*> again = device().allocate_host(granule_bytes());
         if (again.ok()) unrelated_host_memory_ = *again;
         return again.status();
       }},
      {"is_idle", [this] { return device().is_idle(unrelated_stream_).status(); }},
      {"is_done", [this] { return device().is_done(unrelated_event_).status(); }},
      {"synchronize_stream", [this] { return device().synchronize_stream(unrelated_stream_); }},
      {"synchronize_event", [this] { return device().synchronize_event(unrelated_event_); }},
  };
  if (!properties().has_stream_ordered_pool) return calls;
  const std::vector<NamedCall> pool_calls = {
      {"allocate_async",
       [this] {
         const Result<DeviceAddress> made = device().allocate_async(4096, unrelated_stream_);
         return made.ok() ? device().free_async(*made, unrelated_stream_) : made.status();
       }},
      {"free_async",
       [this] {
         Status freed = device().free_async(unrelated_pool_memory_, unrelated_stream_);
         if (!freed.ok()) return freed;
         const Result<DeviceAddress> again = device().allocate_async(4096, unrelated_stream_);
         if (again.ok()) unrelated_pool_memory_ = *again;
         return again.status();
       }},
      {"driver_pool_stats", [this] { return device().driver_pool_stats().status(); }},
      {"reset_pool_peaks", [this] { return device().reset_pool_peaks(); }},
      {"set_pool_threshold", [this] { return device().set_pool_threshold(0); }},
      {"trim_pool", [this] { return device().trim_pool(0); }},
  };
  calls.insert(calls.end(), pool_calls.begin(), pool_calls.end());
  return calls;
}

void CaptureRulesContract::expect_invalidates(CaptureMode mode, const NamedCall& call,
                                              const RunOn& run_on) {
  SCOPED_TRACE(call.name);
  require_ok(device().begin_capture(stream_, mode));
  run_on([&] { expect_invalid_argument(call.make()); });
  EXPECT_EQ(capture_state_of(stream_).status, CaptureStatus::kInvalidated);
  expect_invalid_argument(device().end_capture(stream_));
  EXPECT_EQ(capture_state_of(stream_).status, CaptureStatus::kNone);
}

void CaptureRulesContract::expect_allowed(CaptureMode mode, const NamedCall& call,
                                          const RunOn& run_on) {
  SCOPED_TRACE(call.name);
  require_ok(device().begin_capture(stream_, mode));
  run_on([&] { EXPECT_TRUE(ok(call.make())); });
  EXPECT_EQ(capture_state_of(stream_).status, CaptureStatus::kActive);
  end_capture(stream_);
}

// --- blocking calls

TEST_P(CaptureRulesContract, GlobalModeForbidsBlockingCallsOnAllThreads) {
  const MemoryUnchangedCheck unchanged(*this);
  for (const NamedCall& call : blocking_calls()) {
    expect_invalidates(CaptureMode::kGlobal, call, on_this_thread);
    expect_invalidates(CaptureMode::kGlobal, call, on_another_thread);
  }
}

TEST_P(CaptureRulesContract, ThreadLocalModeForbidsBlockingCallsOnItsThread) {
  const MemoryUnchangedCheck unchanged(*this);
  for (const NamedCall& call : blocking_calls()) {
    expect_invalidates(CaptureMode::kThreadLocal, call, on_this_thread);
    expect_allowed(CaptureMode::kThreadLocal, call, on_another_thread);
  }
}

TEST_P(CaptureRulesContract, RelaxedModeAllowsBlockingCalls) {
  const MemoryUnchangedCheck unchanged(*this);
  for (const NamedCall& call : blocking_calls()) {
    expect_allowed(CaptureMode::kRelaxed, call, on_this_thread);
    expect_allowed(CaptureMode::kRelaxed, call, on_another_thread);
  }
}

TEST_P(CaptureRulesContract, ThreadInRelaxedModeMayMakeBlockingCalls) {
  const MemoryUnchangedCheck unchanged(*this);
  for (const NamedCall& call : blocking_calls()) {
    const auto relaxed = [this](const std::function<void()>& function) {
      EXPECT_EQ(require_ok(device().exchange_capture_mode(CaptureMode::kRelaxed)),
                CaptureMode::kGlobal);
      function();
      EXPECT_EQ(require_ok(device().exchange_capture_mode(CaptureMode::kGlobal)),
                CaptureMode::kRelaxed);
    };
    expect_allowed(CaptureMode::kGlobal, call, relaxed);
    expect_allowed(CaptureMode::kThreadLocal, call, relaxed);
    expect_allowed(CaptureMode::kGlobal, call, [&](const std::function<void()>& function) {
      on_another_thread([&] { relaxed(function); });
    });
  }
}

TEST_P(CaptureRulesContract, SynchronizeDeviceInvalidatesTheCapture) {
  const NamedCall call{"synchronize_device", [this] { return device().synchronize_device(); }};
  expect_invalidates(CaptureMode::kGlobal, call, on_this_thread);
  expect_invalidates(CaptureMode::kGlobal, call, on_another_thread);
  expect_invalidates(CaptureMode::kThreadLocal, call, on_this_thread);
}

TEST_P(CaptureRulesContract, CaptureModeIsPerThread) {
  EXPECT_EQ(require_ok(device().exchange_capture_mode(CaptureMode::kThreadLocal)),
            CaptureMode::kGlobal);
  on_another_thread([this] {
    EXPECT_EQ(require_ok(device().exchange_capture_mode(CaptureMode::kRelaxed)),
              CaptureMode::kGlobal);
  });
  EXPECT_EQ(require_ok(device().exchange_capture_mode(CaptureMode::kGlobal)),
            CaptureMode::kThreadLocal);
}

TEST_P(CaptureRulesContract, EndingACaptureLiftsItsRestrictions) {
  require_ok(device().begin_capture(stream_, CaptureMode::kGlobal));
  end_capture(stream_);
  for (const NamedCall& call : blocking_calls()) EXPECT_TRUE(ok(call.make())) << call.name;
}

// --- streams and events of the capture

TEST_P(CaptureRulesContract, SynchronizingACapturingStreamInvalidatesTheCapture) {
  for (const CaptureMode mode : kModes) {
    expect_invalidates(mode, {"is_idle", [this] { return device().is_idle(stream_).status(); }},
                       on_this_thread);
    expect_invalidates(
        mode, {"synchronize_stream", [this] { return device().synchronize_stream(stream_); }},
        on_this_thread);
    expect_invalidates(mode, {"is_idle", [this] { return device().is_idle(stream_).status(); }},
                       on_another_thread);
  }
}

TEST_P(CaptureRulesContract, SynchronizingACapturedEventInvalidatesTheCapture) {
  const EventId event = create_event();
  for (const CaptureMode mode : kModes) {
    const auto recorded = [&](const std::function<void()>& function) {
      require_ok(device().record_event(event, stream_));
      function();
    };
    expect_invalidates(mode, {"is_done", [&] { return device().is_done(event).status(); }},
                       recorded);
    expect_invalidates(
        mode, {"synchronize_event", [&] { return device().synchronize_event(event); }}, recorded);
  }
}

TEST_P(CaptureRulesContract, SynchronizingAForkedStreamInvalidatesTheCapture) {
  const EventId fork = create_event();
  const StreamId side = create_stream();
  const auto joined = [&](const std::function<void()>& function) {
    require_ok(device().record_event(fork, stream_));
    require_ok(device().wait_event(side, fork));
    function();
  };
  expect_invalidates(CaptureMode::kRelaxed,
                     {"is_idle", [&] { return device().is_idle(side).status(); }}, joined);
  EXPECT_EQ(capture_state_of(side).status, CaptureStatus::kNone)
      << "the stream left at the end of the capture";
}

// --- rejected calls that do not invalidate the capture

TEST_P(CaptureRulesContract, BeginRejectsAStreamThatIsCapturing) {
  const EventId event = create_event();
  const StreamId side = create_stream();
  require_ok(device().begin_capture(stream_, CaptureMode::kGlobal));
  expect_invalid_argument(device().begin_capture(stream_, CaptureMode::kGlobal));
  require_ok(device().record_event(event, stream_));
  require_ok(device().wait_event(side, event));
  require_ok(device().call_host(side, [] {}));
  expect_invalid_argument(device().begin_capture(side, CaptureMode::kRelaxed));
  EXPECT_EQ(capture_state_of(stream_).status, CaptureStatus::kActive);
  require_ok(device().record_event(event, side));
  require_ok(device().wait_event(stream_, event));
  end_capture(stream_);
}

TEST_P(CaptureRulesContract, DestroyStreamRejectsACapturingStream) {
  require_ok(device().begin_capture(stream_, CaptureMode::kGlobal));
  expect_invalid_argument(device().destroy_stream(stream_));
  EXPECT_EQ(capture_state_of(stream_).status, CaptureStatus::kActive);
  require_ok(device().fill(unrelated_memory_, 4, 4096, stream_));
  const GraphId graph = end_capture(stream_);
  require_ok(device().launch_graph(graph, stream_));
  require_ok(device().synchronize_stream(stream_));
  EXPECT_EQ(read_back(unrelated_memory_, 4096), Bytes(4096, 4));
}

TEST_P(CaptureRulesContract, EndRejectsAStreamThatIsNotCapturing) {
  expect_invalid_argument(device().end_capture(unrelated_stream_));
  require_ok(device().begin_capture(stream_, CaptureMode::kGlobal));
  expect_invalid_argument(device().end_capture(unrelated_stream_));
  EXPECT_EQ(capture_state_of(stream_).status, CaptureStatus::kActive);
  end_capture(stream_);
}

TEST_P(CaptureRulesContract, EndInAForkedStreamInvalidatesTheCapture) {
  const EventId fork = create_event();
  const StreamId side = create_stream();
  require_ok(device().begin_capture(stream_, CaptureMode::kGlobal));
  require_ok(device().record_event(fork, stream_));
  require_ok(device().wait_event(side, fork));
  expect_invalid_argument(device().end_capture(side));
  EXPECT_EQ(capture_state_of(stream_).status, CaptureStatus::kInvalidated);
  EXPECT_EQ(capture_state_of(side).status, CaptureStatus::kInvalidated);
  expect_invalid_argument(device().end_capture(stream_));
  EXPECT_EQ(capture_state_of(stream_).status, CaptureStatus::kNone);
  EXPECT_EQ(capture_state_of(side).status, CaptureStatus::kNone);
}

TEST_P(CaptureRulesContract, InvalidRangesDoNotInvalidateTheCapture) {
  require_ok(device().begin_capture(stream_, CaptureMode::kGlobal));
  expect_invalid_argument(device().fill({}, 1, 16, stream_));
  expect_invalid_argument(device().fill(unrelated_memory_, 1, 0, stream_));
  EXPECT_EQ(capture_state_of(stream_).status, CaptureStatus::kActive);
  EXPECT_TRUE(capture_state_of(stream_).tail.empty()) << "rejected work became a node";
  end_capture(stream_);
}

// Arguments are checked first, so a call with invalid arguments does not invalidate the capture.
TEST_P(CaptureRulesContract, InvalidArgumentsAreCheckedBeforeCaptureRules) {
  std::vector<NamedCall> calls = {
      {"allocate", [this] { return device().allocate(0).status(); }},
      {"free", [this] { return device().free(unknown_id<DeviceAddress>()); }},
      {"allocate_host", [this] { return device().allocate_host(0).status(); }},
      {"free_host", [this] { return device().free_host(nullptr); }},
      {"is_done", [this] { return device().is_done(unknown_id<EventId>()).status(); }},
      {"synchronize_event", [this] { return device().synchronize_event(unknown_id<EventId>()); }},
  };
  if (properties().checks_stream_ids) {
    calls.push_back(
        {"is_idle", [this] { return device().is_idle(unknown_id<StreamId>()).status(); }});
    calls.push_back({"synchronize_stream",
                     [this] { return device().synchronize_stream(unknown_id<StreamId>()); }});
  }
  for (const NamedCall& call : calls) {
    SCOPED_TRACE(call.name);
    require_ok(device().begin_capture(stream_, CaptureMode::kGlobal));
    expect_invalid_argument(call.make());
    EXPECT_EQ(capture_state_of(stream_).status, CaptureStatus::kActive);
    const Result<GraphId> graph = device().end_capture(stream_);
    ASSERT_TRUE(ok(graph));
    require_ok(device().destroy_graph(*graph));
  }
}

TEST_P(CaptureRulesContract, PoolIsUnsupportedInACapturingStream) {
  if (!properties().has_stream_ordered_pool) {
    GTEST_SKIP() << "the device has no stream-ordered pool";
  }
  const DeviceAddress address = require_ok(device().allocate_async(4096, unrelated_stream_));
  require_ok(device().begin_capture(stream_, CaptureMode::kGlobal));
  expect_error(StatusKind::kUnsupported, device(), device().allocate_async(4096, stream_));
  expect_error(StatusKind::kUnsupported, device(), device().free_async(address, stream_));
  EXPECT_EQ(capture_state_of(stream_).status, CaptureStatus::kActive);
  end_capture(stream_);
  require_ok(device().free_async(address, unrelated_stream_));
}

// --- allowed calls

TEST_P(CaptureRulesContract, VirtualMemoryWorksDuringACapture) {
  if (!properties().has_virtual_memory) GTEST_SKIP() << "the device has no virtual memory";
  require_ok(device().begin_capture(stream_, CaptureMode::kGlobal));
  const MappedRange mapped = map_range(granule_bytes());
  unmap_now(mapped.range);
  release_now(mapped.extent);
  free_addresses_now(mapped.range);
  EXPECT_EQ(require_ok(device().describe(unrelated_memory_)).kind, MemoryKind::kDevice);
  EXPECT_TRUE(ok(device().memory_stats()));
  EXPECT_EQ(capture_state_of(stream_).status, CaptureStatus::kActive);
  end_capture(stream_);
}

TEST_P(CaptureRulesContract, OtherStreamsRunDuringACapture) {
  uint8_t* host = allocate_pinned_bytes(4096);
  host[4095] = 0;
  require_ok(device().begin_capture(stream_, CaptureMode::kRelaxed));
  require_ok(device().fill(unrelated_memory_, 7, 4096, unrelated_stream_));
  require_ok(device().copy_to_host(host, unrelated_memory_, 4096, unrelated_stream_));
  require_ok(device().synchronize_stream(unrelated_stream_));
  EXPECT_EQ(host[4095], 7);
  EXPECT_EQ(capture_state_of(stream_).status, CaptureStatus::kActive);
  end_capture(stream_);
}

TEST_P(CaptureRulesContract, TwoStreamsCaptureIndependently) {
  require_ok(device().begin_capture(stream_, CaptureMode::kRelaxed));
  require_ok(device().begin_capture(unrelated_stream_, CaptureMode::kRelaxed));
  EXPECT_NE(capture_state_of(stream_).capture, capture_state_of(unrelated_stream_).capture);
  require_ok(device().fill(unrelated_memory_, 1, 16, stream_));
  EXPECT_TRUE(capture_state_of(unrelated_stream_).tail.empty());
  ASSERT_FALSE(device().is_idle(stream_).ok());
  EXPECT_EQ(capture_state_of(unrelated_stream_).status, CaptureStatus::kActive)
      << "the device itself did not fail";
  expect_invalid_argument(device().end_capture(stream_));
  end_capture(unrelated_stream_);
}

}  // namespace ashlar::contract
