// SPDX-License-Identifier: Apache-2.0
//
// Includes the C++ API of the library ashlar::ashlar, except the launch of symmetric jobs
// (ashlar/launch.h) and the TCP store (ashlar/tcp_store.h). For shorter compile times, include the
// headers that you use. Redis (ashlar/redis_store.h), UCX (ashlar/ucx_transport.h), OpenSHMEM
// (ashlar/shmem/shmem.h) and C (ashlar/c/ashlar.h) have separate headers.
//
// Errors: see ashlar/errors.h.
#pragma once

#include "ashlar/allocator.h"
#include "ashlar/buffer.h"
#include "ashlar/device.h"
#include "ashlar/devices.h"
#include "ashlar/errors.h"
#include "ashlar/history.h"
#include "ashlar/hooks.h"
#include "ashlar/host.h"
#include "ashlar/live.h"
#include "ashlar/options.h"
#include "ashlar/pinned_resource.h"
#include "ashlar/plugin.h"
#include "ashlar/pool.h"
#include "ashlar/sharing.h"
#include "ashlar/sim.h"
#include "ashlar/snapshot.h"
#include "ashlar/stats.h"
#include "ashlar/status.h"
#include "ashlar/store.h"
#include "ashlar/stream.h"
#include "ashlar/stream_ordered_resource.h"
#include "ashlar/symmetric.h"
#include "ashlar/trace.h"
#include "ashlar/types.h"
#include "ashlar/version.h"
