// SPDX-License-Identifier: Apache-2.0
//
// Checks StreamOrderedResource against CCCL's own concepts at compile time, if the toolkit's
// headers are installed. stream_ordered_resource_test.cc has the same checks without these headers.
#include "ashlar/stream_ordered_resource.h"

#include <gtest/gtest.h>

#if __has_include(<cuda/memory_resource>)
#include <cuda/memory_resource>

namespace ashlar {
namespace {

using cuda::mr::device_accessible;
using cuda::mr::host_accessible;
using Resource = StreamOrderedResource<device_accessible>;

static_assert(cuda::has_property<Resource, device_accessible>);
static_assert(!cuda::has_property<Resource, host_accessible>);

#if CCCL_VERSION >= 3001000
static_assert(cuda::mr::synchronous_resource_with<Resource, device_accessible>);
static_assert(cuda::mr::resource_with<Resource, device_accessible>);
static_assert(!cuda::mr::resource_with<Resource, host_accessible>);
static_assert(std::constructible_from<cuda::mr::resource_ref<device_accessible>, Resource&>);
#else
static_assert(cuda::mr::resource_with<Resource, device_accessible>);
static_assert(cuda::mr::async_resource_with<Resource, device_accessible>);
static_assert(!cuda::mr::async_resource_with<Resource, host_accessible>);
static_assert(std::constructible_from<cuda::mr::async_resource_ref<device_accessible>, Resource&>);
#endif

}  // namespace
}  // namespace ashlar

#else

TEST(CudaMemoryResource, SatisfiesToolkitConcepts) {
  GTEST_SKIP() << "compiled without <cuda/memory_resource>";
}

#endif
