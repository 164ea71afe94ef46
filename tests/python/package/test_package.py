# SPDX-License-Identifier: Apache-2.0
"""Lazy loading, use without the extension module, and installation."""

import copy
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import ashlar
from conftest import ROOT, run_python


def test_import_loads_no_module():
    printed = run_python("import ashlar, sys; "
                         "print([name for name in sys.modules if 'ashlar' in name])")
    assert printed.stdout == "['ashlar.errors', 'ashlar']\n", printed.stderr


def test_missing_extension_is_reported(tmp_path):
    shutil.copytree(ROOT / "python" / "ashlar", tmp_path / "ashlar")
    tried = run_python("""
import ashlar, ashlar.torch
assert ashlar.torch.OutOfMemoryError is ashlar.OutOfMemoryError
assert issubclass(ashlar.torch.AshlarError, RuntimeError)
try:
    ashlar.Allocator
except ImportError as failure:
    print(failure)
try:
    ashlar.no_such_name
except AttributeError as failure:
    print(failure)
""", PYTHONPATH=str(tmp_path))
    assert tried.returncode == 0, tried.stderr
    assert "ashlar.Allocator needs the extension module" in tried.stdout
    assert "no attribute 'no_such_name'" in tried.stdout


def test_star_import_shadows_no_builtin():
    tried = run_python("import builtins; torch = errors = 'mine'; from ashlar import *\n"
                       "print([name for name in dir(builtins) if name in globals()"
                       " and not name.startswith('__')], torch, errors, Allocator.__name__)")
    assert tried.stdout == "[] mine mine Allocator\n", tried.stderr


def test_new_without_init_is_rejected():
    from ashlar import _ashlar
    classes = [each for each in vars(_ashlar).values() if isinstance(each, type)]
    assert len(classes) >= 12
    for each in classes:
        with pytest.raises(TypeError, match="not safe"):
            each.__new__(each)
    for each in (ashlar.Buffer, ashlar.Array, ashlar.HostView, ashlar.Pool, ashlar.HostBuffer):
        with pytest.raises(TypeError):
            each()
    with pytest.raises(TypeError):
        copy.copy(ashlar.Stream("sim:0"))

    class Own(ashlar.Allocator):
        pass

    assert Own("sim:0").allocate(5).size == 5


def test_version_matches_project():
    listed = (ROOT / "CMakeLists.txt").read_text()
    assert f"VERSION {ashlar.__version__}" in listed


def test_module_exports_one_symbol():
    from ashlar import _ashlar
    if shutil.which("nm") is None:
        pytest.skip("no nm here")
    shown = subprocess.run(["nm", "--dynamic", "--defined-only", _ashlar.__file__],
                           capture_output=True, text=True, check=True,
                           env={"PATH": os.environ["PATH"]}).stdout.split("\n")
    assert [line.split()[-1] for line in shown if line] == ["PyInit__ashlar"]


@pytest.mark.skipif("TEST_BUILD_FOLDER" not in os.environ, reason="no build folder to install from")
def test_installed_package_works(tmp_path):
    subprocess.run(["cmake", "--install", os.environ["TEST_BUILD_FOLDER"], "--prefix", tmp_path,
                    "--component", "python"], check=True, capture_output=True,
                   env={"PATH": os.environ["PATH"]})
    site = tmp_path / "share" / "ashlar" / "python"
    used = subprocess.run(
        [sys.executable, "-c", "import ashlar; print(ashlar.__file__); "
         "print(ashlar.Allocator('sim:0').allocate(5).size)"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)})
    assert used.stdout.split() == [str(site / "ashlar" / "__init__.py"), "5"]
    assert sorted(each.name for each in (site / "ashlar").iterdir() if each.suffix == ".py") == \
        sorted(each.name for each in pathlib.Path(ROOT / "python" / "ashlar").glob("*.py"))
