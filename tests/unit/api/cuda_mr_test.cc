// SPDX-License-Identifier: Apache-2.0
//
// StreamOrderedResource against CCCL's own concepts, where the machine that compiles has the
// toolkit's headers (CMake looks for them). All of it is checked by the compiler: where this
// compiles, it holds. stream_ordered_resource_test.cc says the same without them.
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

TEST(CudaMemoryResource, TheResourceIsWhatTheToolkitsHeadersWant) {
  GTEST_SKIP() << "there is no cuda/memory_resource on the machine that compiled this";
}

#endif
