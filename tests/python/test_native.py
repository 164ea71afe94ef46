#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests how ashlar.torch builds, installs and refuses the native allocator, with a stand-in for
PyTorch: a package with PyTorch's headers and libraries, but nothing else.

  test_native.py LIBRARY STANDIN_LIBRARY COMPILER"""

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
LIBRARY, STANDIN, COMPILER = None, None, None

# A fake `torch` module that ashlar.torch accepts as PyTorch.
PACKAGE = """
import types
__version__ = {version!r}
version = types.SimpleNamespace(hip=None, git_version="abc")
_C = types.SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=True)
class _Pluggable:
    def __init__(self, *arguments):
        self.arguments = arguments
    def allocator(self):
        return types.SimpleNamespace(**{{name: abs for name in (
            "set_init_fn", "set_reset_fn", "set_memory_fraction_fn", "set_base_alloc_fn",
            "set_record_stream_fn", "set_begin_allocate_to_pool", "set_end_allocate_to_pool_fn",
            "set_release_pool")}})
_used_by = []  # the process that uses the GPU
import os
cuda = types.SimpleNamespace(
    is_initialized=lambda: {is_initialized}, current_device=lambda: 0,
    _is_in_bad_fork=lambda: _used_by not in ([], [os.getpid()]),
    memory=types.SimpleNamespace(CUDAPluggableAllocator=_Pluggable,
                                 change_current_allocator=lambda allocator: print("plug-in")))
"""

# Allocates through the stand-in's allocator.
ALLOCATE = """
import ctypes
standin = ctypes.CDLL({standin!r})
standin.standin_raw_alloc.restype = ctypes.c_void_p
standin.standin_raw_alloc.argtypes = [ctypes.c_size_t]
standin.standin_raw_delete.argtypes = [ctypes.c_void_p]
standin.standin_free_at_exit.argtypes = [ctypes.c_void_p]
memory = standin.standin_raw_alloc(3 << 20)
print("allocated", standin.standin_allocated_bytes())
standin.standin_raw_delete(memory)
print("freed", standin.standin_allocated_bytes())
"""


# Loads a library whose first build is broken.
REBUILD = """
import pathlib, shutil, torch
from ashlar import _native
built = pathlib.Path({built!r})
copy = built.with_suffix(".copy")
builds = []
def build(_):
    builds.append(copy.exists())
    if len(builds) == 1:
        copy.write_bytes(b"")
    else:
        shutil.copy(built, copy)
    return copy
_native._build = build
library = _native._load(torch)
copy.unlink()
print(not any(builds), len(builds), library.ashlar_native_torch_version())
"""


class NativeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Shared by the tests that build, because building takes seconds.
        cls.built = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.built)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.cache = self.folder / "cache"

    def use_supported_torch(self):
        self.folder = self.built
        self.cache = self.built / "cache"
        if not (self.folder / "torch").is_dir():
            self.write_torch()

    def write_torch(self, version="2.11.0+cu130", is_initialized=False):
        package = self.folder / "torch"
        (package / "lib").mkdir(parents=True)
        (package / "__init__.py").write_text(
            PACKAGE.format(version=version, is_initialized=is_initialized), encoding="utf-8")
        (package / "include").symlink_to(TESTS / "standin" / "torch" / "include")
        for name in ("libc10.so", "libc10_cuda.so"):
            (package / "lib" / name).symlink_to(STANDIN)

    def run_code(self, code, **environment):
        search = os.pathsep.join([str(ROOT / "python"), str(self.folder)])
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": search, "ASHLAR_TORCH_LIBRARY": LIBRARY,
                 "ASHLAR_TORCH_BACKEND": "sim", "ASHLAR_TORCH_CACHE": str(self.cache),
                 "CXX": f"{COMPILER} -O0 -I{TESTS}", **environment})
        return done.stdout, done.stderr

    def enable(self, arguments="", **environment):
        return self.run_code(f"import ashlar.torch as a\na.enable({arguments})\n"
                             "print('native', a.is_native())\n", **environment)

    def assert_falls_back(self, reason, **environment):
        output, errors = self.enable(**environment)
        self.assertIn("plug-in", output)
        self.assertIn("native False", output)
        self.assertRegex(errors, reason)
        self.assertEqual(errors.count("Using the plug-in, without"), 1)

    def test_builds_once_and_allocates(self):
        self.use_supported_torch()
        code = ("import ashlar.torch as a\na.enable(native=True)\n"
                + ALLOCATE.format(standin=STANDIN)
                + "print('stats', a.memory_stats()['allocation.all.allocated'])\n")
        output, errors = self.run_code(code)
        self.assertEqual(output, f"allocated {3 << 20}\nfreed 0\nstats 1\n", errors)
        built = list(self.cache.glob("torch-2.11.0-*.so"))
        self.assertEqual(len(built), 1)
        self.assertEqual(self.cache.stat().st_mode & 0o777, 0o700)
        self.assertEqual(sorted(path.name for path in self.cache.iterdir()),
                         ["lock", built[0].name])
        time = built[0].stat().st_mtime_ns
        self.assertEqual(self.run_code(code)[0], output)
        self.assertEqual(built[0].stat().st_mtime_ns, time)

    def test_processes_wait_for_the_one_that_builds(self):
        self.use_supported_torch()
        self.enable()
        built, = self.cache.glob("torch-*.so")
        state = built.stat()
        aside = built.with_suffix(".aside")
        with open(self.cache / "lock", "r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            built.rename(aside)
            waiting = threading.Thread(target=lambda: results.append(self.enable()))
            results = []
            waiting.start()
            while not self.is_lock_open_elsewhere():
                time.sleep(0.01)
            aside.rename(built)
        waiting.join()
        self.assertIn("native True", results[0][0], results[0][1])
        self.assertEqual(built.stat().st_ino, state.st_ino, "it was built again")

    def is_lock_open_elsewhere(self):
        path = str(self.cache / "lock")
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                is_other = int(process.name) != os.getpid()
                if is_other and any(os.readlink(each) == path for each in process.glob("fd/*")):
                    return True
            except OSError:  # the process has ended, or belongs to another user
                continue
        return False

    def test_unusable_library_is_built_again(self):
        self.use_supported_torch()
        self.enable()
        built, = self.cache.glob("torch-*.so")
        output, errors = self.run_code(REBUILD.format(built=str(built)))
        self.assertEqual(output, "True 2 b'2.11.0'\n", errors)

    def test_unknown_versions_fall_back(self):
        for version in ("2.5.1", "2.12.0", "3.0.0", "main"):
            with self.subTest(version):
                self.setUp()
                self.write_torch(version)
                self.assert_falls_back("not supported|is unknown")

    def test_failing_compiler_falls_back(self):
        self.write_torch()
        self.assert_falls_back("false failed", CXX="false")
        self.assert_falls_back("the compiler failed", CXX="/no/such/compiler")

    def test_missing_compiler_falls_back(self):
        self.write_torch()
        self.assert_falls_back("no C.. compiler was found", CXX="", PATH=str(self.folder))

    def test_unsafe_cache_falls_back(self):
        self.write_torch()
        self.cache.mkdir()
        self.cache.chmod(0o777)
        self.assert_falls_back("other users can write")
        self.cache.rmdir()
        self.cache.write_text("a file", encoding="utf-8")
        self.assert_falls_back("cannot be used")
        self.assert_falls_back("not an absolute path", ASHLAR_TORCH_CACHE="cache")

    def test_fallback_can_be_refused(self):
        self.write_torch("2.5.1")
        output, errors = self.enable("native=True")
        self.assertEqual(output, "")
        self.assertIn("RuntimeError: the native allocator is not available: PyTorch 2.5.1", errors)

    def test_plug_in_can_be_requested(self):
        self.write_torch()
        output, errors = self.enable("native=False")
        self.assertIn("native False", output)
        self.assertEqual(errors, "")

    def test_late_and_second_calls_are_rejected(self):
        self.write_torch(is_initialized=True)
        self.assertIn("PyTorch already uses the GPU", self.enable()[1])
        self.use_supported_torch()
        errors = self.run_code("import ashlar.torch as a\na.enable()\na.enable()\n")[1]
        self.assertIn("already enabled (expected one call)", errors)

    def test_enable_in_a_forked_child_suggests_spawn(self):
        self.use_supported_torch()
        output, errors = self.run_code(
            "import os, torch, ashlar.torch as a\na.enable()\n"
            + ALLOCATE.format(standin=STANDIN) + """
torch._used_by.append(os.getpid())
if os.fork() == 0:
    try:
        a.enable()
    except RuntimeError as failure:
        print(failure, flush=True)
    os._exit(0)
os.wait()
""")
        self.assertIn("forked after the GPU was first used", output, errors)
        self.assertIn("spawn", output)

    def test_forked_children_without_enable_are_told_to_spawn(self):
        self.use_supported_torch()
        errors = self.run_code("import torch, ashlar.torch as a\n"
                               "torch._used_by.append(1)\na.enable()\n")[1]
        self.assertIn("RuntimeError: this process was forked after the GPU was first used", errors)

    def test_children_forked_before_the_first_use_are_enabled(self):
        self.use_supported_torch()
        output, errors = self.run_code("""
import os, ashlar.torch as a
a.enable()
child = os.fork()
if child == 0:
    try:
        a.enable()
    except RuntimeError as failure:
        print(failure)
else:
    print("child", os.waitpid(child, 0)[1])
""" + ALLOCATE.format(standin=STANDIN))
        self.assertIn("is enabled here, too", output, errors)
        self.assertEqual(output.count("allocated 3145728"), 2, output + errors)
        self.assertIn("child 0", output)

    def test_memory_is_freed_by_inherited_objects_and_at_exit(self):
        self.use_supported_torch()
        output, errors = self.run_code("import os, ashlar.torch as a\na.enable()\n"
                                       + ALLOCATE.format(standin=STANDIN) + """
memory = standin.standin_raw_alloc(3 << 20)
standin.standin_free_at_exit(memory)
child = os.fork()
if child != 0:
    print("child", os.waitpid(child, 0)[1])
print("done")
""")
        self.assertEqual(output.splitlines()[-2:], ["child 0", "done"], errors)
        self.assertEqual(errors, "")

    def test_scripts_run_unmodified(self):
        self.use_supported_torch()
        script = self.folder / "train.py"
        script.write_text("import sys, ashlar.torch\nprint(__name__, sys.argv[1:], "
                          "ashlar.torch.is_native(), sys.path[0])\n", encoding="utf-8")
        output, errors = self.run_code(
            "import runpy, sys\n"
            f"sys.argv = ['ashlar.torch', '--conf', 'engine:paged', {str(script)!r}, '--steps', "
            "'3']\nrunpy.run_module('ashlar.torch', run_name='__main__', alter_sys=True)\n")
        self.assertEqual(output, f"__main__ ['--steps', '3'] True {self.folder}\n", errors)


if __name__ == "__main__":
    LIBRARY, STANDIN, COMPILER = (str(pathlib.Path(each).resolve()) for each in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
