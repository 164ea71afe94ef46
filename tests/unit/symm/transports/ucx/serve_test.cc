// SPDX-License-Identifier: Apache-2.0
//
// Calls that no honest rank makes: the process whose memory it is refuses them by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <thread>

#include "symm/transports/transport.h"
#include "symm/transports/ucx/ucx_connection.h"

namespace ashlar::symm {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

Deadline patience() { return Deadline::after(std::chrono::seconds(30)); }

UcxOptions over_tcp() {
  UcxOptions options;
  options.transports = "tcp";
  return options;
}

class UcxServeTest : public ::testing::Test {
 protected:
  // Below the checks that a region of ours makes before anything is sent.
  Status put(uint64_t offset, size_t bytes) {
    const std::vector<std::byte> sent(bytes, std::byte{1});
    if (Status done = liar_->put({token_, offset}, sent, patience()); !done.ok()) return done;
    return liar_->quiet(patience());
  }
  Status get(uint64_t offset, size_t bytes) {
    std::vector<std::byte> got(bytes);
    return liar_->get({token_, offset}, got, patience());
  }
  Status change(uint64_t offset, AtomicKind kind, WordBytes word) {
    return liar_->fetch(token_, {kind, word, offset, 1, 0}, patience()).status();
  }

  // The region lies in the middle: what is around it must stay as it is.
  alignas(8) std::array<std::byte, 96> memory_{};
  std::shared_ptr<UcxWorker> honest_ = *UcxWorker::open(over_tcp());
  std::shared_ptr<UcxWorker> other_ = *UcxWorker::open(over_tcp());
  RegionToken token_ = *honest_->share(std::span(memory_).subspan(32, 32));
  std::shared_ptr<UcxConnection> liar_ =
      *UcxConnection::open(other_, *open_envelope(EnvelopeKind::kAddress, honest_->address()),
                           {4, "lied to", std::make_shared<Failure>()}, patience());
};

TEST_F(UcxServeTest, RefusesWhatIsNotWithinTheRegion) {
  for (uint64_t offset :
       {uint64_t{25}, uint64_t{33}, UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 31}) {
    EXPECT_THAT(put(offset, 8).to_string(), HasSubstr("rank 4 of group lied to refused")) << offset;
    EXPECT_THAT(get(offset, 8).to_string(), HasSubstr("rank 4 of group lied to refused")) << offset;
    EXPECT_EQ(change(offset, AtomicKind::kAdd, WordBytes::k8).kind(), StatusKind::kInvalidArgument)
        << offset;
  }
  EXPECT_EQ(put(0, 33).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(get(0, size_t{1} << 20).kind(), StatusKind::kInvalidArgument);
  EXPECT_THAT(memory_, Each(std::byte{0}));
  EXPECT_TRUE(put(24, 8).ok());  // and lives on
  EXPECT_EQ(memory_[63], std::byte{1});
}

TEST_F(UcxServeTest, RefusesAtomicsThatAreNone) {
  EXPECT_EQ(change(4, AtomicKind::kAdd, WordBytes::k8).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(change(0, AtomicKind::kAdd, WordBytes{2}).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(change(0, AtomicKind{6}, WordBytes::k8).kind(), StatusKind::kInvalidArgument);
  EXPECT_THAT(memory_, Each(std::byte{0}));
  EXPECT_TRUE(change(0, AtomicKind::kAdd, WordBytes::k8).ok());
}

TEST_F(UcxServeTest, OfPostedCallsThatAreAnsweredTogetherThoseAreRefusedThatMustBe) {
  {
    MutexLock held(honest_->mutex);  // so that it finds them all at once
    const std::array<std::byte, 1> sent = {std::byte{1}};
    for (uint64_t offset = 0; offset < 40; ++offset) {  // 32 and more are outside
      ASSERT_TRUE(liar_->put({token_, offset}, sent, patience()).ok());
    }
  }
  EXPECT_THAT(liar_->quiet(patience()).to_string(), HasSubstr("refused"));
  EXPECT_TRUE(liar_->quiet(patience()).ok()) << "it was told";
  EXPECT_THAT(std::span(memory_).subspan(32, 32), Each(std::byte{1}));
  EXPECT_THAT(std::span(memory_).subspan(64), Each(std::byte{0}));
}

// Says a few times that these were done, before it answers what it was asked meanwhile.
void lie(UcxWorker& liar, const UcxConnection& to, std::span<const std::byte> calls,
         const std::function<void()>& ask) ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  MutexLock held(liar.mutex);
  ask();
  Message done;
  done.kind = MessageKind::kDone;
  for (int time = 0; time < 20; ++time) {
    EXPECT_EQ(liar.send_locked(to.endpoint_locked(), done, calls), UCS_OK);
    EXPECT_EQ(liar.send_locked(to.endpoint_locked(), done, calls.first(13)), UCS_OK);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST_F(UcxServeTest, WhoIsToldThatAGetWasDoneStillWaitsForItsBytes) {
  const auto back =
      *UcxConnection::open(honest_, *open_envelope(EnvelopeKind::kAddress, other_->address()),
                           {7, "told", std::make_shared<Failure>()}, patience());
  std::array<std::byte, 8> there{};
  there.fill(std::byte{5});
  const RegionToken region = *other_->share(there);
  std::array<uint64_t, 8> calls{};
  {
    MutexLock lock(honest_->mutex);
    const uint64_t last = honest_->await_locked({.connection = back.get(), .is_put = true});
    for (size_t i = 0; i < calls.size(); ++i) calls[i] = last + 1 + i;  // the get's, and others'
  }
  std::array<std::byte, 8> got{};
  Status found;
  std::thread asking;
  lie(*other_, *liar_, std::as_bytes(std::span(calls)), [&] {
    asking = std::thread([&] { found = back->get({region, 0}, got, patience()); });
  });
  asking.join();
  EXPECT_TRUE(found.ok()) << found.to_string();
  EXPECT_EQ(got, there);
  other_->forget(region);
}

TEST_F(UcxServeTest, IsNotAskedForAllOfALargeGetAtOnce) {
  const auto count_calls = [this] {
    MutexLock lock(other_->mutex);
    return other_->await_locked({.connection = liar_.get(), .is_put = true});
  };
  std::vector<std::byte> got(size_t{64} << 20);
  const uint64_t before = count_calls();
  {
    MutexLock held(honest_->mutex);  // it answers nothing meanwhile
    const Deadline soon = Deadline::after(std::chrono::milliseconds(100));
    EXPECT_EQ(liar_->get({token_, 0}, got, soon).kind(), StatusKind::kTimeout);
  }
  EXPECT_LE(count_calls() - before, 129);
}

// Asks for 250 MiB, and reads nothing until `is_over()`: how much lay there at most.
size_t most_owed(UcxWorker& honest, UcxWorker& asking, const UcxConnection& by,
                 const std::function<bool()>& is_over)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  std::vector<std::byte> large(size_t{64} << 10);
  Message ask;
  ask.kind = MessageKind::kGet;
  ask.region = *honest.share(large);
  ask.bytes = large.size();
  size_t most_bytes = 0;
  MutexLock held(asking.mutex);  // nobody calls progress there
  for (int call = 0; call < 4000; ++call) {
    EXPECT_EQ(asking.send_locked(by.endpoint_locked(), ask, {}), UCS_OK);
  }
  for (const Deadline soon = patience(); !is_over() && !soon.has_passed();) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    MutexLock lock(honest.mutex);
    most_bytes = std::max(most_bytes, honest.waiting_bytes_locked());
  }
  honest.forget(ask.region);
  return most_bytes;
}

TEST_F(UcxServeTest, CutsOffWhoeverAsksAndDoesNotRead) {
  const Deadline enough = Deadline::after(std::chrono::milliseconds(500));
  EXPECT_LT(most_owed(*honest_, *other_, *liar_, [&] { return enough.has_passed(); }),
            size_t{40} << 20);
  std::array<std::byte, 8> got{};
  const Deadline soon = Deadline::after(std::chrono::milliseconds(200));
  EXPECT_FALSE(liar_->get({token_, 0}, got, soon).ok());
  MutexLock lock(honest_->mutex);
  EXPECT_EQ(honest_->waiting_bytes_locked(), 0U);
}

// Where both sides have a connection, the group of the one that is asked hears why.
TEST_F(UcxServeTest, TellsTheGroupWhyItCutSomebodyOff) {
  const auto failure = std::make_shared<Failure>();
  const auto back =
      *UcxConnection::open(honest_, *open_envelope(EnvelopeKind::kAddress, other_->address()),
                           {7, "asked", failure}, patience());
  EXPECT_LT(most_owed(*honest_, *other_, *liar_, [&] { return failure->has_happened(); }),
            size_t{40} << 20);
  EXPECT_THAT(failure->reason().to_string(), HasSubstr("does not read the answers"));
}

TEST_F(UcxServeTest, RefusesWhoeverDoesNotKnowTheToken) {
  token_[1] ^= 1;
  EXPECT_THAT(put(0, 8).to_string(), HasSubstr("does not share"));
  EXPECT_THAT(get(0, 8).to_string(), HasSubstr("does not share"));
  EXPECT_THAT(memory_, Each(std::byte{0}));
}

}  // namespace
}  // namespace ashlar::symm
