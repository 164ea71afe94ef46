# SPDX-License-Identifier: Apache-2.0
"""Source files for the rules of tidy.py, with comments and code separated, and the file tree."""

import dataclasses
import functools
import pathlib
import re

CPP_SUFFIXES = (".h", ".cc", ".c")  # the rules for C++ also apply to C
SOURCE_SUFFIXES = CPP_SUFFIXES + (".cu", ".cuh")
TEXT_SUFFIXES = SOURCE_SUFFIXES + (
    ".py", ".pyi", ".md", ".cmake", ".toml", ".json", ".txt", ".in", ".ts", ".tsx", ".css",
    ".html", ".yml")
# Folders without sources of this project.
SKIPPED_FOLDERS = {".git", "build", "__pycache__", "node_modules", "dist"}


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    """One violation of one rule: what was found, and what is expected."""

    path: str
    line: int
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.message}"


class SourceFile:
    """A text file. For C++, `code` has the lines with comments and literals blanked out, and
    `comments` the lines with everything except comments blanked out."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.splitlines()

    @property
    def is_cpp(self):
        return self.path.endswith(CPP_SUFFIXES)

    def is_in(self, *folders):
        """Returns whether the file is, or lies below, one of these paths."""
        return any(self.path == f or self.path.startswith(f + "/") for f in folders)

    @functools.cached_property
    def _parts(self):
        code, comments = split_cpp(self.text)
        return code.splitlines(), comments.splitlines()

    @property
    def code(self):
        return self._parts[0]

    @property
    def comments(self):
        return self._parts[1]

    def find(self, pattern, lines=None):
        """Yields (line number, match) for every match of `pattern`; in the code unless lines are
        given."""
        for number, line in enumerate(self.code if lines is None else lines, start=1):
            for match in re.finditer(pattern, line):
                yield number, match

    def finding(self, line, message):
        return Finding(self.path, line, message)

    @property
    def head(self):
        """Returns the comment at the start of the file, or an empty string."""
        lines = []
        for line in self.lines:
            if not line.startswith("//"):
                break
            lines.append(line)
        return "\n".join(lines)


class Tree:
    """All files by path, with the layer table. Tests construct one from a dictionary of texts."""

    def __init__(self, texts, table, other_paths=()):
        self.files = [SourceFile(path, text) for path, text in sorted(texts.items())]
        self.by_path = {file.path: file for file in self.files}
        self.table = table
        self.paths = set(texts) | set(other_paths)
        for path in list(self.paths):
            self.paths.update(str(parent) for parent in pathlib.PurePosixPath(path).parents)

    @classmethod
    def read(cls, root, table):
        """Reads every file below `root`, except in SKIPPED_FOLDERS. A `#!` line marks a script
        without suffix as text."""
        texts, others = {}, []
        for path in sorted(root.rglob("*")):
            relative = path.relative_to(root)
            if SKIPPED_FOLDERS & set(relative.parent.parts) or not path.is_file():
                continue
            if path.suffix in TEXT_SUFFIXES or path.read_bytes()[:2] == b"#!":
                texts[relative.as_posix()] = path.read_text(encoding="utf-8")
            else:
                others.append(relative.as_posix())
        return cls(texts, table, others)

    def cpp(self, *folders):
        """Returns the C++ files; if folders are given, only the files in them."""
        return [f for f in self.files if f.is_cpp and (not folders or f.is_in(*folders))]

    def with_suffix(self, *suffixes):
        return [f for f in self.files if f.path.endswith(suffixes)]

    def home_of(self, thing):
        """Returns the files and folders that may use `thing`."""
        return self.table["homes"][thing]


_CPP_PART = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<raw>R"(?P<fence>[^(\s]*)\(.*?\)(?P=fence)")
      | (?P<string>"(?:\\.|[^"\\\n])*")
      | (?P<character>(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+')""",
    re.VERBOSE | re.DOTALL,
)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def split_cpp(text):
    """Splits the text into code only (string literals blanked), and comments only."""
    code, comments, position = [], [], 0
    for match in _CPP_PART.finditer(text):
        before, part = text[position : match.start()], match.group()
        code.append(before)
        comments.append(_blank(before))
        if match.group("comment"):
            code.append(_blank(part))
            comments.append(part)
        else:
            code.append(part[0] + _blank(part[1:-1]) + part[-1])
            comments.append(_blank(part))
        position = match.end()
    code.append(text[position:])
    comments.append(_blank(text[position:]))
    return "".join(code), "".join(comments)


@dataclasses.dataclass(frozen=True)
class Function:
    """A function definition, from the first line of its signature to its closing brace."""

    name: str
    first_line: int
    last_line: int

    @property
    def line_count(self):
        return self.last_line - self.first_line + 1


_SCOPE = re.compile(
    r"(template\s*<.*>\s*)?(inline\s+)?(namespace|class|struct|union|enum|extern)\b")
_BEFORE_SIGNATURE = re.compile(r"\s*((public|protected|private):\s*)*")


def functions(file):
    """Yields the function definitions of a C++ file, by matching braces. Reliable for code
    formatted by clang-format without braces in macros."""
    directive = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
    text = directive.sub(lambda match: _blank(match.group()), "\n".join(file.code))

    def line_at(position):
        return text.count("\n", 0, position) + 1

    start = 0  # begin of the current declaration
    depth = 0  # nesting depth of braces in the declaration, of a body or of an initializer
    name, first_line = None, 0  # name and first line of the current function
    for match in re.finditer(r"[{};]", text):
        symbol = match.group()
        if depth > 0:
            depth += {"{": 1, "}": -1}.get(symbol, 0)
            if depth == 0 and name:
                yield Function(name, first_line, line_at(match.start()))
                name, start = None, match.end()
            continue
        declaration = text[start : match.start()]
        if symbol == "{" and _is_initializer(declaration):
            depth = 1
            continue
        signature_at = _BEFORE_SIGNATURE.match(declaration).end()
        found = re.search(r"([\w:~]+)\s*\(", declaration)
        if symbol == "{" and found and not _SCOPE.match(declaration, signature_at):
            name, depth = found.group(1), 1
            first_line = line_at(start + signature_at)
        start = match.end()


def _is_initializer(declaration):
    """Whether a brace after this text opens an initializer rather than a body: in a parameter list,
    after `=`, or directly after a name. A body's brace follows a space."""
    return (
        declaration.count("(") > declaration.count(")")
        or declaration.rstrip().endswith("=")
        or re.search(r"[\w>\]]$", declaration) is not None
    )
