// SPDX-License-Identifier: Apache-2.0
//
// Translates each collective. Has one overload per collective whose fields differ.
#include "symm/backends/sim/translated_collective.h"

#include <algorithm>

#include "base/text.h"
#include "symm/backends/device/external_buffer.h"

namespace ashlar::symm {
namespace {

SymmetricRange& range_of(ThresholdAllReduce& each) { return each.request.range; }
SymmetricRange& range_of(MultimemAllReduce& each) { return each.request.range; }
SymmetricRange& range_of(MultimemReduce& each) { return each.request.range; }
SymmetricRange& range_of(MultimemAllGather& each) { return each.request.range; }
template <typename Request>
SymmetricRange& range_of(Request& each) {
  return each.range;
}

void set_external_buffer(ThresholdAllReduce& each, std::byte* address) {
  each.request.out = address;
}
void set_external_buffer(AllGather& each, std::byte* address) { each.in = address; }
void set_external_buffer(MultimemAllReduce& each, std::byte* address) {
  each.request.out = address;
}
void set_external_buffer(MultimemReduce& each, std::byte* address) { each.request.out = address; }
void set_external_buffer(MultimemAllGather& each, std::byte* address) { each.request.in = address; }
template <typename Request>
void set_external_buffer(Request& each, std::byte* address) {
  each.out = address;
}

}  // namespace

Result<std::byte*> translate(sim::SimDevice& device, const std::byte* address, size_t bytes) {
  const AddressRange range{DeviceAddress(reinterpret_cast<uint64_t>(address)), bytes};
  const Result<void*> view = device.view(range, Access::kReadWrite);
  if (!view.ok()) return view.status();
  return static_cast<std::byte*>(*view);
}

Result<TranslatedCollective> TranslatedCollective::of(sim::SimDevice& device,
                                                      const Collective& request) {
  TranslatedCollective translated(request);
  const auto translate_request = [&](auto& each) -> Status {
    SymmetricRange& range = range_of(each);
    for (const std::byte* base : range.bases) {
      const Result<std::byte*> at =
          translate(device, base, std::max<size_t>(range.buffer_bytes, 1));
      if (!at.ok()) return at.status();
      translated.bases_.push_back(*at);
    }
    range.bases = translated.bases_;
    const ExternalBuffer other = external_buffer_of(each);
    if (other.address == nullptr || other.bytes == 0) return {};
    const Result<std::byte*> at = translate(device, other.address, other.bytes);
    if (!at.ok()) {
      return external_buffer_error(other, at.status());
    }
    set_external_buffer(each, *at);
    return {};
  };
  if (Status done = std::visit(translate_request, translated.collective_); !done.ok()) return done;
  if (auto* experts = std::get_if<ExpertAllToAll>(&translated.collective_)) {
    std::array<int64_t**, 2> arrays{&experts->out_splits, &experts->out_offsets};
    for (size_t i = 0; const ExternalBuffer& each : output_arrays_of(*experts)) {
      const Result<std::byte*> at = translate(device, each.address, each.bytes);
      if (!at.ok()) return external_buffer_error(each, at.status());
      *arrays[i++] = reinterpret_cast<int64_t*>(*at);
    }
  }
  if (auto* rows = std::get_if<AllToAllV>(&translated.collective_)) {
    translated.splits_.assign(rows->splits.begin(), rows->splits.end());
    rows->splits = translated.splits_;
  }
  return translated;
}

}  // namespace ashlar::symm
