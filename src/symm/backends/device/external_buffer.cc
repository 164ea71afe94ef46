// SPDX-License-Identifier: Apache-2.0
//
// Finds the external buffer of each kind of request. Has one overload per kind, since their fields
// differ.
#include "symm/backends/device/external_buffer.h"

#include "base/text.h"

namespace ashlar::symm {
namespace {

size_t bytes_of(int64_t count, size_t each) { return static_cast<size_t>(count) * each; }

template <typename Request>
ExternalBuffer reduction_output(const Request& each) {
  return {"out", each.out, reduced_bytes(each)};
}

}  // namespace

ExternalBuffer external_buffer_of(const ThresholdAllReduce& each) {
  return reduction_output(each.request);
}
ExternalBuffer external_buffer_of(const Reduce& each) { return reduction_output(each); }
ExternalBuffer external_buffer_of(const ReduceScatter& each) { return reduction_output(each); }
ExternalBuffer external_buffer_of(const AllGather& each) {
  return {"in", const_cast<std::byte*>(each.in), bytes_of(each.bytes, 1)};
}
ExternalBuffer external_buffer_of(const Broadcast& each) {
  return {"out", each.out, bytes_of(each.bytes, 1)};
}
ExternalBuffer external_buffer_of(const AllToAll& each) {
  return {"out", each.out, bytes_of(each.bytes, each.range.bases.size())};
}
ExternalBuffer external_buffer_of(const MultimemAllReduce& each) {
  return reduction_output(each.request);
}
ExternalBuffer external_buffer_of(const MultimemReduce& each) {
  return reduction_output(each.request);
}
ExternalBuffer external_buffer_of(const MultimemAllGather& each) {
  return external_buffer_of(each.request);
}
ExternalBuffer external_buffer_of(const AllToAllV& each) {
  return {"out", each.out, bytes_of(each.out_bytes, 1)};
}
ExternalBuffer external_buffer_of(const ExpertAllToAll& each) {
  return {"out", each.out, bytes_of(each.out_bytes, 1)};
}
std::array<ExternalBuffer, 2> output_arrays_of(const ExpertAllToAll& each) {
  const size_t bytes = bytes_of(each.experts_per_rank, each.range.bases.size() * sizeof(int64_t));
  return {ExternalBuffer{"out_splits", reinterpret_cast<std::byte*>(each.out_splits), bytes},
          ExternalBuffer{"out_offsets", reinterpret_cast<std::byte*>(each.out_offsets), bytes}};
}
ExternalBuffer external_buffer_of(const MulticastPut& each) {
  return {"from", const_cast<std::byte*>(each.from.data()), each.from.size()};
}

Status external_buffer_error(const ExternalBuffer& other, const Status& reason) {
  return Status::invalid_argument(
      text(other.name, " is not ", other.bytes,
           " bytes of memory that the device can use: ", reason.message()));
}

}  // namespace ashlar::symm
