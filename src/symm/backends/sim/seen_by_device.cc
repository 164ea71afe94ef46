// SPDX-License-Identifier: Apache-2.0
//
// Each kind of collective names its memory differently.
#include "symm/backends/sim/seen_by_device.h"

#include <algorithm>

#include "base/text.h"
#include "symm/backends/device/external_buffer.h"

namespace ashlar::symm {
namespace {

Piece& piece_of(ThresholdAllReduce& each) { return each.request.piece; }
Piece& piece_of(MultimemAllReduce& each) { return each.request.piece; }
Piece& piece_of(MultimemReduce& each) { return each.request.piece; }
Piece& piece_of(MultimemAllGather& each) { return each.request.piece; }
template <typename Request>
Piece& piece_of(Request& each) {
  return each.piece;
}

void set_elsewhere(ThresholdAllReduce& each, std::byte* seen) { each.request.out = seen; }
void set_elsewhere(AllGather& each, std::byte* seen) { each.in = seen; }
void set_elsewhere(MultimemAllReduce& each, std::byte* seen) { each.request.out = seen; }
void set_elsewhere(MultimemReduce& each, std::byte* seen) { each.request.out = seen; }
void set_elsewhere(MultimemAllGather& each, std::byte* seen) { each.request.in = seen; }
template <typename Request>
void set_elsewhere(Request& each, std::byte* seen) {
  each.out = seen;
}

}  // namespace

Result<std::byte*> seen_by(sim::SimDevice& device, const std::byte* address, size_t bytes) {
  const AddressRange range{DeviceAddress(reinterpret_cast<uint64_t>(address)), bytes};
  const Result<void*> seen = device.view(range, Access::kReadWrite);
  if (!seen.ok()) return seen.status();
  return static_cast<std::byte*>(*seen);
}

Result<SeenByDevice> SeenByDevice::of(sim::SimDevice& device, const Collective& what) {
  SeenByDevice seen(what);
  const auto translate = [&](auto& each) -> Status {
    Piece& piece = piece_of(each);
    for (const std::byte* base : piece.bases) {
      const Result<std::byte*> at = seen_by(device, base, std::max<size_t>(piece.buffer_bytes, 1));
      if (!at.ok()) return at.status();
      seen.bases_.push_back(*at);
    }
    piece.bases = seen.bases_;
    const ExternalBuffer other = elsewhere_of(each);
    if (other.address == nullptr || other.bytes == 0) return {};
    const Result<std::byte*> at = seen_by(device, other.address, other.bytes);
    if (!at.ok()) {
      return not_elsewhere(other, at.status());
    }
    set_elsewhere(each, *at);
    return {};
  };
  if (Status done = std::visit(translate, seen.what_); !done.ok()) return done;
  if (auto* rows = std::get_if<AllToAllV>(&seen.what_)) {
    seen.splits_.assign(rows->splits.begin(), rows->splits.end());
    rows->splits = seen.splits_;
  }
  return seen;
}

}  // namespace ashlar::symm
