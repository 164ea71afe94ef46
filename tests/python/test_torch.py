#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests ashlar.torch on the simulated device, with a fake PyTorch module that calls the plug-in's
functions like the real PyTorch.

  test_torch.py LIBRARY STANDIN    (in its own process, since an allocator cannot be disabled)

The file is long because it calls every function of the package."""

import ctypes
import os
import pathlib
import subprocess
import sys
import threading
import types
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))


class FakeAllocator:
    """Fake torch._C._CUDAPluggableAllocator: records the addresses of hooks."""

    SETTERS = ("set_init_fn", "set_reset_fn", "set_memory_fraction_fn", "set_base_alloc_fn",
               "set_record_stream_fn", "set_begin_allocate_to_pool", "set_end_allocate_to_pool_fn",
               "set_release_pool")

    def __init__(self):
        self.hooks = {}
        for setter in self.SETTERS:
            setattr(self, setter, lambda address, name=setter: self.hooks.update({name: address}))


class FakePluggableAllocator:
    """Fake torch.cuda.memory.CUDAPluggableAllocator."""

    def __init__(self, path, alloc_name, free_name):
        library = ctypes.CDLL(path)
        self.alloc = getattr(library, alloc_name)
        self.alloc.restype = ctypes.c_void_p
        self.alloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        self.free = getattr(library, free_name)
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        self.free.restype = None
        self.alloc_name = alloc_name
        self._allocator = FakeAllocator()

    def allocator(self):
        return self._allocator


def fake_torch(is_initialized=False):
    torch = types.ModuleType("torch")
    torch.version = types.SimpleNamespace(hip=None)
    torch.current = None

    def change(allocator):
        torch.current = allocator

    torch.cuda = types.SimpleNamespace(
        is_initialized=lambda: is_initialized,
        current_device=lambda: 0,
        MemPool=lambda allocator: types.SimpleNamespace(allocator=allocator),
        memory=types.SimpleNamespace(CUDAPluggableAllocator=FakePluggableAllocator,
                                     change_current_allocator=change))
    return torch


def in_a_process(code, **environment):
    """Runs a script with the fake PyTorch. Returns its output."""
    program = (f"import sys; sys.path[:0] = [{str(ROOT / 'python')!r}, "
               f"{str(pathlib.Path(__file__).parent)!r}]\n{code}")
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={**os.environ, **environment}, check=False)


class EnabledTest(unittest.TestCase):
    """Tests in one process in which Ashlar was enabled once."""

    @classmethod
    def setUpClass(cls):
        sys.modules["torch"] = cls.torch = fake_torch()
        import ashlar.torch as under_test
        cls.ashlar = under_test
        assert not under_test.is_enabled()
        under_test.enable()

    def allocate(self, count, device=0):
        memory = self.torch.current.alloc(count, device, None)
        self.assertIsNotNone(memory)
        self.addCleanup(self.torch.current.free, memory, count, device, None)
        return memory

    def test_enable_sets_functions_and_hooks(self):
        self.assertTrue(self.ashlar.is_enabled())
        self.assertEqual(self.torch.current.alloc_name, "ashlar_torch_alloc")
        hooks = self.torch.current.allocator().hooks
        self.assertEqual(sorted(hooks), sorted(FakeAllocator.SETTERS))
        self.assertTrue(all(hooks.values()))
        self.assertEqual(len(set(hooks.values())), len(hooks))

    def test_enable_twice_is_rejected(self):
        with self.assertRaisesRegex(RuntimeError, "already enabled"):
            self.ashlar.enable()

    def test_mem_pool_is_rejected_when_enabled(self):
        with self.assertRaisesRegex(RuntimeError, "does not support MemPool"):
            self.ashlar.mem_pool()

    def test_stats_have_pytorch_names(self):
        self.allocate(5 << 20)
        stats = self.ashlar.memory_stats()
        self.assertEqual(stats["allocated_bytes.all.current"], 5 << 20)
        self.assertEqual(stats["allocation.all.current"], 1)
        self.assertEqual(self.ashlar.memory_allocated("cuda:0"), 5 << 20)
        self.assertGreaterEqual(self.ashlar.memory_reserved(0), 5 << 20)
        self.assertEqual(self.ashlar.memory_allocated(1), 0)

    def test_peaks_can_be_reset(self):
        memory = self.torch.current.alloc(6 << 20, 0, None)
        self.torch.current.free(memory, 6 << 20, 0, None)
        self.assertGreaterEqual(self.ashlar.memory_stats()["allocated_bytes.all.peak"], 6 << 20)
        self.ashlar.reset_peak_memory_stats()
        self.assertEqual(self.ashlar.memory_stats()["allocated_bytes.all.peak"], 0)

    def test_the_cache_can_be_emptied(self):
        memory = self.torch.current.alloc(6 << 20, 0, None)
        self.torch.current.free(memory, 6 << 20, 0, None)
        self.assertGreater(self.ashlar.memory_reserved(), 0)
        self.ashlar.empty_cache()
        self.assertEqual(self.ashlar.memory_reserved(), 0)

    def test_snapshot_has_pytorch_format(self):
        self.ashlar.record_memory_history("all")
        memory = self.allocate(3 << 20)
        taken = self.ashlar.snapshot()
        self.ashlar.record_memory_history(None)
        blocks = [block for segment in taken["segments"] for block in segment["blocks"]]
        live = [block for block in blocks if block["state"] == "active_allocated"]
        self.assertEqual([block["address"] for block in live], [memory])
        self.assertEqual(live[0]["requested_size"], 3 << 20)
        actions = [entry["action"] for entry in taken["device_traces"][0]]
        self.assertIn("alloc", actions)

    def test_a_snapshot_can_be_saved(self):
        path = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"ashlar_{os.getpid()}.pickle"
        self.addCleanup(lambda: path.unlink(missing_ok=True))
        self.ashlar.save_snapshot(path)
        self.assertGreater(path.stat().st_size, 100)
        with self.assertRaises(self.ashlar.AshlarError):
            self.ashlar.save_snapshot("/nowhere/at/all.pickle")

    def test_recording_has_history(self):
        try:
            import ashlar._ashlar
        except ImportError:
            self.skipTest("the extension module was not built for this Python")
        self.ashlar.record_memory_history("all")
        memory = self.torch.current.alloc(9 << 20, 0, None)
        recording = self.ashlar.recording()
        self.torch.current.free(memory, 9 << 20, 0, None)
        self.ashlar.record_memory_history(None)
        self.assertIsInstance(recording, ashlar.Recording)
        self.assertEqual(recording.summary()["peak_requested_bytes"], 9 << 20)

    def test_summary_shows_allocated_and_reserved(self):
        self.allocate(7 << 20)
        text = self.ashlar.summary()
        self.assertIn("device 0 (defaults)", text)
        self.assertRegex(text, r"allocated +7\.00 MiB")
        self.assertRegex(text, r"reserved +\d")

    def test_each_status_has_an_exception(self):
        from ashlar import _library, errors
        with self.assertRaises(errors.DeviceError) as caught:
            self.ashlar.save_snapshot("/nowhere/at/all.pickle")
        self.assertEqual((caught.exception.call, caught.exception.code), ("open", 2))
        for status, kind, name in (
                (1, errors.OutOfMemoryError, "out of memory"),
                (2, errors.InvalidArgument, "invalid argument"),
                (3, errors.InvalidArgument, "unsupported"), (4, errors.DeviceError, "device fault"),
                (5, errors.DeviceError, "device lost"), (6, errors.FormatError, "format"),
                (9, errors.TimeoutError, "timeout"), (10, errors.PeerError, "peer lost"),
                (77, errors.Error, "")):
            with self.assertRaises(errors.Error) as caught:
                _library.check(status)
            self.assertIs(type(caught.exception), kind)
            self.assertIn(name, caught.exception.kind)

    def test_path_with_nul_is_rejected(self):
        with self.assertRaisesRegex(ValueError, "without NUL"):
            self.ashlar.save_snapshot("/tmp/a\0b")

    def test_live_server_serves_metrics_until_closed(self):
        self.allocate(5 << 20)
        with self.ashlar.serve_live() as server:
            self.assertRegex(server.url, "^http://127.0.0.1:[0-9]+/[^/]+/$")
            with urllib.request.urlopen(server.url + "metrics") as response:
                self.assertIn(b"ashlar_allocated_bytes", response.read())
        with self.assertRaises(OSError):
            urllib.request.urlopen(server.url + "metrics").close()
        server.close()
        with self.assertRaisesRegex(ValueError, "port: 70000"):
            self.ashlar.serve_live(70000)

    def test_unknown_device_is_reported(self):
        with self.assertRaisesRegex(self.ashlar.AshlarError, "no device 9"):
            self.ashlar.memory_stats("cuda:9")

    def test_history_can_be_cleared(self):
        self.ashlar.record_memory_history()
        self.allocate(1 << 20)
        self.ashlar.record_memory_history(clear_history=True)
        memory = self.allocate(2 << 20)
        trace = self.ashlar.snapshot()["device_traces"][0]
        self.ashlar.record_memory_history(None)
        self.assertEqual([entry["addr"] for entry in trace if entry["action"] == "alloc"], [memory])

    def test_history_skips_actions(self):
        self.ashlar.record_memory_history(clear_history=True, skip_actions=["alloc", "snapshot"])
        self.torch.current.free(self.torch.current.alloc(2 << 20, 0, None), 2 << 20, 0, None)
        trace = self.ashlar.snapshot()["device_traces"][0]
        self.ashlar.record_memory_history(None)
        actions = {entry["action"] for entry in trace}
        self.assertIn("free_completed", actions)
        self.assertFalse(actions & {"alloc", "snapshot"})
        with self.assertRaisesRegex(ValueError, "skip_actions: 'allocate' is unknown"):
            self.ashlar.record_memory_history(skip_actions=["allocate"])

    def test_entries_have_metadata_contexts_and_annotations(self):
        self.ashlar.record_memory_history(clear_history=True)
        self.ashlar.set_memory_metadata("batch 3")
        self.assertEqual(self.ashlar.get_memory_metadata(), "batch 3")
        with self.ashlar.compile_context("outer"), self.ashlar.compile_context("inner"):
            memory = self.allocate(2 << 20)
        self.ashlar.set_memory_metadata("")
        self.allocate(2 << 20)
        self.ashlar.annotate_memory(memory, "weights")
        trace = self.ashlar.snapshot()["device_traces"][0]
        self.ashlar.record_memory_history(None)
        entries = [(entry["action"], entry["compile_context"], entry["user_metadata"])
                   for entry in trace if entry["action"] in ("alloc", "annotate")]
        self.assertEqual(entries, [("alloc", "inner", "batch 3"), ("alloc", "N/A", ""),
                                   ("annotate", "N/A", "weights")])
        with self.assertRaisesRegex(ValueError, "without NUL"):
            self.ashlar.set_memory_metadata("a\0b")
        with self.assertRaises(self.ashlar.AshlarError):
            self.ashlar.annotate_memory(4096, "weights")

    def test_stack_of_one_address(self):
        before = self.allocate(1 << 20)
        self.ashlar.record_memory_history(clear_history=True)
        memory = self.allocate(1 << 20)
        frames = self.ashlar.allocation_traceback(memory)
        self.ashlar.record_memory_history(None)
        self.assertGreater(len(frames), 2)
        self.assertEqual(sorted(frames[0]), ["filename", "line", "name"])
        self.assertIsNone(self.ashlar.allocation_traceback(before))
        with self.assertRaisesRegex(ValueError, "not an allocation|no block|not allocated"):
            self.ashlar.allocation_traceback(4096)

    def test_trim_to_keeps_the_given_bytes(self):
        self.ashlar.empty_cache()
        both = [self.torch.current.alloc(64 << 20, 0, None) for _ in range(2)]
        for memory in both:
            self.torch.current.free(memory, 64 << 20, 0, None)
        before = self.ashlar.memory_reserved()
        released = self.ashlar.trim_to(64 << 20, wait=True)
        self.assertGreater(released, 0)
        self.assertEqual(self.ashlar.memory_reserved(), before - released)
        self.assertLessEqual(self.ashlar.memory_reserved(), 64 << 20)
        with self.assertRaisesRegex(ValueError, "reserved_bytes: -1"):
            self.ashlar.trim_to(-1)

    def test_tagged_memory_is_paused_and_resumed(self):
        with self.ashlar.use_tag("weights"):
            with self.ashlar.use_tag("weights"):
                first = self.torch.current.alloc(64 << 20, 0, None)
            second = self.torch.current.alloc(64 << 20, 0, None)
        other = self.allocate(64 << 20)
        before = self.ashlar.memory_reserved()
        self.ashlar.pause("weights", backup="host")
        self.assertLessEqual(self.ashlar.memory_reserved(), before - (128 << 20))
        self.ashlar.pause("weights", backup="host")
        self.ashlar.empty_cache()
        self.ashlar.resume("weights")
        self.assertGreaterEqual(self.ashlar.memory_reserved(), 192 << 20)
        for memory in (first, second):
            self.torch.current.free(memory, 64 << 20, 0, None)
        self.assertIsNotNone(other)
        self.ashlar.empty_cache()
        self.assertLess(self.ashlar.memory_reserved(), before - (64 << 20))
        with self.assertRaisesRegex(ValueError, "weights"):
            self.ashlar.pause("weights")  # no memory has the tag any more
        with self.assertRaisesRegex(ValueError, "tag: ''"):
            self.ashlar.resume("")
        with self.assertRaisesRegex(ValueError, "backup: 'disk'"):
            self.ashlar.pause("weights", backup="disk")

    def test_threads_use_a_tag_together(self):
        inside = threading.Barrier(2)
        allocated = []

        def allocate():
            with self.ashlar.use_tag("shared"):
                inside.wait(60)  # both threads are routed at the same time
                allocated.append(self.torch.current.alloc(2 << 20, 0, None))
                inside.wait(60)

        threads = [threading.Thread(target=allocate) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        before = self.ashlar.memory_reserved()
        self.ashlar.pause("shared")
        self.assertLessEqual(self.ashlar.memory_reserved(), before - (4 << 20))
        self.ashlar.resume("shared")
        for memory in allocated:
            self.torch.current.free(memory, 2 << 20, 0, None)

    def test_adapter_is_an_allocator_of_pytorch(self):
        done = in_a_process("import test_torch as t\n"
                            "sys.modules['torch'] = torch = t.fake_torch()\n"
                            "from ashlar.allocators.torch import ashlar_torch_allocator as found\n"
                            "from ashlar.allocators.torch import ashlar_torch_allocator as again\n"
                            "print(found is again, found.alloc(5 << 20, 0, None) is not None)",
                            ASHLAR_TORCH_BACKEND="sim")
        self.assertEqual(done.stdout, "True True\n", done.stderr)

    def test_history_rejects_unknown_values(self):
        with self.assertRaisesRegex(ValueError, "expected"):
            self.ashlar.record_memory_history("everything")


class ProcessTest(unittest.TestCase):
    """Tests that each need a new process."""

    def test_import_loads_neither_pytorch_nor_library(self):
        done = in_a_process("import ashlar, ashlar.torch\n"
                            "assert 'torch' not in sys.modules\nprint('fine')",
                            ASHLAR_TORCH_LIBRARY="/nowhere/libashlar_torch.so")
        self.assertEqual(done.stdout, "fine\n", done.stderr)

    def test_late_enable_is_rejected(self):
        done = in_a_process(
            "import test_torch; sys.modules['torch'] = test_torch.fake_torch(is_initialized=True)\n"
            "import ashlar.torch; ashlar.torch.enable()")
        self.assertIn("already uses the GPU", done.stderr)
        self.assertNotEqual(done.returncode, 0)

    def test_settings_that_name_another_allocator_are_rejected(self):
        done = in_a_process("import test_torch; sys.modules['torch'] = test_torch.fake_torch()\n"
                            "import ashlar.torch; ashlar.torch.enable()",
                            PYTORCH_CUDA_ALLOC_CONF="backend: cudaMallocAsync")
        self.assertRegex(done.stderr, "RuntimeError: PYTORCH_CUDA_ALLOC_CONF names the allocator "
                                      "cudaMallocAsync")

    def test_invalid_options_are_rejected(self):
        done = in_a_process("import test_torch; sys.modules['torch'] = test_torch.fake_torch()\n"
                            "import ashlar.torch; ashlar.torch.enable(conf='engine:stone')")
        self.assertRegex(done.stderr, "InvalidArgument: engine: \"stone\" is not an engine")

    def test_options_come_from_environment(self):
        done = in_a_process("import test_torch; sys.modules['torch'] = test_torch.fake_torch()\n"
                            "import ashlar.torch; ashlar.torch.enable()\n"
                            "print(ashlar.torch.configuration())",
                            ASHLAR_ALLOC_CONF="engine:paged,policy:lean")
        self.assertEqual(done.stdout, "policy:lean\n", done.stderr)

    def test_mem_pool_allocates_from_ashlar(self):
        done = in_a_process(
            "import test_torch; torch = sys.modules['torch'] = test_torch.fake_torch()\n"
            "import ashlar.torch; pool = ashlar.torch.mem_pool(); ashlar.torch.mem_pool()\n"
            "plugged = ashlar.torch._pool_allocator\n"
            "assert pool.allocator is plugged.allocator() and torch.current is None\n"
            "segment = plugged.alloc(20 << 20, 0, None)\n"
            "assert ashlar.torch.memory_allocated() == 20 << 20\n"
            "assert plugged.alloc(4 << 30, 0, None) is None, 'null is out of memory'\n"
            "plugged.free(segment, 20 << 20, 0, None); print(ashlar.torch.memory_allocated())")
        self.assertEqual(done.stdout, "0\n", done.stderr)

    def test_mem_pool_allocates_during_capture(self):
        done = in_a_process(
            "import test_torch; torch = sys.modules['torch'] = test_torch.fake_torch()\n"
            "import ashlar.torch, ctypes, os; ashlar.torch.mem_pool()\n"
            "driver = ctypes.CDLL(os.environ['CUDA_STANDIN'])\n"
            "stream, other, graph, context = (ctypes.c_void_p() for _ in range(4))\n"
            "assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n"
            "assert driver.cuCtxPushCurrent_v2(context) == 0\n"
            "for each in (stream, other):\n"
            "    assert driver.cuStreamCreateWithPriority(ctypes.byref(each), 1, 0) == 0\n"
            "plugged = ashlar.torch._pool_allocator\n"
            "cached = plugged.alloc(64 << 20, 0, other)\n"
            "plugged.free(cached, 64 << 20, 0, other)\n"
            "assert driver.cuStreamBeginCapture_v2(stream, 0) == 0\n"
            "segment = plugged.alloc(20 << 20, 0, stream)\n"
            "assert segment, 'out of memory'\n"
            "assert driver.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0, 'broken'\n"
            "assert not cached <= segment < cached + (64 << 20), 'it would have to be waited for'\n"
            "print(ashlar.torch.memory_allocated() >> 20)",
            ASHLAR_TORCH_BACKEND="cuda", ASHLAR_CUDA_DRIVER=os.environ["CUDA_STANDIN"])
        self.assertEqual(done.stdout, "20\n", done.stderr)

    def test_missing_library_is_reported(self):
        done = in_a_process("import test_torch; sys.modules['torch'] = test_torch.fake_torch()\n"
                            "import ashlar.torch; ashlar.torch.enable()",
                            ASHLAR_TORCH_LIBRARY="/nowhere/libashlar_torch.so")
        self.assertIn("file not found: /nowhere/libashlar_torch.so", done.stderr)


if __name__ == "__main__":
    os.environ["ASHLAR_TORCH_LIBRARY"] = sys.argv.pop(1)
    os.environ["CUDA_STANDIN"] = sys.argv.pop(1)
    os.environ["ASHLAR_TORCH_BACKEND"] = "sim"
    os.environ["ASHLAR_SIM_CAPACITY"] = "1GiB"
    os.environ.pop("ASHLAR_ALLOC_CONF", None)
    unittest.main()
