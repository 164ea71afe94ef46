#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Determines how an NVIDIA driver behaves in cases that shaped the device contract, and what calls
cost.

Prints one line per question: a name and the driver's result. Needs a GPU and libcuda.so.1 only:
    python3 tools/gpu/driver_facts.py
docs/internals/driver_facts.md has the output on which the contract and the cost model are based.

The file is long because it contains all questions in order; each is short.
"""

import ctypes
import os
import statistics
import threading
import time
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

MIB = 1 << 20
cu = ctypes.CDLL("libcuda.so.1")
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2


def error_name(code):
    text = ctypes.c_char_p()
    cu.cuGetErrorName(code, byref(text))
    return "ok" if code == 0 else text.value.decode() if text.value else str(code)


def must(code):
    if code != 0:
        raise SystemExit(f"unexpected {error_name(code)}")


def fact(name, code):
    print(f"{name:<64} {error_name(code) if isinstance(code, int) else code}", flush=True)


class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class AllocationProp(ctypes.Structure):
    _fields_ = [("type", c_int), ("handle_types", c_int), ("location", Location),
                ("win32", c_void_p), ("flags", ctypes.c_ubyte * 8)]


class PoolProps(ctypes.Structure):
    _fields_ = [("alloc_type", c_int), ("handle_types", c_int), ("location", Location),
                ("win32", c_void_p), ("max_size", c_size_t), ("rest", ctypes.c_ubyte * 56)]


class AccessDesc(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", c_int)]


def prop(exportable=True):
    made = AllocationProp()
    made.type, made.handle_types = 1, 1 if exportable else 0
    made.location.type, made.location.id = 1, 0
    return made


def create(size):
    handle = c_uint64()
    must(cu.cuMemCreate(byref(handle), c_size_t(size), byref(prop()), c_uint64(0)))
    return handle


def reserve(size):
    at = c_uint64()
    must(cu.cuMemAddressReserve(byref(at), c_size_t(size), c_size_t(0), c_uint64(0), c_uint64(0)))
    return at


def address_at(at, offset):
    return c_uint64(at.value + offset)


def map_at(at, size, handle):
    return cu.cuMemMap(at, c_size_t(size), c_size_t(0), handle, c_uint64(0))


def allow(at, size, flags=3):
    access = AccessDesc()
    access.location.type, access.location.id, access.flags = 1, 0, flags
    return cu.cuMemSetAccess(at, c_size_t(size), byref(access), c_size_t(1))


def unmap(at, size):
    return cu.cuMemUnmap(at, c_size_t(size))


def allocate(size):
    at = c_uint64()
    return cu.cuMemAlloc_v2(byref(at), c_size_t(size)), at


def stream():
    made = c_void_p()
    must(cu.cuStreamCreate(byref(made), c_uint(1)))
    return made


def event(flags=2):
    made = c_void_p()
    must(cu.cuEventCreate(byref(made), c_uint(flags)))
    return made


def virtual_memory():
    granule = 2 * MIB
    at = reserve(8 * granule)
    first, second = create(granule), create(granule)
    big = create(2 * granule)
    fact("map: at an address inside no reservation", map_at(c_uint64(granule), granule, first))
    fact("map: misaligned address", map_at(address_at(at, 4096), granule, first))
    fact("map: part of an extent", map_at(at, granule, big))
    fact("map: first", map_at(at, granule, first))
    fact("map: over something mapped", map_at(at, granule, second))
    fact("map: the same extent elsewhere (alias)",
         map_at(address_at(at, 4 * granule), granule, first))
    fact("map: neighbour", map_at(address_at(at, granule), granule, second))
    fact("map: an extent of two granules", map_at(address_at(at, 2 * granule), 2 * granule, big))
    fact("set_access: over a hole", allow(at, 8 * granule))
    fact("set_access: cutting an extent", allow(address_at(at, 2 * granule), granule))
    fact("set_access: two extents together", allow(at, 2 * granule))
    fact("set_access: the rest", allow(address_at(at, 2 * granule), 3 * granule))
    fact("set_access: revoke (NONE)", allow(at, granule, 0))
    fact("free_addresses: with mappings in it", cu.cuMemAddressFree(at, c_size_t(8 * granule)))
    fact("unmap: cutting an extent", unmap(address_at(at, 2 * granule), granule))
    fact("release: while mapped", cu.cuMemRelease(first))
    fact("release: twice", cu.cuMemRelease(first))
    fact("unmap: two extents together", unmap(at, 2 * granule))
    fact("unmap: again", unmap(at, 2 * granule))
    fact("unmap: over a hole", unmap(at, 8 * granule))
    fact("free_addresses: part of a reservation", cu.cuMemAddressFree(at, c_size_t(granule)))
    fact("free_addresses: whole", cu.cuMemAddressFree(at, c_size_t(8 * granule)))
    fact("free_addresses: twice", cu.cuMemAddressFree(at, c_size_t(8 * granule)))
    # cuMemRelease of an unknown handle crashes the process, so it is not tested here.
    bad = c_uint64()
    fact("create: 0 B", cu.cuMemCreate(byref(bad), c_size_t(0), byref(prop()), c_uint64(0)))
    fact("create: 4 KiB", cu.cuMemCreate(byref(bad), c_size_t(4096), byref(prop()), c_uint64(0)))
    fact("create: 1 TiB", cu.cuMemCreate(byref(bad), c_size_t(1 << 40), byref(prop()), c_uint64(0)))
    fact("import fd: not an extent", cu.cuMemImportFromShareableHandle(
        byref(bad), c_void_p(os.open("/dev/null", os.O_RDWR)), c_int(1)))
    must(cu.cuMemRelease(second))
    must(cu.cuMemRelease(big))


def plain_memory():
    fact("allocate: 0 B", allocate(0)[0])
    fact("allocate: 2^62 B", allocate(1 << 62)[0])
    fact("allocate: 2^64 - 1 B", allocate((1 << 64) - 1)[0])
    code, at = allocate(MIB)
    must(code)
    fact("free: inside an allocation", cu.cuMemFree_v2(address_at(at, 512)))
    fact("free: unknown", cu.cuMemFree_v2(c_uint64(4096)))
    fact("free: valid", cu.cuMemFree_v2(at))
    fact("free: twice", cu.cuMemFree_v2(at))
    s = stream()
    code = cu.cuMemAllocAsync(byref(at), c_size_t(MIB), s)
    must(code)
    fact("free: memory of the stream-ordered pool", cu.cuMemFree_v2(at))
    must(cu.cuMemAllocAsync(byref(at), c_size_t(MIB), s))
    must(cu.cuMemFreeAsync(at, s))
    fact("free_async: twice", cu.cuMemFreeAsync(at, s))
    fact("free_async: unknown", cu.cuMemFreeAsync(c_uint64(4096), s))
    must(cu.cuStreamSynchronize(s))
    host = c_void_p()
    must(cu.cuMemHostAlloc(byref(host), c_size_t(MIB), c_uint(0)))
    fact("register_host: memory that is pinned", cu.cuMemHostRegister_v2(host, c_size_t(MIB), 0))
    fact("free_host: inside", cu.cuMemFreeHost(c_void_p(host.value + 64)))
    fact("free_host: valid", cu.cuMemFreeHost(host))
    buffer = ctypes.create_string_buffer(4 * MIB)
    where = (ctypes.addressof(buffer) + MIB) & ~4095
    fact("register_host: first", cu.cuMemHostRegister_v2(c_void_p(where), c_size_t(MIB), 0))
    fact("register_host: overlapping",
         cu.cuMemHostRegister_v2(c_void_p(where + 4096), c_size_t(MIB), 0))
    fact("unregister_host: inside", cu.cuMemHostUnregister(c_void_p(where + 4096)))
    fact("unregister_host: valid", cu.cuMemHostUnregister(c_void_p(where)))
    fact("unregister_host: twice", cu.cuMemHostUnregister(c_void_p(where)))
    code, at = allocate(2 * MIB)
    must(code)
    fact("copy_to_host: past the end of an allocation by 1 GiB", cu.cuMemcpyDtoHAsync_v2(
        buffer, address_at(at, 1 << 30), c_size_t(64), s))
    fact("copy_to_host: 0 B", cu.cuMemcpyDtoHAsync_v2(buffer, at, c_size_t(0), s))
    fact("fill: 0 B", cu.cuMemsetD8Async(at, ctypes.c_ubyte(1), c_size_t(0), s))
    must(cu.cuMemFree_v2(at))


def events_and_streams():
    s, t = stream(), stream()
    plain, timed = event(), event(0)
    fact("is_done: never recorded", cu.cuEventQuery(plain))
    fact("wait_event: never recorded", cu.cuStreamWaitEvent(s, plain, c_uint(0)))
    ms = ctypes.c_float()
    fact("elapsed: never recorded", cu.cuEventElapsedTime(byref(ms), timed, timed))
    must(cu.cuEventRecord(plain, s))
    must(cu.cuStreamSynchronize(s))
    fact("elapsed: created without timing", cu.cuEventElapsedTime(byref(ms), plain, plain))
    fact("destroy_stream: the default stream", cu.cuStreamDestroy_v2(c_void_p(0)))
    must(cu.cuStreamDestroy_v2(t))


def in_capture(name, action, mode=GLOBAL, other_thread=False, thread_mode=None):
    """Prints the result of `action` during a capture, and the state of the capture afterwards."""
    s = stream()
    must(cu.cuStreamBeginCapture_v2(s, c_int(mode)))
    outcome = []

    def run_action():
        if other_thread:
            must(cu.cuCtxSetCurrent(context))
        previous = c_int(thread_mode if thread_mode is not None else GLOBAL)
        must(cu.cuThreadExchangeStreamCaptureMode(byref(previous)))
        outcome.append(action(s))
        must(cu.cuThreadExchangeStreamCaptureMode(byref(previous)))

    if other_thread:
        thread = threading.Thread(target=run_action)
        thread.start()
        thread.join()
    else:
        run_action()
    status = c_int()
    cu.cuStreamIsCapturing(s, byref(status))
    graph = c_void_p()
    ended = cu.cuStreamEndCapture(s, byref(graph))
    state = {0: "none", 1: "active", 2: "invalidated"}[status.value]
    fact(f"capture: {name}", f"{error_name(outcome[0])}; capture {state}; end {error_name(ended)}")
    cu.cuStreamDestroy_v2(s)


def destroy_capturing_stream():
    """Destroys a stream during its capture. Does not use in_capture, which needs the stream
    afterwards.

    A call that captures forbid shows whether the capture is still active.
    """
    s = stream()
    must(cu.cuStreamBeginCapture_v2(s, c_int(GLOBAL)))
    destroyed = cu.cuStreamDestroy_v2(s)
    allocated = allocate(MIB)[0]
    fact("capture: destroy_stream of the capturing stream",
         f"{error_name(destroyed)}; allocate afterwards {error_name(allocated)}")
    if destroyed != 0:
        cu.cuStreamEndCapture(s, byref(c_void_p()))
        must(cu.cuStreamDestroy_v2(s))


def pool_operations(stream):
    """Returns operations on a stream-ordered pool: statistics, and memory for another stream."""
    of_device = PoolProps(alloc_type=1, location=Location(type=1))
    pool = c_void_p()
    must(cu.cuMemPoolCreate(byref(pool), byref(of_device)))
    threshold, reserved_now, reserved_peak = 4, 5, 6

    def allocate_and_free(_):
        at = c_uint64()
        code = cu.cuMemAllocFromPoolAsync(byref(at), c_size_t(MIB), pool, stream)
        return code or cu.cuMemFreeAsync(at, stream)

    return [
        ("driver_pool_stats", lambda s: cu.cuMemPoolGetAttribute(pool, c_int(reserved_now),
                                                        byref(c_uint64()))),
        ("reset_pool_peaks", lambda s: cu.cuMemPoolSetAttribute(pool, c_int(reserved_peak),
                                                                byref(c_uint64()))),
        ("set_pool_threshold", lambda s: cu.cuMemPoolSetAttribute(pool, c_int(threshold),
                                                                  byref(c_uint64(MIB)))),
        ("trim_pool", lambda s: cu.cuMemPoolTrimTo(pool, c_size_t(0))),
        ("allocate_async and free_async in another stream", allocate_and_free),
    ]


def captures():
    other, done = stream(), event()
    must(cu.cuEventRecord(done, other))
    must(cu.cuStreamSynchronize(other))
    host = c_void_p()
    must(cu.cuMemHostAlloc(byref(host), c_size_t(MIB), c_uint(0)))
    _, spare = allocate(MIB)
    at, handle = reserve(2 * MIB), create(2 * MIB)

    def free_spare(_):
        return cu.cuMemFree_v2(spare)

    def new_host(_):
        made = c_void_p()
        return cu.cuMemHostAlloc(byref(made), c_size_t(MIB), c_uint(0))

    in_capture("nothing", lambda s: 0)
    in_capture("allocate", lambda s: allocate(MIB)[0])
    in_capture("allocate, other thread", lambda s: allocate(MIB)[0], other_thread=True)
    in_capture("allocate, this thread relaxed", lambda s: allocate(MIB)[0], thread_mode=RELAXED)
    in_capture("allocate, thread-local capture", lambda s: allocate(MIB)[0], THREAD_LOCAL)
    in_capture("allocate, thread-local capture, other thread", lambda s: allocate(MIB)[0],
               THREAD_LOCAL, other_thread=True)
    in_capture("allocate, global capture, other thread is thread-local",
               lambda s: allocate(MIB)[0], GLOBAL, other_thread=True, thread_mode=THREAD_LOCAL)
    in_capture("allocate, relaxed capture", lambda s: allocate(MIB)[0], RELAXED)
    in_capture("free", free_spare)
    in_capture("allocate_host", new_host)
    in_capture("free_host", lambda s: cu.cuMemFreeHost(host))
    in_capture("synchronize_device", lambda s: cu.cuCtxSynchronize())
    in_capture("synchronize_stream of another stream", lambda s: cu.cuStreamSynchronize(other))
    in_capture("synchronize_stream of the capturing stream", cu.cuStreamSynchronize)
    in_capture("is_idle of another stream", lambda s: cu.cuStreamQuery(other))
    in_capture("is_idle of the capturing stream", cu.cuStreamQuery)
    in_capture("is_idle of the capturing stream, relaxed", cu.cuStreamQuery, RELAXED)
    in_capture("is_done of an event outside", lambda s: cu.cuEventQuery(done))
    in_capture("is_done of an event outside, relaxed capture", lambda s: cu.cuEventQuery(done),
               RELAXED)
    in_capture("synchronize_event outside", lambda s: cu.cuEventSynchronize(done))
    in_capture("wait_event on an event outside", lambda s: cu.cuStreamWaitEvent(s, done, 0))
    in_capture("create", lambda s: cu.cuMemCreate(byref(c_uint64()), c_size_t(2 * MIB),
                                                  byref(prop()), c_uint64(0)))
    in_capture("map", lambda s: map_at(at, 2 * MIB, handle))
    in_capture("set_access", lambda s: allow(at, 2 * MIB))
    in_capture("unmap", lambda s: unmap(at, 2 * MIB))
    in_capture("release", lambda s: cu.cuMemRelease(handle))
    in_capture("end_capture on a stream not capturing",
               lambda s: cu.cuStreamEndCapture(other, byref(c_void_p())))
    in_capture("begin_capture twice", lambda s: cu.cuStreamBeginCapture_v2(s, c_int(GLOBAL)))
    in_capture("allocate_async", lambda s: cu.cuMemAllocAsync(byref(c_uint64()), c_size_t(MIB), s))
    destroy_capturing_stream()
    for name, operation in pool_operations(other):
        in_capture(name, operation)
        in_capture(f"{name}, this thread relaxed", operation, thread_mode=RELAXED)

    def fork(s):
        must(cu.cuEventRecord(forked, s))
        return cu.cuStreamWaitEvent(other, forked, c_uint(0))

    forked = event()
    in_capture("fork without work, not joined", fork)

    def fork_and_work(s):
        must(fork(s))
        return cu.cuMemsetD8Async(cell, ctypes.c_ubyte(1), c_size_t(64), other)

    _, cell = allocate(MIB)
    in_capture("fork with work, not joined", fork_and_work)

    def end_on_fork(s):
        must(fork(s))
        return cu.cuStreamEndCapture(other, byref(c_void_p()))

    in_capture("end_capture on a stream that joined", end_on_fork)

    def query_captured(s):
        must(cu.cuEventRecord(forked, s))
        return cu.cuEventQuery(forked)

    in_capture("is_done of a captured event", query_captured)
    in_capture("is_done of a captured event, relaxed capture", query_captured, RELAXED)


def median_us(measured, make=None, undo=None, count=100):
    """Returns the median time of `measured` on the result of `make`; `undo` cleans up."""
    times = []
    for _ in range(count):
        made = make() if make else None
        begin = time.perf_counter_ns()
        result = measured(made) if make else measured()
        times.append(time.perf_counter_ns() - begin)
        if undo:
            undo(result)
    return statistics.median(times) / 1000


def cost(name, measured, **options):
    fact(f"us: {name}", f"{median_us(measured, **options):.2f}")


def extent_costs(size):
    print(f"   {size // MIB} MiB")
    cost("free_addresses", lambda at: must(cu.cuMemAddressFree(at, c_size_t(size))),
         make=lambda: reserve(size))
    handle, fd = create(size), c_int()
    must(cu.cuMemExportToShareableHandle(byref(fd), handle, c_int(1), c_uint64(0)))

    def import_fd():
        made = c_uint64()
        must(cu.cuMemImportFromShareableHandle(byref(made), c_void_p(fd.value), c_int(1)))
        return made

    cost("import_fd", import_fd, undo=lambda made: must(cu.cuMemRelease(made)), count=20)
    must(cu.cuMemRelease(handle))
    os.close(fd.value)


def host_memory_costs(size):
    print(f"   {size // MIB} MiB")

    def pinned():
        made = c_void_p()
        must(cu.cuMemHostAlloc(byref(made), c_size_t(size), c_uint(0)))
        return made

    def free(made):
        must(cu.cuMemFreeHost(made))

    cost("allocate_host", pinned, undo=free, count=10)
    cost("free_host", free, make=pinned, count=10)


def costs():
    """Measures the cost of calls. Each figure includes the cost of a Python call, which is the
    first figure."""
    s, e = stream(), event()
    _, at = allocate(MIB)
    handle = ctypes.create_string_buffer(64)
    cost("python calling cuDriverGetVersion", lambda: cu.cuDriverGetVersion(byref(c_int())))
    cost("memory_stats", lambda: cu.cuMemGetInfo_v2(byref(c_size_t()), byref(c_size_t())))
    for size in (2 * MIB, 256 * MIB, 8192 * MIB):
        extent_costs(size)
    for size in (2 * MIB, 64 * MIB, 512 * MIB):
        host_memory_costs(size)
    cost("create_event", event, undo=lambda made: must(cu.cuEventDestroy_v2(made)))
    cost("record_event", lambda: cu.cuEventRecord(e, s))
    cost("is_done", lambda: cu.cuEventQuery(e))
    cost("wait_event", lambda: cu.cuStreamWaitEvent(s, e, c_uint(0)))
    cost("create_stream", stream, undo=lambda made: must(cu.cuStreamDestroy_v2(made)), count=30)
    cost("is_idle", lambda: cu.cuStreamQuery(s))
    cost("synchronize_device, idle", cu.cuCtxSynchronize)
    cost("fill, queued",
         lambda: cu.cuMemsetD8Async(at, ctypes.c_ubyte(1), c_size_t(4096), s))
    must(cu.cuCtxSynchronize())
    cost("share_allocation", lambda: cu.cuIpcGetMemHandle(handle, at))


def main():
    global context
    must(cu.cuInit(0))
    context = c_void_p()
    must(cu.cuDevicePrimaryCtxRetain(byref(context), c_int(0)))
    must(cu.cuCtxSetCurrent(context))
    version, name = c_int(), ctypes.create_string_buffer(64)
    must(cu.cuDriverGetVersion(byref(version)))
    must(cu.cuDeviceGetName(name, 64, c_int(0)))
    print(f"{name.value.decode()}, driver API {version.value}")
    for part in (virtual_memory, plain_memory, events_and_streams, captures, costs):
        print(f"\n--- {part.__name__}")
        part()


main()
