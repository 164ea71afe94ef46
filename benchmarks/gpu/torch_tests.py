#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the behaviours of PyTorch's GPU allocator that programs rely on, through PyTorch's own
functions, with PyTorch's allocator or with ashlar.torch.enable().

  torch_tests.py --way native|ashlar [--json] [--jobs N] [CLASS|CLASS.test...]

Each class runs in a process of its own, because a failure inside the allocator can end the process.
Needs PyTorch, a GPU and libashlar_torch.so (ASHLAR_TORCH_LIBRARY). Exit status: 0 passed, 1 failed.

The file is long because each behaviour is one short test."""

import gc
import os
import pathlib
import pickle
import sys
import tempfile
import threading
import unittest

import isolated_tests

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MIB = 1 << 20
SLEEP_CYCLES = 500_000_000  # of the GPU, about 0.3 s
# Ashlar's options for the classes that need other options than the defaults. The paged engine
# shares memory with other processes only on request.
CONF = {"Sharing": "engine:paged,expandable_segments_ipc:True"}


def choose(way):
    global torch
    if way == "ashlar":
        sys.path.insert(0, str(ROOT / "python"))
        import ashlar.torch
        ashlar.torch.enable(native=True)
    import torch
    torch.zeros(1, device="cuda")


def stat(name):
    return torch.cuda.memory_stats()[name]


def blocks(snapshot, state="active_allocated"):
    return [block for segment in snapshot["segments"] for block in segment["blocks"]
            if block["state"] == state]


class TestCase(unittest.TestCase):
    def setUp(self):
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    def tearDown(self):
        torch.cuda.memory._record_memory_history(enabled=None)
        torch.cuda.set_per_process_memory_fraction(1.0)


class Statistics(TestCase):
    def test_counts_bytes_and_blocks(self):
        before = torch.cuda.memory_stats()
        kept = [torch.empty(size, dtype=torch.uint8, device="cuda")
                for size in (100, 5000, 3 * MIB, 40 * MIB)]
        after = torch.cuda.memory_stats()
        requested = sum(each.nbytes for each in kept)
        self.assertEqual(after["requested_bytes.all.current"]
                         - before["requested_bytes.all.current"], requested)
        self.assertEqual(after["allocation.all.current"] - before["allocation.all.current"], 4)
        self.assertEqual(after["allocation.small_pool.current"]
                         - before["allocation.small_pool.current"], 2)
        self.assertGreaterEqual(after["allocated_bytes.all.current"]
                                - before["allocated_bytes.all.current"], requested)
        del kept
        self.assertEqual(stat("allocated_bytes.all.current"),
                         before["allocated_bytes.all.current"])

    def test_every_quantity_is_consistent(self):
        kept = [torch.empty(i * 7777 + 1, device="cuda") for i in range(50)]
        del kept[::2]
        stats = torch.cuda.memory_stats()
        for quantity in ("allocation", "segment", "active", "allocated_bytes", "reserved_bytes",
                         "active_bytes", "requested_bytes"):
            for pool in ("all", "small_pool", "large_pool"):
                name = f"{quantity}.{pool}"
                self.assertGreaterEqual(stats[f"{name}.peak"], stats[f"{name}.current"], name)
                self.assertGreaterEqual(stats[f"{name}.current"], 0, name)
            parts = sum(stats[f"{quantity}.{pool}.current"]
                        for pool in ("small_pool", "large_pool"))
            self.assertEqual(stats[f"{quantity}.all.current"], parts, quantity)
        self.assertGreaterEqual(stats["reserved_bytes.all.current"],
                                stats["active_bytes.all.current"])
        self.assertGreaterEqual(stats["active_bytes.all.current"],
                                stats["allocated_bytes.all.current"])

    def test_peaks_and_totals_reset(self):
        torch.empty(64 * MIB, device="cuda")
        self.assertGreaterEqual(torch.cuda.max_memory_allocated(), 256 * MIB)
        torch.cuda.reset_peak_memory_stats()
        self.assertEqual(torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated())
        torch.cuda.reset_accumulated_memory_stats()
        self.assertEqual(stat("allocation.all.allocated"), 0)
        self.assertEqual(stat("num_alloc_retries"), 0)

    def test_all_functions_of_the_module_work(self):
        memory = torch.cuda.memory
        self.assertIn("CUDA memory summary", memory.memory_summary())
        self.assertIn("CUDA memory summary", memory.memory_summary(abbreviated=True))
        self.assertGreaterEqual(memory.memory_reserved(), memory.memory_allocated())
        self.assertGreaterEqual(memory.max_memory_reserved(), memory.memory_reserved())
        memory.reset_max_memory_allocated()
        memory.reset_max_memory_cached()
        free, total = memory.mem_get_info()
        self.assertLessEqual(free, total)
        self.assertEqual(memory.get_allocator_backend(), "native")
        self.assertIsInstance(memory.memory_snapshot(), list)
        self.assertIsInstance(memory.list_gpu_processes(), str)

    def test_inactive_memory_is_reserved(self):
        torch.empty(32 * MIB, dtype=torch.uint8, device="cuda")
        self.assertGreaterEqual(torch.cuda.memory_reserved(), 32 * MIB)
        self.assertEqual(stat("active_bytes.all.current"), stat("allocated_bytes.all.current"))

    def test_invalid_devices_are_rejected(self):
        with self.assertRaises((RuntimeError, AssertionError, ValueError)):
            torch.cuda.memory_stats(99)


class Cache(TestCase):
    def test_freed_memory_is_reused(self):
        first = torch.empty(5 * MIB, device="cuda")
        address = first.data_ptr()
        del first
        self.assertEqual(torch.empty(5 * MIB, device="cuda").data_ptr(), address)

    def test_empty_cache_returns_memory(self):
        torch.empty(64 * MIB, device="cuda")
        before = torch.cuda.memory_reserved()
        torch.cuda.empty_cache()
        self.assertLessEqual(torch.cuda.memory_reserved(), before - 256 * MIB)

    def test_memory_is_aligned(self):
        for size in (1, 100, 513, 4097, MIB + 1):
            tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
            self.assertEqual(tensor.data_ptr() % 512, 0)

    def test_other_streams_wait(self):
        side = torch.cuda.Stream()

        def use_on_side_stream(cycles):
            given = torch.ones(MIB, device="cuda")
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.cuda._sleep(cycles)
                result = given * 2
            given.record_stream(side)
            address = given.data_ptr()
            del given
            other = torch.zeros(MIB, device="cuda")
            return result, address, other

        # The driver loads a kernel at its first launch, which can wait for the sleeping stream.
        use_on_side_stream(1)
        torch.cuda.synchronize()
        result, address, other = use_on_side_stream(SLEEP_CYCLES)
        self.assertFalse(side.query(), "the stream finished too early for this test")
        self.assertNotEqual(other.data_ptr(), address)
        side.synchronize()
        self.assertEqual(float(result.sum()), 2 * MIB)

    def test_freed_memory_of_a_busy_stream_is_not_overwritten(self):
        side = torch.cuda.Stream()

        def use_both_streams(cycles):
            first = torch.empty(5 * MIB, device="cuda")
            torch.cuda._sleep(cycles)
            first.fill_(1)
            del first
            with torch.cuda.stream(side):  # must not get the memory before the first fill
                return torch.empty(5 * MIB, device="cuda").fill_(2)

        use_both_streams(1)  # loads the kernels
        torch.cuda.synchronize()
        second = use_both_streams(SLEEP_CYCLES)
        torch.cuda.synchronize()
        self.assertEqual(float(second.sum()), 2 * 5 * MIB)

    def test_raw_memory(self):
        memory = torch.cuda.caching_allocator_alloc(MIB)
        self.assertNotEqual(memory, 0)
        torch.cuda.caching_allocator_delete(memory)

    def test_threads_allocate_at_the_same_time(self):
        failures = []

        def work(seed):
            try:
                with torch.cuda.stream(torch.cuda.Stream()):
                    for i in range(100):
                        tensor = torch.full((1000 + 37 * i * seed,), float(seed), device="cuda")
                        if float(tensor.sum()) != seed * tensor.numel():
                            failures.append(seed)
            except Exception as failure:  # reported below
                failures.append(failure)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_caching_can_be_disabled(self):
        torch.cuda.caching_allocator_enable(False)
        try:
            value = float(torch.ones(MIB, device="cuda").sum())
        finally:
            torch.cuda.caching_allocator_enable(True)
        self.assertEqual(value, MIB)


class Limits(TestCase):
    def test_too_large_requests_name_the_size(self):
        with self.assertRaisesRegex(torch.OutOfMemoryError, "Tried to allocate 800.00 GiB"):
            torch.empty(800 << 30, dtype=torch.uint8, device="cuda")
        with self.assertRaisesRegex(RuntimeError, "Tried to allocate more than 1EB memory"):
            torch.empty((1 << 60) + 4096, dtype=torch.uint8, device="cuda")

    def test_program_continues_after_an_error(self):
        kept = torch.ones(1000, device="cuda")
        with self.assertRaises(torch.OutOfMemoryError):
            torch.empty(800 << 30, dtype=torch.uint8, device="cuda")
        self.assertEqual(float(kept.sum()), 1000)

    def test_fraction_limits_memory(self):
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(0.05)
        torch.empty(int(total * 0.04), dtype=torch.uint8, device="cuda")
        torch.cuda.empty_cache()
        with self.assertRaisesRegex(torch.OutOfMemoryError, "allowed"):
            torch.empty(int(total * 0.06), dtype=torch.uint8, device="cuda")
        if hasattr(torch.cuda, "get_per_process_memory_fraction"):
            self.assertAlmostEqual(torch.cuda.get_per_process_memory_fraction(), 0.05, places=4)

    def test_invalid_fractions_are_rejected(self):
        with self.assertRaises(TypeError):
            torch.cuda.set_per_process_memory_fraction("1")
        with self.assertRaises(ValueError):
            torch.cuda.set_per_process_memory_fraction(1.5)

    def test_cached_memory_is_flushed_before_failing(self):
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(0.05)
        torch.empty(int(total * 0.03), dtype=torch.uint8, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.empty(int(total * 0.04), dtype=torch.uint8, device="cuda")

    def test_observers_are_called(self):
        seen = []
        torch._C._cuda_attach_out_of_memory_observer(
            lambda device, wanted, limit, free: seen.append((device, wanted, limit, free)))
        with self.assertRaises(torch.OutOfMemoryError):
            torch.empty(800 << 30, dtype=torch.uint8, device="cuda")
        self.assertEqual(seen[-1][0], 0)
        self.assertGreaterEqual(seen[-1][1], 0)
        self.assertGreater(seen[-1][2], 0)

    def test_message_names_private_pools(self):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            torch.empty(256 * MIB, dtype=torch.uint8, device="cuda")
        with self.assertRaisesRegex(torch.OutOfMemoryError, "allocated in private pools"):
            torch.empty(800 << 30, dtype=torch.uint8, device="cuda")


class History(TestCase):
    def record(self, **options):
        torch.cuda.memory._record_memory_history(**options)

    def trace(self):
        return torch.cuda.memory._snapshot()["device_traces"][0]

    def block_of(self, tensor):
        return next(block for block in blocks(torch.cuda.memory._snapshot())
                    if block["address"] == tensor.data_ptr())

    def test_entries_have_stacks(self):
        self.record()

        def make_here():
            return torch.empty(311 * 411 * 4, dtype=torch.uint8, device="cuda")

        kept = make_here()
        entry = next(each for each in self.trace() if each["action"] == "alloc")
        self.assertEqual(entry["size"], 311 * 411 * 4)
        self.assertEqual(entry["addr"], kept.data_ptr())
        self.assertIn("make_here", [frame["name"] for frame in entry["frames"]])
        block = next(each for each in blocks(torch.cuda.memory._snapshot())
                     if each["requested_size"] == 311 * 411 * 4)
        self.assertIn("make_here", [frame["name"] for frame in block["frames"]])

    def test_native_stacks_are_recorded(self):
        self.record(stacks="all")
        kept = torch.empty(MIB, device="cuda")
        entry = next(each for each in self.trace() if each["action"] == "alloc")
        self.assertTrue(any("empty" in frame["name"] for frame in entry["frames"]))
        del kept

    def test_state_records_live_blocks_only(self):
        self.record(enabled="state", stacks="python")
        kept = [torch.empty(MIB, device="cuda") for _ in range(3)]
        self.assertTrue(self.block_of(kept[0])["frames"])
        self.assertLessEqual(len(self.trace()), 1)  # PyTorch keeps one entry
        del kept

    def test_actions_are_in_order(self):
        self.record(stacks="python")
        torch.empty(5 * MIB, device="cuda")
        torch.cuda.empty_cache()
        actions = [entry["action"] for entry in self.trace()]
        self.assertLess(actions.index("alloc"), actions.index("free_requested"))
        self.assertLess(actions.index("free_requested"), actions.index("free_completed"))
        released = [action for action in actions if action in ("segment_free", "segment_unmap")]
        self.assertTrue(released)

    def test_times_ascend(self):
        self.record(context=None)
        for _ in range(10):
            torch.empty(1000, device="cuda")
        times = [entry["time_us"] for entry in self.trace()]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[0], 1_600_000_000_000_000)

    def test_number_of_entries_is_limited(self):
        self.record(context=None, max_entries=5)
        for _ in range(20):
            torch.empty(1000, device="cuda")
        self.assertEqual(len(self.trace()), 5)

    def test_history_can_be_cleared(self):
        self.record(context=None)
        torch.empty(1000, device="cuda")
        self.record(context=None, clear_history=True)
        self.assertEqual([each for each in self.trace() if each["action"] == "alloc"], [])

    def test_actions_can_be_skipped(self):
        self.record(context=None, skip_actions=["free_requested", "free_completed"])
        torch.empty(1000, device="cuda")
        actions = {entry["action"] for entry in self.trace()}
        self.assertIn("alloc", actions)
        self.assertFalse(actions & {"free_requested", "free_completed"})

    def test_out_of_memory_is_recorded(self):
        self.record(context=None)
        with self.assertRaises(torch.OutOfMemoryError):
            torch.empty(800 << 30, dtype=torch.uint8, device="cuda")
        entry = next(each for each in self.trace() if each["action"] == "oom")
        self.assertGreater(entry["device_free"], 0)

    def test_annotations_are_recorded(self):
        self.record(context=None)
        with torch.profiler.record_function("## forward ##"):
            torch.empty(1000, device="cuda")
        snapshot = torch.cuda.memory._snapshot()
        self.assertIn("external_annotations", snapshot)

    def test_metadata_is_recorded(self):
        if not hasattr(torch._C, "_cuda_setMemoryMetadata"):
            self.skipTest("this version has no metadata")
        self.record(context=None)
        torch._C._cuda_setMemoryMetadata("step 3")
        self.assertEqual(torch._C._cuda_getMemoryMetadata(), "step 3")
        torch.empty(1000, device="cuda")
        torch._C._cuda_setMemoryMetadata("")
        entry = next(each for each in self.trace() if each["action"] == "alloc")
        self.assertEqual(entry["user_metadata"], "step 3")

    def test_snapshots_can_be_saved(self):
        self.record()
        kept = torch.empty(MIB, device="cuda")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "snapshot.pickle")
            torch.cuda.memory._dump_snapshot(path)
            with open(path, "rb") as file:
                loaded = pickle.load(file)
        self.assertEqual(len(blocks(loaded)), len(blocks(torch.cuda.memory._snapshot())))
        del kept

    def test_plots_can_be_made(self):
        from torch.cuda._memory_viz import memory, segment_plot, segments, trace, trace_plot
        self.record()
        kept = torch.empty(MIB, device="cuda")
        snapshot = torch.cuda.memory._snapshot()
        for text in (memory(snapshot, str), segments(snapshot, str), trace(snapshot),
                     trace_plot(snapshot), segment_plot(snapshot)):
            self.assertGreater(len(text), 10)
        del kept

    def test_old_interface_works(self):
        torch.cuda.memory._record_memory_history(True)
        kept = torch.empty(MIB, device="cuda")
        self.assertTrue(self.block_of(kept)["frames"])
        torch.cuda.memory._record_memory_history(False)
        del kept


class Snapshots(TestCase):
    def test_blocks_tile_segments(self):
        kept = [torch.empty(size, dtype=torch.uint8, device="cuda")
                for size in (100, 3 * MIB, 30 * MIB, 700)]
        for segment in torch.cuda.memory_snapshot():
            self.assertEqual(sum(block["size"] for block in segment["blocks"]),
                             segment["total_size"])
            address = segment["address"]
            for block in segment["blocks"]:
                self.assertEqual(block["address"], address)
                address += block["size"]
            active = sum(block["size"] for block in segment["blocks"]
                         if block["state"] != "inactive")
            self.assertEqual(active, segment["active_size"])
        del kept

    def test_sums_equal_statistics(self):
        kept = torch.empty(30 * MIB, device="cuda")
        segments = torch.cuda.memory_snapshot()
        for field, name in (("allocated_size", "allocated_bytes"), ("active_size", "active_bytes"),
                            ("requested_size", "requested_bytes")):
            self.assertEqual(sum(segment[field] for segment in segments),
                             stat(f"{name}.all.current"), name)
        self.assertLessEqual(sum(segment["total_size"] for segment in segments),
                             stat("reserved_bytes.all.current"))
        del kept

    def test_pending_blocks_are_marked(self):
        side = torch.cuda.Stream()
        memory = torch.empty(3 * MIB, device="cuda")
        with torch.cuda.stream(side):
            torch.cuda._sleep(SLEEP_CYCLES)
        memory.record_stream(side)
        del memory
        states = [block["state"] for segment in torch.cuda.memory_snapshot()
                  for block in segment["blocks"]]
        self.assertIn("active_pending_free", states)
        side.synchronize()

    def test_stream_of_segments_is_recorded(self):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            kept = torch.empty(3 * MIB, device="cuda")
        streams = [segment["stream"] for segment in torch.cuda.memory_snapshot()]
        self.assertIn(side.cuda_stream, streams)
        del kept


class Pools(TestCase):
    def test_pools_have_different_ids(self):
        first, second = torch.cuda.MemPool(), torch.cuda.MemPool()
        self.assertNotEqual(first.id, second.id)

    def test_pool_has_its_own_segments(self):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = torch.empty(3 * MIB, device="cuda")
        outside = torch.empty(3 * MIB, device="cuda")
        segments = pool.snapshot()
        self.assertEqual([tuple(segment["segment_pool_id"]) for segment in segments],
                         [tuple(pool.id)] * len(segments))

        def contains(tensor):
            return any(segment["address"] <= tensor.data_ptr()
                       < segment["address"] + segment["total_size"] for segment in segments)

        self.assertTrue(contains(inside))
        self.assertFalse(contains(outside))

    def test_use_count(self):
        pool = torch.cuda.MemPool()
        self.assertEqual(pool.use_count(), 1)
        with torch.cuda.use_mem_pool(pool):
            self.assertEqual(pool.use_count(), 2)
        self.assertEqual(pool.use_count(), 1)

    def test_memory_returns_with_the_pool(self):
        before = torch.cuda.memory_reserved()
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            torch.empty(64 * MIB, device="cuda")
        self.assertGreater(torch.cuda.memory_reserved(), before)
        del pool
        gc.collect()
        torch.cuda.empty_cache()
        self.assertEqual(torch.cuda.memory_reserved(), before)

    def test_routes_only_the_calling_thread(self):
        pool = torch.cuda.MemPool()
        addresses = []

        def allocate():
            tensor = torch.empty(3 * MIB, device="cuda")
            addresses.append(tensor.data_ptr())

        with torch.cuda.use_mem_pool(pool):
            thread = threading.Thread(target=allocate)
            thread.start()
            thread.join()
        self.assertEqual(pool.snapshot(), [])
        self.assertEqual(len(addresses), 1)

    def test_pools_nest(self):
        outer, inner = torch.cuda.MemPool(), torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(outer):
            with torch.cuda.use_mem_pool(inner):
                one = torch.empty(3 * MIB, device="cuda")
            two = torch.empty(3 * MIB, device="cuda")
        self.assertEqual(len(inner.snapshot()), 1)
        self.assertEqual(len(outer.snapshot()), 1)
        del one, two

    def test_lends_memory_on_request(self):
        total = torch.cuda.get_device_properties(0).total_memory
        pool = torch.cuda.MemPool(use_on_oom=True)
        torch.cuda.set_per_process_memory_fraction(0.02)
        with torch.cuda.use_mem_pool(pool):
            torch.empty(int(total * 0.015), dtype=torch.uint8, device="cuda")
        kept = torch.empty(int(total * 0.012), dtype=torch.uint8, device="cuda")
        self.assertEqual(kept.numel(), int(total * 0.012))
        del kept

    def test_segments_stay_whole_on_request(self):
        pool = torch.cuda.MemPool(no_split=True)
        with torch.cuda.use_mem_pool(pool):
            kept = [torch.empty(700, device="cuda") for _ in range(3)]
        self.assertEqual([len(segment["blocks"]) for segment in pool.snapshot()], [1, 1, 1])
        del kept


class Graphs(TestCase):
    def setUp(self):
        super().setUp()
        # Loads the kernels. In some versions, the state of the random number generator, which the
        # first capture allocates, stays.
        self.capture()
        torch.cuda.synchronize()
        gc.collect()
        torch.cuda.empty_cache()

    def capture(self, pool=None):
        given = torch.ones(MIB, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            result = given * 2 + 1
        return given, graph, result

    def test_replay_uses_the_pool(self):
        given, graph, result = self.capture()
        for value in (1.0, 5.0):
            torch.full((MIB,), -1.0, device="cuda")
            given.fill_(value)
            graph.replay()
            self.assertEqual(float(result[7]), 2 * value + 1)
        segments = [tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory_snapshot()]
        self.assertIn(tuple(graph.pool()), segments)

    def test_memory_returns_with_the_graph(self):
        before = torch.cuda.memory_reserved()
        parts = self.capture()
        self.assertGreater(torch.cuda.memory_reserved(), before)
        torch.cuda.synchronize()
        parts[1].reset()
        del parts
        torch.cuda.empty_cache()
        self.assertEqual(torch.cuda.memory_reserved(), before)

    def test_graphs_share_a_pool(self):
        pool = torch.cuda.graph_pool_handle()
        first, second = self.capture(pool), self.capture(pool)
        first[1].replay()
        second[1].replay()
        self.assertEqual(float(first[2][0] + second[2][0]), 6.0)

    def test_statistics_count_graph_memory(self):
        other = self.capture()  # the generator's state is allocated for the first live graph
        before = stat("allocation.all.current")
        parts = self.capture()
        self.assertEqual(stat("allocation.all.current"), before + 2)  # given and result
        del parts, other

    def test_recorded_streams_are_deferred(self):
        side = torch.cuda.Stream()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            value = torch.ones(MIB, device="cuda")
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                result = value + 1
            value.record_stream(side)
            del value
            torch.cuda.current_stream().wait_stream(side)
        graph.replay()
        self.assertEqual(float(result[0]), 2.0)


class FailedCaptures(TestCase):
    def test_allocator_works_after_a_failed_capture(self):
        graph = torch.cuda.CUDAGraph()
        with self.assertRaises(RuntimeError):
            with torch.cuda.graph(graph):
                torch.ones(1000, device="cuda").sum().item()
        torch.cuda.synchronize()
        self.assertEqual(float(torch.ones(1000, device="cuda").sum()), 1000)


class Checkpoints(TestCase):
    """The functions that cudagraph trees use.

    Restoring a state frees all blocks of the pool, and allocates those of the state again. The
    caller passes the storages whose blocks are gone ("stale"), which lose their deleters, and
    storages without a deleter whose blocks are allocated again ("revived"), which get one. Other
    storages keep what they have."""

    def setUp(self):
        super().setUp()
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream()
        self.device = torch.device("cuda", torch.cuda.current_device())

    def allocate(self, *sizes):
        """Allocates tensors from the pool, which is released at the end of the test."""
        torch.cuda.synchronize()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            torch._C._cuda_beginAllocateCurrentStreamToPool(self.device.index, self.pool)
            self.addCleanup(torch._C._cuda_releasePool, self.device.index, self.pool)
            try:
                return [torch.zeros(size, dtype=torch.uint8, device="cuda") for size in sizes]
            finally:
                torch._C._cuda_endAllocateToPool(self.device.index, self.pool)
                torch.cuda.synchronize()

    def live(self):
        return sorted(block["address"] for segment in torch.cuda.memory_snapshot()
                      if tuple(segment["segment_pool_id"]) == tuple(self.pool)
                      for block in segment["blocks"] if block["state"] == "active_allocated")

    def checkpoint(self):
        return torch._C._cuda_getCheckpointState(self.device.index, self.pool)

    def restore(self, state, stale=(), revived=()):
        torch._C._cuda_setCheckpointPoolState(
            self.device.index, state, [each.untyped_storage()._cdata for each in stale],
            [each.untyped_storage()._cdata for each in revived])

    def unowned(self, address, size):
        """Returns a tensor on memory that it does not own."""
        storage = torch._C._construct_storage_from_data_pointer(address, self.device, size)
        tensor = torch.empty([0], dtype=torch.uint8, device=self.device)
        return tensor.set_(source=storage, storage_offset=0, size=(size,), stride=(1,))

    def test_live_allocations_are_compared(self):
        def check(expected):
            return torch._C._cuda_checkPoolLiveAllocations(
                self.device.index, self.pool, {tensor.data_ptr() for tensor in expected})

        first, second = self.allocate(1000, 5 * MIB)
        self.assertTrue(check([first, second]))
        self.assertFalse(check([first]))
        self.assertFalse(check([first, second, torch.ones(1, device="cuda")]))
        del first, second
        self.assertTrue(check([]))

    def test_later_allocations_are_freed(self):
        kept, = self.allocate(3 * MIB)
        state = self.checkpoint()
        before = self.live()
        later = self.allocate(1000, 7 * MIB)
        self.assertNotEqual(self.live(), before)
        self.restore(state, stale=later)
        self.assertEqual(self.live(), before)
        del later  # has no deleter any more
        self.assertEqual(self.live(), before)
        del kept
        self.assertEqual(self.live(), [])

    def test_freed_memory_is_allocated_again(self):
        kept, = self.allocate(3 * MIB)
        size, address = kept.nbytes, kept.data_ptr()
        state = self.checkpoint()
        before = self.live()
        del kept
        self.assertEqual(self.live(), [])
        revived = self.unowned(address, size)
        self.restore(state, revived=[revived])
        self.assertEqual(self.live(), before)
        self.assertTrue(torch._C._has_Standard_Deleter(revived.untyped_storage()._cdata))
        del revived
        self.assertEqual(self.live(), [])

    def test_deleters_can_be_removed(self):
        kept, = self.allocate(3 * MIB)
        storage = kept.untyped_storage()
        self.assertTrue(torch._C._has_Standard_Deleter(storage._cdata))
        torch._C._free_And_Remove_DeleterFn(storage._cdata)
        self.assertFalse(torch._C._has_Standard_Deleter(storage._cdata))
        self.assertEqual(self.live(), [])
        del kept, storage
        self.assertEqual(self.live(), [])

    def test_memory_without_a_storage_is_freed_by_address(self):
        kept = self.allocate(1000, 3 * MIB)
        addresses = [tensor.data_ptr() for tensor in kept]
        state = self.checkpoint()
        del kept
        self.restore(state)
        self.assertEqual(self.live(), sorted(addresses))
        for address in addresses:
            torch._C._cuda_cudaCachingAllocator_raw_delete(address)
        self.assertEqual(self.live(), [])

    def test_many_sizes(self):
        first = self.allocate(512, 3000, 600_000, 3 * MIB, 20 * MIB)
        state = self.checkpoint()
        before = self.live()
        gone = [(tensor.data_ptr(), tensor.nbytes) for tensor in first[1::2]]
        del first[1::2]
        stale = self.allocate(700, 2 * MIB)
        revived = [self.unowned(*each) for each in gone]
        self.restore(state, stale=stale, revived=revived)
        self.assertEqual(self.live(), before)
        del stale
        self.assertEqual(self.live(), before)
        del revived
        self.assertEqual(self.live(), sorted(tensor.data_ptr() for tensor in first))
        del first
        self.assertEqual(self.live(), [])


class Sharing(TestCase):
    def test_storages_have_handles(self):
        tensor = torch.ones(MIB, device="cuda")
        parts = tensor.untyped_storage()._share_cuda_()
        self.assertIsInstance(parts[1], bytes)
        self.assertGreaterEqual(parts[3], 0)

    def test_pointer_of_other_libraries_is_ignored(self):
        memory = torch.cuda.caching_allocator_alloc(4096)
        try:
            class Array:
                __cuda_array_interface__ = {"shape": (1024,), "typestr": "<f4",
                                            "data": (memory, False), "version": 2}
            tensor = torch.as_tensor(Array(), device="cuda")
            tensor.record_stream(torch.cuda.Stream())
            del tensor
        finally:
            torch.cuda.caching_allocator_delete(memory)

    def test_peer_queries(self):
        self.assertFalse(torch.cuda.can_device_access_peer(0, 0))


class Tracing(TestCase):
    def test_gpu_trace_callbacks(self):
        import torch.cuda._gpu_trace as gpu_trace
        events = []
        torch._C._activate_gpu_trace()
        gpu_trace.register_callback_for_memory_allocation(lambda p: events.append(("alloc", p)))
        gpu_trace.register_callback_for_memory_deallocation(lambda p: events.append(("free", p)))
        tensor = torch.empty(1000, device="cuda")
        address = tensor.data_ptr()
        del tensor
        self.assertEqual(events[-2:], [("alloc", address), ("free", address)])


class Settings(TestCase):
    def test_settings_are_accepted_and_reported(self):
        torch.cuda.memory._set_allocator_settings("max_split_size_mb:100")
        torch.empty(MIB, device="cuda")
        settings = torch.cuda.memory._snapshot()["allocator_settings"]
        self.assertEqual(settings["max_split_size"], 100 * MIB)
        torch.cuda.memory._set_allocator_settings("")

    def test_unknown_settings_are_rejected(self):
        with self.assertRaises((RuntimeError, ValueError)):
            torch.cuda.memory._set_allocator_settings("foo:1,bar:2")
        torch.cuda.memory._set_allocator_settings("")


if __name__ == "__main__":
    sys.exit(isolated_tests.main(sys.modules[__name__], sys.argv[1:]))
