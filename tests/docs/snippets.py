#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the code blocks of all documents.

  snippets.py list                 counts the blocks; names those that are not run, and why
  snippets.py cpp OUTPUT           writes a C++ program that runs the cpp blocks
  snippets.py cpp-not-run OUTPUT   writes a C++ file with the cpp blocks that are only compiled
  snippets.py c OUTPUT             writes a C file with the c blocks, which are only compiled
  snippets.py sh ASHLAR            runs the sh and console blocks with this ashlar tool
  snippets.py python               runs the python blocks, with the ashlar package on PYTHONPATH

The language of a block decides how it is checked:

  cpp      compiled and run in a function of its own, with CPP_CONTEXT in scope
  c        compiled
  python   run; the blocks of a page share one namespace
  sh       run by `bash -euo pipefail` in a copy of the repository's layout, with the RECORDINGS
           in it
  console  run like sh, line by line after `$ `; the output is compared. A line `…` stands for
           any number of lines. Exit codes 0 and 1 are accepted
  text, yaml, json, mermaid        not code

HTML comments directly above a block change that:

  <!-- quoted from PATH -->, <!-- quoted from PATH, excerpt -->    tools/tidy.py compares the block;
                                   python names are checked
  <!-- not run: REASON -->         compiled only; python names and ashlar command lines are checked
  <!-- not checked: REASON -->     left out
  <!-- setup: CODE -->             hidden code that precedes the block, in the same scope

A failure names the page and line. Exit: 0 all good, 1 findings. Needs Python 3.11."""

import argparse
import ast
import contextlib
import dataclasses
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TRACES = ROOT / "tests" / "golden" / "traces"
CODE = ("cpp", "c", "python", "sh", "console")
NOT_CODE = ("text", "yaml", "json", "mermaid")
TIMEOUT_S = 60

# Files that command lines on the pages may name.
RECORDINGS = {
    "run.pickle": "oom.1.pickle.xz", "snapshot.pickle": "oom.1.pickle.xz",
    "base.pickle": "graph_pools.1.pickle.xz", "new.pickle": "graph_pools.1.pickle.xz",
}

# `ashlar view FILE` serves until it is stopped, so the wrapper stops it after two seconds.
WRAPPER = """#!/usr/bin/env bash
if [[ $1 == view && " $* " != *" -o "* ]]; then
  timeout 2 "{tool}" "$@" --no-browser || [[ $? == 124 ]]
else
  exec "{tool}" "$@"
fi
"""

FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(  # a comment at the end of the text
    r"<!--\s*(quoted from|not run:|not checked:|setup:)\s*((?:(?!-->).)*?)\s*-->\s*\Z", re.DOTALL)


@dataclasses.dataclass
class Block:
    page: str
    line: int        # number of the first line of code
    language: str
    code: str
    notes: dict      # keys: "quoted from", "not run", "not checked", "setup"

    @property
    def place(self):
        return f"{self.page}:{self.line}"

    @property
    def setup(self):
        return self.notes.get("setup", "")

    @property
    def is_left_out(self):
        return "quoted from" in self.notes or "not checked" in self.notes


def documents():
    """Returns the paths of all documents of the repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return sorted(ROOT / name for name in listed.stdout.split())
    # Searches the folder, because git cannot list the files of a source archive.
    skipped = {"build", "node_modules", ".git"}
    return sorted(path for path in ROOT.rglob("*.md")
                  if not skipped.intersection(path.relative_to(ROOT).parts))


def blocks_of(page, text):
    """Returns the code blocks of a page, each with the comments above it."""
    for match in FENCE.finditer(text):
        indent, language, code = match.groups()
        lines = [line.removeprefix(indent) for line in code.split("\n")]
        notes, above = {}, text[: match.start()]
        while found := COMMENT.search(above):
            notes[found.group(1).rstrip(":")] = found.group(2)
            above = above[: found.start()]
        yield Block(page, text.count("\n", 0, match.start(3)) + 1, language,
                    "\n".join(lines), notes)


def all_blocks():
    """Returns the code blocks of all documents. Exits if a block has an unknown language."""
    blocks = [block for path in documents() if path.exists()
              for block in blocks_of(path.relative_to(ROOT).as_posix(),
                                     path.read_text(encoding="utf-8"))]
    wrong = [f"{block.place}: language '{block.language}' (expected one of "
             f"{', '.join(CODE + NOT_CODE)}, or a comment 'not checked: REASON')"
             for block in blocks
             if block.language not in CODE + NOT_CODE and not block.is_left_out]
    if wrong:
        sys.exit("\n".join(wrong))
    return blocks


def of_language(*languages):
    return [block for block in all_blocks()
            if block.language in languages and not block.is_left_out]


def print_list():
    """Prints how many blocks are run, only compiled, or not checked, and why."""
    counts = {}
    for block in all_blocks():
        default = "run" if block.language in CODE else "not code"
        kind = next((note for note in ("not checked", "quoted from", "not run")
                     if note in block.notes), default)
        counts[kind] = counts.get(kind, 0) + 1
        if kind in ("not run", "not checked"):
            print(f"{block.place}: {block.language}, {kind}: {block.notes[kind]}")
    print("snippets: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return 0


# --- C++ and C

CPP_HEAD = """// Written by tests/docs/snippets.py from the documents.
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory_resource>
#include <vector>

#include "ashlar/ashlar.h"
#include "ashlar/c/ashlar.h"
"""
CPP_CONTEXT = """  [[maybe_unused]] const auto machine = sim::Machine::create();
  [[maybe_unused]] Device& device = machine->device(DeviceIndex(0));
  [[maybe_unused]] Allocator allocator(device);
  [[maybe_unused]] HostAllocator host(device);
  [[maybe_unused]] Stream stream(device);
"""
CPP_USING = """
using namespace ashlar;
using namespace std::chrono_literals;
"""
CPP_MAIN = """
#line 1 "snippets.cc"
struct DocumentBlock {
  const char* place;
  void (*run)();
};

int main() {
  const DocumentBlock blocks[] = {
TABLE
  };
  int run = 0;
  int failed = 0;
  for (const DocumentBlock& block : blocks) {
    ++run;
    try {
      block.run();
    } catch (const std::exception& error) {
      std::printf("%s: %s\\n", block.place, error.what());
      ++failed;
    }
  }
  std::printf("snippets: %d cpp blocks run, %d failed\\n", run, failed);
  return failed == 0 ? 0 : 1;
}
"""


def cpp_functions(is_run):
    """Returns (blocks, C++ text with a function for each). Compiler messages name the page."""
    blocks = [block for block in of_language("cpp") if ("not run" not in block.notes) == is_run]
    includes, functions = [], []
    for number, block in enumerate(blocks):
        lines = block.code.split("\n")
        includes += [line for line in lines if line.startswith("#include")]
        code = "\n".join("" if line.startswith("#include") else line for line in lines)
        functions.append(f"void block_{number}() {{\n{CPP_CONTEXT}  {{\n"
                         f"#line {block.line} \"{block.page} (setup)\"\n{block.setup}\n"
                         f"#line {block.line} \"{block.page}\"\n{code}\n  }}\n}}\n")
    return blocks, "\n".join([CPP_HEAD, *includes, CPP_USING, *functions])


def write_cpp(output):
    """Writes a program that runs the blocks."""
    blocks, text = cpp_functions(is_run=True)
    table = "\n".join(f'    {{"{block.place}", block_{number}}},'
                      for number, block in enumerate(blocks))
    output.write_text(f"{text}\n{CPP_MAIN.replace('TABLE', table)}", encoding="utf-8")
    return 0


def write_cpp_not_run(output):
    """Writes a file that is compiled but not linked."""
    output.write_text(cpp_functions(is_run=False)[1], encoding="utf-8")
    return 0


def write_c(output):
    """Writes one file with every C block at file scope."""
    parts = ["// Written by tests/docs/snippets.py from the documents.\n#include <stddef.h>\n"]
    for block in of_language("c"):
        parts.append(f"{block.setup}\n#line {block.line} \"{block.page}\"\n{block.code}")
    output.write_text("\n".join(parts), encoding="utf-8")
    return 0


# --- commands

def make_sandbox(folder, tool):
    """Fills `folder` with links that look like the repository after a build, and with the
    RECORDINGS."""
    for path in ROOT.iterdir():
        if path.name not in ("build", ".git"):
            (folder / path.name).symlink_to(path)
    for name in ("build/release/bin", "bin"):
        (folder / name).mkdir(parents=True)
        (folder / name / "ashlar").write_text(WRAPPER.format(tool=tool), encoding="utf-8")
        (folder / name / "ashlar").chmod(0o755)
    for name, recording in RECORDINGS.items():
        (folder / name).symlink_to(TRACES / recording)


def run_commands(tool):
    """Runs the sh and console blocks."""
    findings, run = [], 0
    known = subprocess.run([tool, "help"], capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"^  ([a-z][a-z-]*)\s", known, re.MULTILINE))
    for block in of_language("sh", "console"):
        findings += unknown_commands(block, names)
        if "not run" in block.notes:
            continue
        run += 1
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            make_sandbox(folder, tool)
            check = run_shell if block.language == "sh" else run_console
            findings += check(block, folder)
    print("\n".join(findings + [f"snippets: {run} sh and console blocks run, "
                                f"{len(findings)} findings"]))
    return 1 if findings else 0


def unknown_commands(block, names):
    """Yields a finding for each ashlar command line in the block, run or not, whose command does
    not exist."""
    for offset, line in enumerate(block.code.split("\n")):
        for match in re.finditer(r"(?:^|[\s/;&|(])ashlar ([a-z][a-z-]*)", line.split(" #")[0]):
            if match.group(1) not in names:
                yield f"{block.page}:{block.line + offset}: ashlar has no command {match.group(1)}"


def shell(script, folder):
    """Runs a script. Returns (output, exit code)."""
    environment = {name: value for name, value in os.environ.items()
                   if not re.match(r"ASHLAR_|PYTORCH_", name)}
    environment |= {"PATH": f"{folder}/bin:{os.environ['PATH']}", "COLUMNS": "100",
                    "LC_ALL": "C.UTF-8", "GITHUB_STEP_SUMMARY": f"{folder}/summary.md"}
    try:
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder,
                              env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"still running after {TIMEOUT_S} s", 124
    return done.stdout, done.returncode


def run_shell(block, folder):
    output, code = shell(f"{block.setup}\n{block.code}", folder)
    if code != 0:
        yield f"{block.place}: exit code {code}:\n{output}"


def run_console(block, folder):
    """Compares the output of each command with the lines below it."""
    lines = block.code.rstrip("\n").split("\n")
    starts = [i for i, line in enumerate(lines) if line.startswith("$ ")]
    if not starts or starts[0] != 0:
        yield f"{block.place}: a console block starts with a command ('$ COMMAND')"
        return
    for start, end in zip(starts, starts[1:] + [len(lines)]):
        output, code = shell(f"{block.setup}\n{lines[start][2:]}", folder)
        expected = lines[start + 1: end]
        if code not in (0, 1):
            yield f"{block.page}:{block.line + start}: exit code {code}:\n{output}"
        elif expected and not matches(expected, output):
            yield (f"{block.page}:{block.line + start}: the output of '{lines[start][2:]}' "
                   f"differs; it is now:\n{output}")


def matches(expected, output):
    """Whether the output equals the expected lines, where a line `…` stands for any lines."""
    pattern = "".join(r"(?:.*\n)*" if line.strip() == "…" else re.escape(line.rstrip()) + r" *\n"
                      for line in expected)
    found = output.strip("\n") + "\n"
    return re.fullmatch(pattern + r"\n*", found) is not None


# --- Python

def run_python():
    """Runs the python blocks of each page in one namespace. For blocks that are not run, checks
    only that the names from the package exist."""
    findings, run, spaces = [], 0, {}
    before = os.getcwd()
    for block in all_blocks():
        if block.language != "python" or "not checked" in block.notes:
            continue
        code = "\n" * (block.line - 1) + block.code
        try:
            tree = ast.parse(code, block.page)
        except SyntaxError as error:
            findings.append(f"{block.page}:{error.lineno}: {error.msg}")
            continue
        findings += unknown_names(block, tree)
        if "not run" in block.notes or "quoted from" in block.notes:
            continue
        run += 1
        space = spaces.setdefault(block.page, {"__name__": "__main__"})
        with tempfile.TemporaryDirectory() as name:
            for recording, path in RECORDINGS.items():
                (pathlib.Path(name) / recording).symlink_to(TRACES / path)
            os.chdir(name)
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(compile(block.setup, f"{block.page} (setup)", "exec"), space)
                    exec(compile(tree, block.page, "exec"), space)
            except Exception as error:  # pylint: disable=broad-except
                findings.append(f"{block.place}: {type(error).__name__}: {error}")
            finally:
                os.chdir(before)
    print("\n".join(findings + [f"snippets: {run} python blocks run, {len(findings)} findings"]))
    return 1 if findings else 0


def unknown_names(block, tree):
    """Yields the names below `ashlar.` and `ashlar.torch.` that do not exist."""
    import ashlar
    import ashlar.torch
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        owner = ast.unparse(node.value)
        module = {"ashlar": ashlar, "ashlar.torch": ashlar.torch}.get(owner)
        if module is not None and not hasattr(module, node.attr):
            yield f"{block.page}:{node.lineno}: {owner} has no {node.attr}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["list", "cpp", "cpp-not-run", "c", "sh", "python"])
    parser.add_argument("path", nargs="?", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.what in ("list", "python"):
        return print_list() if arguments.what == "list" else run_python()
    if arguments.path is None:
        parser.error(f"{arguments.what} needs a path")
    act = {"cpp": write_cpp, "cpp-not-run": write_cpp_not_run, "c": write_c, "sh": run_commands}
    return act[arguments.what](arguments.path.resolve())


if __name__ == "__main__":
    sys.exit(main())
