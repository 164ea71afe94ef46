// SPDX-License-Identifier: Apache-2.0
//
// What a capture forbids and allows: calls that invalidate it, in which mode and from which
// thread, calls that it refuses without harm, and calls that go on as ever.
#include <thread>

#include "device_contract.h"

namespace ashlar::contract {
namespace {

constexpr CaptureMode kModes[] = {CaptureMode::kGlobal, CaptureMode::kThreadLocal,
                                  CaptureMode::kRelaxed};

void here(const std::function<void()>& act) { act(); }
void on_another_thread(const std::function<void()>& act) { std::thread(act).join(); }

}  // namespace

void CaptureRulesContract::SetUp() {
  CaptureContract::SetUp();
  if (IsSkipped() || HasFatalFailure()) return;
  stream_ = new_stream();
  bystander_stream_ = new_stream();
  bystander_event_ = new_event();
  bystander_ = must(device().allocate(granule_bytes()));
  if (properties().has_stream_pool) {
    bystander_pooled_ = must(device().allocate_async(4096, bystander_stream_));
  }
  bystander_host_ = must(device().allocate_host(granule_bytes()));
}

void CaptureRulesContract::TearDown() {
  if (bystander_host_ != nullptr) {
    if (state_of(stream_).status != CaptureStatus::kNone) (void)device().end_capture(stream_);
    EXPECT_TRUE(ok(device().free(bystander_)));
    if (properties().has_stream_pool) {
      EXPECT_TRUE(ok(device().free_async(bystander_pooled_, bystander_stream_)));
    }
    EXPECT_TRUE(ok(device().free_host(bystander_host_)));
  }
  CaptureContract::TearDown();
}

std::vector<CaptureRulesContract::NamedCall> CaptureRulesContract::calls_that_might_wait() {
  std::vector<NamedCall> calls = {
      {"allocate",
       [this] {
         const Result<DeviceAddress> made = device().allocate(granule_bytes());
         return made.ok() ? device().free(*made) : made.status();
       }},
      {"free",
       [this] {
         if (Status freed = device().free(bystander_); !freed.ok()) return freed;
         const Result<DeviceAddress> again = device().allocate(granule_bytes());
         if (again.ok()) bystander_ = *again;
         return again.status();
       }},
      {"allocate_host",
       [this] {
         const Result<void*> made = device().allocate_host(granule_bytes());
         return made.ok() ? device().free_host(*made) : made.status();
       }},
      {"free_host",
       [this] {
         if (Status freed = device().free_host(bystander_host_); !freed.ok()) return freed;
         const Result<void*> again = device().allocate_host(granule_bytes());
         if (again.ok()) bystander_host_ = *again;
         return again.status();
       }},
      {"is_idle", [this] { return device().is_idle(bystander_stream_).status(); }},
      {"is_done", [this] { return device().is_done(bystander_event_).status(); }},
      {"synchronize_stream", [this] { return device().synchronize_stream(bystander_stream_); }},
      {"synchronize_event", [this] { return device().synchronize_event(bystander_event_); }},
  };
  if (!properties().has_stream_pool) return calls;
  const std::vector<NamedCall> of_the_pool = {
      {"allocate_async",
       [this] {
         const Result<DeviceAddress> made = device().allocate_async(4096, bystander_stream_);
         return made.ok() ? device().free_async(*made, bystander_stream_) : made.status();
       }},
      {"free_async",
       [this] {
         Status freed = device().free_async(bystander_pooled_, bystander_stream_);
         if (!freed.ok()) return freed;
         const Result<DeviceAddress> again = device().allocate_async(4096, bystander_stream_);
         if (again.ok()) bystander_pooled_ = *again;
         return again.status();
       }},
      {"driver_pool_stats", [this] { return device().driver_pool_stats().status(); }},
      {"reset_pool_peaks", [this] { return device().reset_pool_peaks(); }},
      {"set_pool_threshold", [this] { return device().set_pool_threshold(0); }},
      {"trim_pool", [this] { return device().trim_pool(0); }},
  };
  calls.insert(calls.end(), of_the_pool.begin(), of_the_pool.end());
  return calls;
}

void CaptureRulesContract::expect_invalidates(CaptureMode mode, const NamedCall& call,
                                              const Where& where) {
  SCOPED_TRACE(call.name);
  must(device().begin_capture(stream_, mode));
  where([&] { expect_usage(call.make()); });
  EXPECT_EQ(state_of(stream_).status, CaptureStatus::kInvalidated);
  expect_usage(device().end_capture(stream_));
  EXPECT_EQ(state_of(stream_).status, CaptureStatus::kNone);
}

void CaptureRulesContract::expect_harmless(CaptureMode mode, const NamedCall& call,
                                           const Where& where) {
  SCOPED_TRACE(call.name);
  must(device().begin_capture(stream_, mode));
  where([&] { EXPECT_TRUE(ok(call.make())); });
  EXPECT_EQ(state_of(stream_).status, CaptureStatus::kActive);
  captured(stream_);
}

// --- calls that might wait unseen ---------------------------------------------------------------

TEST_P(CaptureRulesContract, AGlobalCaptureForbidsCallsThatMightWaitFromEveryThread) {
  const Untouched untouched(*this);
  for (const NamedCall& call : calls_that_might_wait()) {
    expect_invalidates(CaptureMode::kGlobal, call, here);
    expect_invalidates(CaptureMode::kGlobal, call, on_another_thread);
  }
}

TEST_P(CaptureRulesContract, AThreadLocalCaptureForbidsThemFromItsOwnThreadOnly) {
  const Untouched untouched(*this);
  for (const NamedCall& call : calls_that_might_wait()) {
    expect_invalidates(CaptureMode::kThreadLocal, call, here);
    expect_harmless(CaptureMode::kThreadLocal, call, on_another_thread);
  }
}

TEST_P(CaptureRulesContract, ARelaxedCaptureForbidsNoneOfThem) {
  const Untouched untouched(*this);
  for (const NamedCall& call : calls_that_might_wait()) {
    expect_harmless(CaptureMode::kRelaxed, call, here);
    expect_harmless(CaptureMode::kRelaxed, call, on_another_thread);
  }
}

TEST_P(CaptureRulesContract, AThreadThatRelaxedItsOwnModeMayAlwaysMakeThem) {
  const Untouched untouched(*this);
  for (const NamedCall& call : calls_that_might_wait()) {
    const auto relaxed = [this](const std::function<void()>& act) {
      EXPECT_EQ(must(device().exchange_capture_mode(CaptureMode::kRelaxed)), CaptureMode::kGlobal);
      act();
      EXPECT_EQ(must(device().exchange_capture_mode(CaptureMode::kGlobal)), CaptureMode::kRelaxed);
    };
    expect_harmless(CaptureMode::kGlobal, call, relaxed);
    expect_harmless(CaptureMode::kThreadLocal, call, relaxed);
    expect_harmless(CaptureMode::kGlobal, call, [&](const std::function<void()>& act) {
      on_another_thread([&] { relaxed(act); });
    });
  }
}

TEST_P(CaptureRulesContract, SynchronizeDeviceInvalidatesACapture) {
  const NamedCall call{"synchronize_device", [this] { return device().synchronize_device(); }};
  expect_invalidates(CaptureMode::kGlobal, call, here);
  expect_invalidates(CaptureMode::kGlobal, call, on_another_thread);
  expect_invalidates(CaptureMode::kThreadLocal, call, here);
}

TEST_P(CaptureRulesContract, AThreadsModeIsItsOwn) {
  EXPECT_EQ(must(device().exchange_capture_mode(CaptureMode::kThreadLocal)), CaptureMode::kGlobal);
  on_another_thread([this] {
    EXPECT_EQ(must(device().exchange_capture_mode(CaptureMode::kRelaxed)), CaptureMode::kGlobal);
  });
  EXPECT_EQ(must(device().exchange_capture_mode(CaptureMode::kGlobal)), CaptureMode::kThreadLocal);
}

TEST_P(CaptureRulesContract, TheEndOfACaptureEndsWhatItForbade) {
  must(device().begin_capture(stream_, CaptureMode::kGlobal));
  captured(stream_);
  for (const NamedCall& call : calls_that_might_wait()) EXPECT_TRUE(ok(call.make())) << call.name;
}

// --- the capture's own streams and events -------------------------------------------------------

TEST_P(CaptureRulesContract, WaitingForACapturingStreamInvalidatesItInEveryMode) {
  for (const CaptureMode mode : kModes) {
    expect_invalidates(mode, {"is_idle", [this] { return device().is_idle(stream_).status(); }},
                       here);
    expect_invalidates(
        mode, {"synchronize_stream", [this] { return device().synchronize_stream(stream_); }},
        here);
    expect_invalidates(mode, {"is_idle", [this] { return device().is_idle(stream_).status(); }},
                       on_another_thread);
  }
}

TEST_P(CaptureRulesContract, WaitingForACapturedEventInvalidatesItInEveryMode) {
  const EventId event = new_event();
  for (const CaptureMode mode : kModes) {
    const auto recorded = [&](const std::function<void()>& act) {
      must(device().record_event(event, stream_));
      act();
    };
    expect_invalidates(mode, {"is_done", [&] { return device().is_done(event).status(); }},
                       recorded);
    expect_invalidates(
        mode, {"synchronize_event", [&] { return device().synchronize_event(event); }}, recorded);
  }
}

TEST_P(CaptureRulesContract, WaitingForAStreamThatJoinedInvalidatesTheCapture) {
  const EventId fork = new_event();
  const StreamId side = new_stream();
  const auto joined = [&](const std::function<void()>& act) {
    must(device().record_event(fork, stream_));
    must(device().wait_event(side, fork));
    act();
  };
  expect_invalidates(CaptureMode::kRelaxed,
                     {"is_idle", [&] { return device().is_idle(side).status(); }}, joined);
  EXPECT_EQ(state_of(side).status, CaptureStatus::kNone) << "it left with the capture's end";
}

// --- refusals that do no harm -------------------------------------------------------------------

TEST_P(CaptureRulesContract, ACaptureCannotBeginInAStreamThatCaptures) {
  const EventId event = new_event();
  const StreamId side = new_stream();
  must(device().begin_capture(stream_, CaptureMode::kGlobal));
  expect_usage(device().begin_capture(stream_, CaptureMode::kGlobal));
  must(device().record_event(event, stream_));
  must(device().wait_event(side, event));
  must(device().call_host(side, [] {}));
  expect_usage(device().begin_capture(side, CaptureMode::kRelaxed));
  EXPECT_EQ(state_of(stream_).status, CaptureStatus::kActive);
  must(device().record_event(event, side));
  must(device().wait_event(stream_, event));
  captured(stream_);
}

TEST_P(CaptureRulesContract, ACapturingStreamCannotBeDestroyed) {
  must(device().begin_capture(stream_, CaptureMode::kGlobal));
  expect_usage(device().destroy_stream(stream_));
  EXPECT_EQ(state_of(stream_).status, CaptureStatus::kActive);
  must(device().fill(bystander_, 4, 4096, stream_));
  const GraphId graph = captured(stream_);
  must(device().launch_graph(graph, stream_));
  must(device().synchronize_stream(stream_));
  EXPECT_EQ(read_back(bystander_, 4096), Bytes(4096, 4));
}

TEST_P(CaptureRulesContract, EndingWhereNothingIsCapturedIsRefusedAndEndsNothing) {
  expect_usage(device().end_capture(bystander_stream_));
  must(device().begin_capture(stream_, CaptureMode::kGlobal));
  expect_usage(device().end_capture(bystander_stream_));
  EXPECT_EQ(state_of(stream_).status, CaptureStatus::kActive);
  captured(stream_);
}

TEST_P(CaptureRulesContract, EndingInAStreamThatOnlyJoinedInvalidatesTheCapture) {
  const EventId fork = new_event();
  const StreamId side = new_stream();
  must(device().begin_capture(stream_, CaptureMode::kGlobal));
  must(device().record_event(fork, stream_));
  must(device().wait_event(side, fork));
  expect_usage(device().end_capture(side));
  EXPECT_EQ(state_of(stream_).status, CaptureStatus::kInvalidated);
  EXPECT_EQ(state_of(side).status, CaptureStatus::kInvalidated);
  expect_usage(device().end_capture(stream_));
  EXPECT_EQ(state_of(stream_).status, CaptureStatus::kNone);
  EXPECT_EQ(state_of(side).status, CaptureStatus::kNone);
}

TEST_P(CaptureRulesContract, WorkOnWrongRangesIsRefusedAndTheCaptureGoesOn) {
  must(device().begin_capture(stream_, CaptureMode::kGlobal));
  expect_usage(device().fill({}, 1, 16, stream_));
  expect_usage(device().fill(bystander_, 1, 0, stream_));
  EXPECT_EQ(state_of(stream_).status, CaptureStatus::kActive);
  EXPECT_TRUE(state_of(stream_).tail.empty()) << "a refused piece of work became a node";
  captured(stream_);
}

// Argument mistakes are found first, and a call that fails by one changes nothing.
TEST_P(CaptureRulesContract, ForbiddenCallsWithWrongArgumentsDoNoHarm) {
  std::vector<NamedCall> calls = {
      {"allocate", [this] { return device().allocate(0).status(); }},
      {"free", [this] { return device().free(never_given<DeviceAddress>()); }},
      {"allocate_host", [this] { return device().allocate_host(0).status(); }},
      {"free_host", [this] { return device().free_host(nullptr); }},
      {"is_done", [this] { return device().is_done(never_given<EventId>()).status(); }},
      {"synchronize_event", [this] { return device().synchronize_event(never_given<EventId>()); }},
  };
  if (properties().checks_stream_ids) {
    calls.push_back(
        {"is_idle", [this] { return device().is_idle(never_given<StreamId>()).status(); }});
    calls.push_back({"synchronize_stream",
                     [this] { return device().synchronize_stream(never_given<StreamId>()); }});
  }
  for (const NamedCall& call : calls) {
    SCOPED_TRACE(call.name);
    must(device().begin_capture(stream_, CaptureMode::kGlobal));
    expect_usage(call.make());
    EXPECT_EQ(state_of(stream_).status, CaptureStatus::kActive);
    const Result<GraphId> graph = device().end_capture(stream_);
    ASSERT_TRUE(ok(graph));
    must(device().destroy_graph(*graph));
  }
}

TEST_P(CaptureRulesContract, ThePoolIsUnsupportedInACapturingStream) {
  if (!properties().has_stream_pool) GTEST_SKIP() << "the device has no stream-ordered pool";
  const DeviceAddress address = must(device().allocate_async(4096, bystander_stream_));
  must(device().begin_capture(stream_, CaptureMode::kGlobal));
  expect_refused(StatusKind::kUnsupported, device(), device().allocate_async(4096, stream_));
  expect_refused(StatusKind::kUnsupported, device(), device().free_async(address, stream_));
  EXPECT_EQ(state_of(stream_).status, CaptureStatus::kActive);
  captured(stream_);
  must(device().free_async(address, bystander_stream_));
}

// --- calls that go on as ever -------------------------------------------------------------------

TEST_P(CaptureRulesContract, VirtualMemoryGoesOnDuringACapture) {
  if (!properties().has_virtual_memory) GTEST_SKIP() << "the device has no virtual memory";
  must(device().begin_capture(stream_, CaptureMode::kGlobal));
  const MappedRange mapped = mapped_range(granule_bytes());
  unmap_now(mapped.range);
  release_now(mapped.extent);
  free_addresses_now(mapped.range);
  EXPECT_EQ(must(device().describe(bystander_)).kind, MemoryKind::kDevice);
  EXPECT_TRUE(ok(device().memory_stats()));
  EXPECT_EQ(state_of(stream_).status, CaptureStatus::kActive);
  captured(stream_);
}

TEST_P(CaptureRulesContract, OtherStreamsRunDuringACapture) {
  uint8_t* host = pinned_bytes(4096);
  host[4095] = 0;
  must(device().begin_capture(stream_, CaptureMode::kRelaxed));
  must(device().fill(bystander_, 7, 4096, bystander_stream_));
  must(device().copy_to_host(host, bystander_, 4096, bystander_stream_));
  must(device().synchronize_stream(bystander_stream_));
  EXPECT_EQ(host[4095], 7);
  EXPECT_EQ(state_of(stream_).status, CaptureStatus::kActive);
  captured(stream_);
}

TEST_P(CaptureRulesContract, TwoStreamsCaptureAtOnceIndependently) {
  must(device().begin_capture(stream_, CaptureMode::kRelaxed));
  must(device().begin_capture(bystander_stream_, CaptureMode::kRelaxed));
  EXPECT_NE(state_of(stream_).capture, state_of(bystander_stream_).capture);
  must(device().fill(bystander_, 1, 16, stream_));
  EXPECT_TRUE(state_of(bystander_stream_).tail.empty());
  ASSERT_FALSE(device().is_idle(stream_).ok());
  EXPECT_EQ(state_of(bystander_stream_).status, CaptureStatus::kActive) << "not its own fault";
  expect_usage(device().end_capture(stream_));
  captured(bystander_stream_);
}

}  // namespace ashlar::contract
