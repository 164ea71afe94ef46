// What a thread of the stress does, one act after the other.
#include "worker.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/units.h"
#include "faults.h"

namespace ashlar::stress {
namespace {

// What each thread has at most: together somewhat more than there is, so that memory runs out.
constexpr size_t kMostLiveBytes = 70 * kMiB;
constexpr size_t kActsPerPhase = 400;

}  // namespace

void Worker::act() {
  ++act_count_;
  const uint64_t point = random_.below(1000);
  if (point < 400) return allocate();
  if (point < 690) return free_one();
  if (point < 760) return look();
  if (point < 840) return exchange();
  if (point < 850) return begin_or_end_session();
  if (point < 890) return sleepers_.act();
  if (point < 930) return graphs_.act();
  if (point < 970) return passing_.act();
  if (point < 977) return limit();
  if (point < 998) return field_.machine().inject(draw_fault(random_));
  if (point < 999) return expect_clear(field_.engine(random_.below(kDeviceCount)).trim());
  go_without_cache();
}

// Phases of small blocks, middling ones, large ones, and all together, so that what one leaves
// behind is of no use to the next unless it is stitched.
size_t Worker::draw_bytes() {
  struct Range {
    double low;
    double high;
  };
  constexpr std::array<Range, 4> kRanges = {{{9, 16}, {18, 22}, {21, 24.4}, {9, 24}}};
  const Range& range = kRanges[(act_count_ / kActsPerPhase + index_) % kRanges.size()];
  const double exponent = range.low + (range.high - range.low) * random_.fraction();
  return static_cast<size_t>(std::exp2(exponent));
}

void Worker::allocate() {
  const size_t bytes = draw_bytes();
  while (!live_.empty() && live_.bytes() + bytes > kMostLiveBytes) free_one();
  const size_t device = session_ ? session_->device() : random_.below(kDeviceCount);
  const Request request{bytes, field_.any_stream(device, random_)};
  const Result<Held> held =
      session_ ? session_->allocate(request) : field_.allocate(device, request);
  if (held.ok()) live_.add(*held);
  if (held.status().is_out_of_memory()) free_half();
}

void Worker::free_one() {
  if (!live_.empty()) free(live_.take_any(random_));
}

void Worker::free(const Held& held) {
  if (random_.below(20) != 0) return field_.free(held);
  // Somebody else has it open: it stays as it is until they let go.
  paged::PagedEngine& engine = field_.engine(held.device);
  engine.hold(held.block);
  field_.free(held);
  field_.check(held);
  engine.let_go(held.block);
}

void Worker::free_half() {
  for (size_t left = live_.size() / 2; live_.size() > left;) free_one();
}

void Worker::free_all() {
  session_.reset();
  while (!live_.empty()) free_one();
  sleepers_.free_all();
  graphs_.free_all();
  passing_.free_all();
}

size_t Worker::live_count(size_t device) const {
  return live_.count_on(device) + sleepers_.live_count(device) + graphs_.live_count(device) +
         passing_.live_count(device);
}

void Worker::look() {
  if (!live_.empty()) field_.look(live_.any(random_), random_);
}

void Worker::exchange() {
  if (!live_.empty() && random_.below(2) == 0) return field_.leave(live_.take_any(random_));
  if (const std::optional<Held> held = field_.take()) free(*held);
}

void Worker::begin_or_end_session() {
  if (session_) return session_.reset();
  session_ = std::make_unique<Session>(field_, random_);
}

void Worker::limit() {
  const double fraction = random_.below(2) == 0 ? 1.0 : 0.5 + random_.fraction() / 2;
  expect_clear(field_.engine(random_.below(kDeviceCount)).set_memory_fraction(fraction));
}

// For a few acts of all threads only: it makes everything slow, and nothing is stitched.
void Worker::go_without_cache() {
  paged::PagedEngine& engine = field_.engine(random_.below(kDeviceCount));
  engine.set_caching(false);
  for (int i = 0; i < 8; ++i) allocate();
  engine.set_caching(true);
}

}  // namespace ashlar::stress
