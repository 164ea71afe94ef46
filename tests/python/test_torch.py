#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ashlar.torch on the simulated device, with a PyTorch that is not there: a module of the same
shape, which calls the plug-in's functions as the real one does.

  test_torch.py LIBRARY STANDIN    (in a process of its own, since an allocator is for good)"""

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
    """torch._C._CUDAPluggableAllocator: takes addresses of hooks."""

    SETTERS = ("set_init_fn", "set_reset_fn", "set_memory_fraction_fn", "set_base_alloc_fn",
               "set_record_stream_fn", "set_begin_allocate_to_pool", "set_end_allocate_to_pool_fn",
               "set_release_pool")

    def __init__(self):
        self.hooks = {}
        for setter in self.SETTERS:
            setattr(self, setter, lambda address, name=setter: self.hooks.update({name: address}))


class FakePluggableAllocator:
    """torch.cuda.memory.CUDAPluggableAllocator."""

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
    """Runs Python with the fake PyTorch at hand; gives what it printed."""
    program = (f"import sys; sys.path[:0] = [{str(ROOT / 'python')!r}, "
               f"{str(pathlib.Path(__file__).parent)!r}]\n{code}")
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={**os.environ, **environment}, check=False)


class EnabledTest(unittest.TestCase):
    """One process, enabled once: as a program would be."""

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

    def test_pytorch_gets_both_functions_and_every_hook(self):
        self.assertTrue(self.ashlar.is_enabled())
        self.assertEqual(self.torch.current.alloc_name, "ashlar_torch_alloc")
        hooks = self.torch.current.allocator().hooks
        self.assertEqual(sorted(hooks), sorted(FakeAllocator.SETTERS))
        self.assertTrue(all(hooks.values()))
        self.assertEqual(len(set(hooks.values())), len(hooks))

    def test_enabling_twice_is_refused(self):
        with self.assertRaisesRegex(RuntimeError, "enabled already"):
            self.ashlar.enable()

    def test_there_is_no_pool_beside_it(self):
        with self.assertRaisesRegex(RuntimeError, "no MemPool"):
            self.ashlar.mem_pool()

    def test_statistics_have_pytorchs_names(self):
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

    def test_a_snapshot_is_what_pytorchs_would_be(self):
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

    def test_the_history_can_be_asked_like_a_recording(self):
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

    def test_the_summary_names_what_is_live_and_held(self):
        self.allocate(7 << 20)
        text = self.ashlar.summary()
        self.assertIn("device 0 (defaults)", text)
        self.assertRegex(text, r"live +7\.00 MiB")
        self.assertRegex(text, r"held +\d")

    def test_each_status_is_an_exception_of_its_own(self):
        from ashlar import _library, errors
        with self.assertRaises(errors.DeviceError) as caught:
            self.ashlar.save_snapshot("/nowhere/at/all.pickle")
        self.assertEqual((caught.exception.call, caught.exception.code), ("open", 2))
        for status, kind, name in (
                (1, errors.OutOfMemoryError, "out of memory"), (2, errors.InvalidArgument, "usage"),
                (3, errors.InvalidArgument, "unsupported"), (4, errors.DeviceError, "device fault"),
                (5, errors.DeviceError, "device lost"), (6, errors.FormatError, "format"),
                (9, errors.TimeoutError, "timeout"), (10, errors.PeerError, "peer lost"),
                (77, errors.Error, "")):
            with self.assertRaises(errors.Error) as caught:
                _library.check(status)
            self.assertIs(type(caught.exception), kind)
            self.assertIn(name, caught.exception.kind)

    def test_a_name_with_a_nul_is_refused(self):
        with self.assertRaisesRegex(ValueError, "without NUL"):
            self.ashlar.save_snapshot("/tmp/a\0b")

    def test_a_device_that_is_not_there_is_said(self):
        with self.assertRaisesRegex(self.ashlar.AshlarError, "no device 9"):
            self.ashlar.memory_stats("cuda:9")

    def test_history_takes_pytorchs_words_only(self):
        with self.assertRaisesRegex(ValueError, "expected"):
            self.ashlar.record_memory_history("everything")


class ProcessTest(unittest.TestCase):
    """What needs a process that has not begun yet."""

    def test_importing_ashlar_imports_neither_pytorch_nor_the_library(self):
        done = in_a_process("import ashlar, ashlar.torch\n"
                            "assert 'torch' not in sys.modules\nprint('fine')",
                            ASHLAR_TORCH_LIBRARY="/nowhere/libashlar_torch.so")
        self.assertEqual(done.stdout, "fine\n", done.stderr)

    def test_enabling_too_late_is_refused(self):
        done = in_a_process(
            "import test_torch; sys.modules['torch'] = test_torch.fake_torch(is_initialized=True)\n"
            "import ashlar.torch; ashlar.torch.enable()")
        self.assertIn("uses the GPU already", done.stderr)
        self.assertNotEqual(done.returncode, 0)

    def test_options_that_make_no_sense_are_refused(self):
        done = in_a_process("import test_torch; sys.modules['torch'] = test_torch.fake_torch()\n"
                            "import ashlar.torch; ashlar.torch.enable(conf='engine:stone')")
        self.assertRegex(done.stderr, "InvalidArgument: engine: \"stone\" is not an engine")

    def test_the_environment_may_say_the_options(self):
        done = in_a_process("import test_torch; sys.modules['torch'] = test_torch.fake_torch()\n"
                            "import ashlar.torch; ashlar.torch.enable()\n"
                            "print(ashlar.torch.configuration())",
                            ASHLAR_ALLOC_CONF="engine:paged,policy:lean")
        self.assertEqual(done.stdout, "policy:lean\n", done.stderr)

    def test_a_pool_of_pytorchs_gets_its_segments_from_us(self):
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

    def test_a_pool_gets_segments_while_a_graph_is_captured(self):
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

    def test_a_library_that_is_not_there_is_said(self):
        done = in_a_process("import test_torch; sys.modules['torch'] = test_torch.fake_torch()\n"
                            "import ashlar.torch; ashlar.torch.enable()",
                            ASHLAR_TORCH_LIBRARY="/nowhere/libashlar_torch.so")
        self.assertIn("there is no file /nowhere/libashlar_torch.so", done.stderr)


if __name__ == "__main__":
    os.environ["ASHLAR_TORCH_LIBRARY"] = sys.argv.pop(1)
    os.environ["CUDA_STANDIN"] = sys.argv.pop(1)
    os.environ["ASHLAR_TORCH_BACKEND"] = "sim"
    os.environ["ASHLAR_SIM_CAPACITY"] = "1GiB"
    os.environ.pop("ASHLAR_ALLOC_CONF", None)
    unittest.main()
