// SPDX-License-Identifier: Apache-2.0
//
// The class AliasProbe owns everything that the probe allocates. Its destructor releases it.
#include "device/gpu/alias_probe.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "base/text.h"
#include "device/gpu/driver_errors.h"

namespace ashlar::gpu {
namespace {

class AliasProbe {
 public:
  AliasProbe(Driver& driver, const Driver::CreateRequest& request)
      : driver_(driver), request_(request), bytes_(request.bytes) {}
  ~AliasProbe();
  AliasProbe(const AliasProbe&) = delete;
  AliasProbe& operator=(const AliasProbe&) = delete;

  AliasProbeResult run();

 private:
  enum class StoreMethod { kHostCopy, kFill, kDeviceCopy };
  static constexpr int kMappingCount = 2;

  // These functions return the result of the first driver call that failed, or success.
  DriverResult prepare();
  DriverResult map(int mapping);
  // Stores a new pattern through the mapping `through`, and loads it through the other mapping.
  // Increases `wrong_bytes` by the number of loaded bytes that differ from the pattern.
  DriverResult transfer(StoreMethod store, int through, size_t& wrong_bytes);
  DriverResult store_pattern(StoreMethod store, DeviceAddress to);
  DriverResult load(StoreMethod store, DeviceAddress from);

  // Sets `expected_` to a pattern that differs between transfers, so that stale data is detected.
  // For a fill, all bytes are equal; otherwise all words differ, so that misplaced data is detected
  // too.
  void make_pattern(StoreMethod store);
  size_t count_wrong_bytes() const;
  DeviceAddress address(int mapping) const {
    return addresses_ + static_cast<size_t>(mapping) * bytes_;
  }
  AliasProbeResult failure_result(const char* result, const DriverResult& call) const {
    return {false, text(result, ": ", explain(driver_, call))};
  }

  Driver& driver_;
  const Driver::CreateRequest request_;
  const size_t bytes_;
  std::optional<Handle> extent_;
  std::optional<StreamId> stream_;
  DeviceAddress scratch_;    // one granule of plain memory
  DeviceAddress addresses_;  // two granules, one for each mapping
  int mapped_count_ = 0;
  uint32_t transfer_count_ = 0;
  std::vector<uint64_t> expected_;  // 64-bit words are faster to generate than bytes
  std::vector<uint64_t> loaded_;
};

AliasProbe::~AliasProbe() {
  if (stream_) {
    (void)driver_.synchronize_stream(*stream_);
    (void)driver_.destroy_stream(*stream_);
  }
  for (int i = 0; i < mapped_count_; ++i) (void)driver_.unmap({address(i), bytes_});
  if (!addresses_.is_null()) (void)driver_.free_addresses({addresses_, kMappingCount * bytes_});
  if (!scratch_.is_null()) (void)driver_.free(scratch_);
  if (extent_) (void)driver_.release(*extent_);
}

AliasProbeResult AliasProbe::run() {
  if (const DriverResult ready = prepare(); !ready.ok()) return failure_result("not probed", ready);
  if (const DriverResult first = map(0); !first.ok()) return failure_result("not probed", first);
  if (const DriverResult second = map(1); !second.ok()) return failure_result("refused", second);
  for (const StoreMethod store :
       {StoreMethod::kHostCopy, StoreMethod::kFill, StoreMethod::kDeviceCopy}) {
    for (int through = 0; through < kMappingCount; ++through) {
      size_t wrong_bytes = 0;
      const DriverResult transferred = transfer(store, through, wrong_bytes);
      if (!transferred.ok()) return failure_result("refused", transferred);
      if (wrong_bytes == 0) continue;
      return {false, text("incoherent: ", wrong_bytes, " of ", bytes_, " B stored through the ",
                          through == 0 ? "first" : "second",
                          " of two mappings did not appear in the other")};
    }
  }
  return {true, "works: data stored through either of two mappings appeared in the other"};
}

DriverResult AliasProbe::prepare() {
  Handle extent = 0;
  if (const DriverResult created = driver_.create(request_, extent); !created.ok()) return created;
  extent_ = extent;
  const DriverResult reserved = driver_.reserve({kMappingCount * bytes_, 0, {}}, addresses_);
  if (!reserved.ok()) return reserved;
  if (const DriverResult created = driver_.allocate(bytes_, scratch_); !created.ok())
    return created;
  StreamId stream;
  if (const DriverResult created = driver_.create_stream(0, stream); !created.ok()) return created;
  stream_ = stream;
  expected_.resize(bytes_ / sizeof(uint64_t));  // exact, because granules consist of whole pages
  loaded_.resize(bytes_ / sizeof(uint64_t));
  return {};
}

DriverResult AliasProbe::map(int mapping) {
  const AddressRange range{address(mapping), bytes_};
  if (const DriverResult mapped = driver_.map(range, *extent_); !mapped.ok()) return mapped;
  ++mapped_count_;
  return driver_.set_access(range, request_.device, Access::kReadWrite);
}

DriverResult AliasProbe::transfer(StoreMethod store, int through, size_t& wrong_bytes) {
  make_pattern(store);
  const DriverResult stored = store_pattern(store, address(through));
  if (!stored.ok()) return stored;
  const DriverResult queued = load(store, address(kMappingCount - 1 - through));
  if (!queued.ok()) return queued;
  const DriverResult finished = driver_.synchronize_stream(*stream_);
  if (!finished.ok()) return finished;
  wrong_bytes += count_wrong_bytes();
  return finished;
}

void AliasProbe::make_pattern(StoreMethod store) {
  ++transfer_count_;
  if (store == StoreMethod::kFill) {
    std::memset(expected_.data(), static_cast<int>(0xA0U + transfer_count_), bytes_);
    return;
  }
  uint64_t word = transfer_count_;
  uint64_t* const words = expected_.data();
  const size_t count = expected_.size();
  for (size_t i = 0; i < count; ++i) {
    word = word * 6364136223846793005U + 1442695040888963407U;  // a linear congruential generator
    words[i] = word;
  }
}

size_t AliasProbe::count_wrong_bytes() const {
  if (std::memcmp(expected_.data(), loaded_.data(), bytes_) == 0) return 0;
  const auto* expected = reinterpret_cast<const uint8_t*>(expected_.data());
  const auto* loaded = reinterpret_cast<const uint8_t*>(loaded_.data());
  size_t count = 0;
  for (size_t i = 0; i < bytes_; ++i) count += expected[i] != loaded[i];
  return count;
}

DriverResult AliasProbe::store_pattern(StoreMethod store, DeviceAddress to) {
  switch (store) {
    case StoreMethod::kHostCopy:
      return driver_.copy_to_device(to, expected_.data(), bytes_, *stream_);
    case StoreMethod::kFill:
      return driver_.fill(to, static_cast<uint8_t>(expected_.front()), bytes_, *stream_);
    case StoreMethod::kDeviceCopy: break;
  }
  const DriverResult staged = driver_.copy_to_device(scratch_, expected_.data(), bytes_, *stream_);
  return staged.ok() ? driver_.copy(to, scratch_, bytes_, *stream_) : staged;
}

// Loads data from a mapping. If the store was a device copy, the load is a device copy to
// `scratch_`. In that case, clears `scratch_` first, because the pattern that the store left there
// would hide a failed load.
DriverResult AliasProbe::load(StoreMethod store, DeviceAddress from) {
  if (store == StoreMethod::kDeviceCopy) {
    const DriverResult cleared = driver_.fill(scratch_, 0, bytes_, *stream_);
    if (!cleared.ok()) return cleared;
    const DriverResult copied = driver_.copy(scratch_, from, bytes_, *stream_);
    if (!copied.ok()) return copied;
    from = scratch_;
  }
  return driver_.copy_to_host(loaded_.data(), from, bytes_, *stream_);
}

}  // namespace

AliasProbeResult probe_aliases(Driver& driver, const Driver::CreateRequest& request) {
  return AliasProbe(driver, request).run();
}

}  // namespace ashlar::gpu
