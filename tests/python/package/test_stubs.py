# SPDX-License-Identifier: Apache-2.0
"""Tests that the stubs match the module in every name, parameter and default."""

import ast
import inspect
import pathlib
import re

import ashlar
from ashlar import _ashlar

STUBS = ast.parse((pathlib.Path(ashlar.__file__).parent / "_ashlar.pyi").read_text())
# Members that every class has, so the stubs do not list them.
IMPLICIT_MEMBERS = {"__doc__", "__module__", "__repr__", "__str__", "__new__",
                       "__slotnames__"}  # the last one is created by copy and pickle
# Type aliases that exist only in the stubs.
PROTOCOLS = {"_Contiguous", "_CudaStream", "_CupyStream", "_TorchStream"}


def parameters(function):
    """Returns [(name, kind, default)] of a parsed function, without self."""
    arguments = function.args
    positional = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    found = [(each.arg, "positional", default) for each, default in zip(positional, defaults)]
    found += [(each.arg, "keyword", default)
              for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    for kind, each in (("*", arguments.vararg), ("**", arguments.kwarg)):
        if each:
            found.append((each.arg, kind, None))
    return [(name, kind, None if default is None else ast.literal_eval(default))
            for name, kind, default in found if name not in ("self", "arg0")]


def signature_of_module(function):
    """Like parameters(), for a function of the module, from the first line of its docstring."""
    line = function.__doc__.splitlines()[0]
    assert not line.startswith("__init__(*args"), f"{function} is overloaded"
    line = re.sub(r"<[^<>]*>", "...", line)
    return parameters(ast.parse(f"def {line}: ...").body[0])


def stubs_of(body):
    return {each.name: each for each in body if isinstance(each, (ast.FunctionDef, ast.ClassDef))}


def test_stubs_list_every_class_and_function():
    there = {name for name, value in vars(_ashlar).items()
             if inspect.isclass(value) or inspect.isroutine(value)}
    assert there == set(stubs_of(STUBS.body)) - PROTOCOLS


def test_stubs_list_every_member():
    for name, stub in stubs_of(STUBS.body).items():
        if not isinstance(stub, ast.ClassDef) or name in PROTOCOLS:
            continue
        members = set(vars(getattr(_ashlar, name))) - IMPLICIT_MEMBERS
        variables = {each.target.id for each in stub.body if isinstance(each, ast.AnnAssign)}
        listed = set(stubs_of(stub.body)) | variables
        if "__init__" not in listed:
            members.discard("__init__")  # functions create these objects, users never do
        assert listed == members, name


def test_stub_parameters_match():
    count = 0
    for stub in stubs_of(STUBS.body).values():
        if stub.name in PROTOCOLS:
            continue
        members = stubs_of(stub.body) if isinstance(stub, ast.ClassDef) else {None: stub}
        for name, member in members.items():
            home = getattr(_ashlar, stub.name)
            found = getattr(home, name) if name else home
            if isinstance(inspect.getattr_static(home, name, None) if name else None, property):
                continue
            if name in ("__eq__", "__hash__", "__enter__", "__exit__"):
                continue  # Python calls these methods, so their parameter names do not matter
            assert parameters(member) == signature_of_module(found), f"{stub.name}.{name}"
            count += 1
    assert count > 60


def test_stub_properties_match():
    for name, stub in stubs_of(STUBS.body).items():
        is_class = isinstance(stub, ast.ClassDef) and name not in PROTOCOLS
        for member in (stub.body if is_class else []):
            if isinstance(member, ast.FunctionDef):
                is_property = any(getattr(each, "id", "") == "property"
                                  for each in member.decorator_list)
                found = inspect.getattr_static(getattr(_ashlar, name), member.name)
                assert is_property == isinstance(found, property), f"{name}.{member.name}"


def test_every_public_name_exists():
    for name in ashlar.__all__:
        assert getattr(ashlar, name) is not None
    assert set(ashlar.__all__) <= set(dir(ashlar))


def test_annotations_refer_to_types():
    for stub in stubs_of(STUBS.body).values():
        names = set(stubs_of(stub.body)) if isinstance(stub, ast.ClassDef) else set()
        for member in stub.body if names else []:
            if isinstance(member, ast.FunctionDef):
                used = {each.id for each in ast.walk(member.returns) if isinstance(each, ast.Name)}
                assert not used & names, f"{stub.name}.{member.name}"


def test_every_function_is_annotated():
    for path in pathlib.Path(ashlar.__file__).parent.glob("*.py"):
        for each in ast.walk(ast.parse(path.read_text())):
            if isinstance(each, ast.FunctionDef):
                assert each.returns is not None, f"{path.name}: {each.name}"
                unannotated = [argument.arg for argument in each.args.args + each.args.kwonlyargs
                          if argument.annotation is None and argument.arg not in ("self", "cls")]
                assert unannotated == [], f"{path.name}: {each.name}"


def test_package_has_py_typed():
    assert (pathlib.Path(ashlar.__file__).parent / "py.typed").is_file()
