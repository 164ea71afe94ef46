// SPDX-License-Identifier: Apache-2.0
//
// Tests malformed and hostile messages, which the process that owns the memory must reject.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <thread>
#include <utility>

#include "contract/waiting.h"
#include "symm/transports/transport.h"
#include "symm/transports/ucx/ucx_connection.h"
#include "unit/symm/deadlines.h"

namespace ashlar::symm {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

UcxOptions over_tcp() {
  UcxOptions options;
  options.transports = "tcp";
  options.devices = "lo";
  return options;
}

class UcxMessageHandlersTest : public ::testing::Test {
 protected:
  // The calls below bypass the checks that RemoteRegion makes before it sends a message.
  Status put(uint64_t offset, size_t bytes) {
    const std::vector<std::byte> sent(bytes, std::byte{1});
    if (Status done = attacker_->put({token_, offset}, sent, long_deadline()); !done.ok())
      return done;
    return attacker_->quiet(long_deadline());
  }
  Status get(uint64_t offset, size_t bytes) {
    std::vector<std::byte> got(bytes);
    return attacker_->get({token_, offset}, got, long_deadline());
  }
  Status change(uint64_t offset, AtomicKind kind, WordBytes word) {
    return attacker_->fetch(token_, {kind, word, offset, 1, 0}, long_deadline()).status();
  }

  // The region is in the middle; the bytes around it must not change.
  alignas(8) std::array<std::byte, 96> memory_{};
  std::shared_ptr<UcxWorker> victim_ = *UcxWorker::open(over_tcp());
  std::shared_ptr<UcxWorker> attacker_worker_ = *UcxWorker::open(over_tcp());
  RegionToken token_ = *victim_->share(std::span(memory_).subspan(32, 32));
  std::shared_ptr<UcxConnection> attacker_ = *UcxConnection::open(
      attacker_worker_, *open_envelope(EnvelopeKind::kAddress, *victim_->address()),
      {4, "attacked", std::make_shared<Failure>()}, long_deadline());
};

TEST_F(UcxMessageHandlersTest, RejectsCallsOutsideTheRegion) {
  for (uint64_t offset :
       {uint64_t{25}, uint64_t{33}, UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 31}) {
    EXPECT_THAT(put(offset, 8).to_string(), HasSubstr("rank 4 of group attacked rejected"))
        << offset;
    EXPECT_THAT(get(offset, 8).to_string(), HasSubstr("rank 4 of group attacked rejected"))
        << offset;
    EXPECT_EQ(change(offset, AtomicKind::kAdd, WordBytes::k8).kind(), StatusKind::kInvalidArgument)
        << offset;
  }
  EXPECT_EQ(put(0, 33).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(get(0, size_t{1} << 20).kind(), StatusKind::kInvalidArgument);
  EXPECT_THAT(memory_, Each(std::byte{0}));
  EXPECT_TRUE(put(24, 8).ok());  // the connection still works
  EXPECT_EQ(memory_[63], std::byte{1});
}

TEST_F(UcxMessageHandlersTest, RejectsInvalidAtomics) {
  EXPECT_EQ(change(4, AtomicKind::kAdd, WordBytes::k8).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(change(0, AtomicKind::kAdd, WordBytes{2}).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(change(0, AtomicKind{6}, WordBytes::k8).kind(), StatusKind::kInvalidArgument);
  EXPECT_THAT(memory_, Each(std::byte{0}));
  EXPECT_TRUE(change(0, AtomicKind::kAdd, WordBytes::k8).ok());
}

TEST_F(UcxMessageHandlersTest, RejectsOnlyInvalidCallsOfABatch) {
  {
    MutexLock held(victim_->mutex);  // so that the calls are handled as one batch
    const std::array<std::byte, 1> sent = {std::byte{1}};
    for (uint64_t offset = 0; offset < 40; ++offset) {  // offsets from 32 are outside
      ASSERT_TRUE(attacker_->put({token_, offset}, sent, long_deadline()).ok());
    }
  }
  EXPECT_THAT(attacker_->quiet(long_deadline()).to_string(), HasSubstr("rejected"));
  EXPECT_TRUE(attacker_->quiet(long_deadline()).ok()) << "an error is reported once";
  EXPECT_THAT(std::span(memory_).subspan(32, 32), Each(std::byte{1}));
  EXPECT_THAT(std::span(memory_).subspan(64), Each(std::byte{0}));
}

// Starts a real call with `get`. Before `attacker` handles that call, repeatedly sends false
// completions of `calls` to `to`.
void send_false_completions(UcxWorker& attacker, const UcxConnection& to,
                            std::span<const std::byte> calls, const std::function<void()>& get)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  MutexLock held(attacker.mutex);
  get();
  Message done;
  done.kind = MessageKind::kCompleted;
  for (int time = 0; time < 20; ++time) {
    EXPECT_EQ(attacker.send_locked(to.endpoint_locked(), done, calls), UCS_OK);
    EXPECT_EQ(attacker.send_locked(to.endpoint_locked(), done, calls.first(13)), UCS_OK);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST_F(UcxMessageHandlersTest, IgnoresFalseCompletionsOfAGet) {
  const auto back = *UcxConnection::open(
      victim_, *open_envelope(EnvelopeKind::kAddress, *attacker_worker_->address()),
      {7, "tested", std::make_shared<Failure>()}, long_deadline());
  std::array<std::byte, 8> remote{};
  remote.fill(std::byte{5});
  const RegionToken region = *attacker_worker_->share(remote);
  std::array<uint64_t, 8> calls{};
  {
    MutexLock lock(victim_->mutex);
    const uint64_t last =
        victim_->register_call_locked({.connection = back.get(), .is_posted = true});
    for (size_t i = 0; i < calls.size(); ++i)
      calls[i] = last + 1 + i;  // one of these ids will be the id of the get
  }
  std::array<std::byte, 8> got{};
  Status found;
  std::thread reader;
  send_false_completions(*attacker_worker_, *attacker_, std::as_bytes(std::span(calls)), [&] {
    reader = std::thread([&] { found = back->get({region, 0}, got, long_deadline()); });
  });
  reader.join();
  EXPECT_TRUE(found.ok()) << found.to_string();
  EXPECT_EQ(got, remote);
  attacker_worker_->unshare(region);
}

TEST_F(UcxMessageHandlersTest, LimitsPendingCallsOfALargeGet) {
  const auto count_calls = [this] {
    MutexLock lock(attacker_worker_->mutex);
    return attacker_worker_->register_call_locked(
        {.connection = attacker_.get(), .is_posted = true});
  };
  std::vector<std::byte> got(size_t{64} << 20);
  const uint64_t before = count_calls();
  {
    MutexLock held(victim_->mutex);  // so that the victim sends no responses
    const Deadline deadline = Deadline::after(std::chrono::milliseconds(100));
    EXPECT_EQ(attacker_->get({token_, 0}, got, deadline).kind(), StatusKind::kTimeout);
  }
  EXPECT_LE(count_calls() - before, 129);
}

// Requests 250 MiB from `victim` and reads no responses until `is_over()`. Returns the maximum
// number of bytes that `victim` queued.
size_t max_queued_bytes(UcxWorker& victim, UcxWorker& attacker, const UcxConnection& by,
                        const std::function<bool()>& is_over)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  std::vector<std::byte> large(size_t{64} << 10);
  Message get;
  get.kind = MessageKind::kGet;
  get.region = *victim.share(large);
  get.bytes = large.size();
  size_t most_bytes = 0;
  MutexLock held(attacker.mutex);  // so that no thread reads the responses
  for (int call = 0; call < 4000; ++call) {
    EXPECT_EQ(attacker.send_locked(by.endpoint_locked(), get, {}), UCS_OK);
  }
  for (const Deadline end = long_deadline(); !is_over() && !end.has_passed();) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    MutexLock lock(victim.mutex);
    most_bytes = std::max(most_bytes, victim.queued_bytes_locked());
  }
  victim.unshare(get.region);
  return most_bytes;
}

TEST_F(UcxMessageHandlersTest, LimitsResponsesToPeersThatDoNotRead) {
  // The victim has handled the calls once its queue is long and has stopped growing.
  size_t last_bytes = 0;
  int unchanged_checks = 0;
  const auto is_over = [&] {
    MutexLock lock(victim_->mutex);
    const size_t bytes = victim_->queued_bytes_locked();
    unchanged_checks = bytes == std::exchange(last_bytes, bytes) ? unchanged_checks + 1 : 0;
    return bytes >= size_t{30} << 20 && unchanged_checks == 20;
  };
  const size_t most_bytes = max_queued_bytes(*victim_, *attacker_worker_, *attacker_, is_over);
  EXPECT_GT(most_bytes, size_t{30} << 20);
  EXPECT_LT(most_bytes, size_t{40} << 20);
  // Once the attacker has read everything, its calls are served again.
  EXPECT_TRUE(contract::eventually([&] {
    attacker_worker_->progress();
    MutexLock lock(victim_->mutex);
    return victim_->queued_bytes_locked() == 0;
  }));
  std::array<std::byte, 8> got{};
  EXPECT_TRUE(attacker_->get({token_, 0}, got, long_deadline()).ok());
}

// The victim closes its connection while the attacker does not read, and the attacker then closes
// its end.
TEST_F(UcxMessageHandlersTest, SurvivesClosingWithUnsentData) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    const auto attacker_worker = *UcxWorker::open(over_tcp());
    const auto attacker = *UcxConnection::open(
        attacker_worker, *open_envelope(EnvelopeKind::kAddress, *victim_->address()),
        {4, "attacked", std::make_shared<Failure>()}, long_deadline());
    const auto failure = std::make_shared<Failure>();
    auto back = *UcxConnection::open(
        victim_, *open_envelope(EnvelopeKind::kAddress, *attacker_worker->address()),
        {7, "asked", failure}, long_deadline());
    const auto close_when_failed = [&] {
      if (!failure->has_happened()) return false;
      back.reset();
      return true;
    };
    EXPECT_LT(max_queued_bytes(*victim_, *attacker_worker, *attacker, close_when_failed),
              size_t{40} << 20);
    EXPECT_EQ(back, nullptr);
    attacker_worker->end();
    victim_->progress();
  }
  EXPECT_TRUE(put(0, 8).ok()) << "another connection of the victim still works";
}

// If both sides have a connection, the failure is reported to the victim's group.
TEST_F(UcxMessageHandlersTest, ReportsToTheGroupWhyItDisconnected) {
  const auto failure = std::make_shared<Failure>();
  const auto back = *UcxConnection::open(
      victim_, *open_envelope(EnvelopeKind::kAddress, *attacker_worker_->address()),
      {7, "asked", failure}, long_deadline());
  EXPECT_LT(max_queued_bytes(*victim_, *attacker_worker_, *attacker_,
                             [&] { return failure->has_happened(); }),
            size_t{40} << 20);
  EXPECT_THAT(failure->reason().to_string(), HasSubstr("does not read its responses"));
}

TEST_F(UcxMessageHandlersTest, RejectsCallsWithoutTheToken) {
  token_[1] ^= 1;
  EXPECT_THAT(put(0, 8).to_string(), HasSubstr("no longer shares"));
  EXPECT_THAT(get(0, 8).to_string(), HasSubstr("no longer shares"));
  EXPECT_THAT(memory_, Each(std::byte{0}));
}

}  // namespace
}  // namespace ashlar::symm
