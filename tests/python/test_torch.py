#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests ashlar.torch on the simulated device, with a fake PyTorch module that calls the plug-in's
functions like the real PyTorch.

  test_torch.py LIBRARY STANDIN    (in its own process, since an allocator cannot be disabled)"""

import ctypes
import os
import pathlib
import subprocess
import sys
import types
import unittest

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

    def test_unknown_device_is_reported(self):
        with self.assertRaisesRegex(self.ashlar.AshlarError, "no device 9"):
            self.ashlar.memory_stats("cuda:9")

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
