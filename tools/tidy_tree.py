# SPDX-License-Identifier: Apache-2.0
"""The rules of tidy.py for the tree: layers, lists of sources, and references in documents. Each
rule is a function from the tree to findings."""

import fnmatch
import posixpath
import re

from tidy_text import SOURCE_SUFFIXES, Finding

INCLUDE = r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)'
# Standard headers allowed in C files.
C_STANDARD = ("complex.h", "stdatomic.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h",
              "string.h")
# Paths below these folders, named in documents and comments, must exist.
OUR_FOLDERS = (
    "benchmarks|cmake|docs|examples|include|python|scripts|src|tests|tools|viewer")


def _includes(file):
    """Yields (line number, name, is quoted) for each include. Names are string literals, which are
    blanked in `code`, so they are read from the raw lines."""
    for number, line in enumerate(file.lines, start=1):
        match = re.match(INCLUDE, line)
        if match and file.code[number - 1].lstrip().startswith("#"):
            yield number, match.group(1) or match.group(2), match.group(1) is not None


def _resolve(tree, file, name):
    """Returns the path of the included file; None if it is not part of the project."""
    here = posixpath.dirname(file.path)
    for folder in ("src", "include", "tests", here):
        path = posixpath.normpath(posixpath.join(folder, name))
        if path in tree.by_path:
            return path
    return None


def _folder_of(tree, path):
    """Returns the deepest folder of the table that contains the path; None if none does."""
    folders = [f for f in tree.table["folders"] if path.startswith(f + "/")]
    return max(folders, key=len, default=None)


def _allowed_folders(tree, folder):
    """Returns the folders whose files `folder` may include; the first is `folder` itself."""
    order = list(tree.table["folders"])
    listed = tree.table["folders"][folder]
    above = order[: order.index(folder)]
    return [folder, "include/ashlar"] + (above if listed == ["*"] else listed)


def layer_table(tree):
    """The table has an entry for every source folder, and no upward or circular entry. In src/, the
    entry of a folder does not cover its sub-folders."""
    seen = []
    for folder, listed in tree.table["folders"].items():
        for other in listed:
            if other != "*" and other not in seen:
                yield _table_finding(f"{folder} lists {other}, which is not above it in the table")
        seen.append(folder)
    missing = {posixpath.dirname(f.path) for f in tree.cpp("include", "examples", "tests")
               if not _folder_of(tree, f.path)}
    missing |= {posixpath.dirname(path) for path in tree.paths
                if path.startswith("src/") and path.endswith(SOURCE_SUFFIXES)} - set(seen)
    for folder in sorted(missing):
        yield _table_finding(f"{folder} has no line in [folders]")


def _table_finding(message):
    return Finding("tools/layers.toml", 1, message)


def layers(tree):
    """A folder includes its own files and those of the folders listed for it. Restricted public
    headers list the folders that may include them."""
    for file in tree.cpp():
        folder = _folder_of(tree, file.path)
        if not folder:
            continue
        for number, name, quoted in _includes(file):
            path = _resolve(tree, file, name)
            if path is None:
                if quoted:
                    yield file.finding(number, f'"{name}" is not a file of this project'
                                       " (libraries: <...>)")
                continue
            if _folder_of(tree, path) not in _allowed_folders(tree, folder):
                yield file.finding(
                    number, f"{folder} includes {path} (allowed:"
                    f" {', '.join(_allowed_folders(tree, folder))}; see tools/layers.toml)")
            users = tree.table["restricted_headers"].get(path)
            if users and path != file.path and not file.is_in(*users):
                yield file.finding(number, f"{folder} includes {path}, which is restricted to"
                                   f" {', '.join(users)}")


def libraries(tree):
    """The core includes the standard library and system headers only; every other library is
    restricted to some folders. Public headers include the standard library only."""
    system = tuple(tree.table["system"]["headers"])
    for file in tree.cpp():
        for number, name, quoted in _includes(file):
            if quoted or _resolve(tree, file, name) or re.fullmatch(r"[a-z_0-9]+", name):
                continue
            is_c = file.path.endswith(".c") or file.is_in(*tree.home_of("c"))
            if is_c and name in C_STANDARD:
                continue
            homes = [homes for prefix, homes in tree.table["libraries"].items()
                     if name.startswith(prefix)]
            if homes and not file.is_in(*homes[0]):
                yield file.finding(number, f"<{name}> belongs to {', '.join(homes[0])}")
            elif not homes and not name.startswith(system):
                yield file.finding(number, f"<{name}> is neither a standard nor a system header"
                                   " nor a library of tools/layers.toml")
            elif not homes and file.is_in("include"):
                yield file.finding(number, f"<{name}>: public headers include the standard library"
                                   " only")


def listed_in_cmake(tree):
    """Every source and every public header is listed in a CMakeLists.txt."""
    for file in tree.cpp("src", "tests", "examples", "include"):
        if not file.is_in("include") and file.path.endswith(".h"):
            continue
        lists = tree.with_suffix("CMakeLists.txt", ".cmake")
        if not any(_lists(list_file, file.path) for list_file in lists):
            yield file.finding(1, "not listed in any CMakeLists.txt")


def _lists(list_file, path):
    folder = posixpath.dirname(list_file.path)
    names = {path, posixpath.relpath(path, folder or ".")}
    return any(re.search(rf"(?<![\w./]){re.escape(name)}\b|\}}/{re.escape(name)}\b", list_file.text)
               for name in names)


def links(tree):
    """Relative links in documents lead to existing files."""
    for file in tree.with_suffix(".md"):
        for number, match in file.find(r"\]\(([^)\s]+)\)", file.lines):
            target = match.group(1).split("#")[0]
            if not target or re.match(r"[a-z]+:", target):
                continue
            path = posixpath.normpath(posixpath.join(posixpath.dirname(file.path), target))
            if path not in tree.paths:
                yield file.finding(number, f"link to {target}, which does not exist")


def paths_named(tree):
    """Paths named in documents (in backticks) and in comments exist. The changelog may name deleted
    files."""
    path = rf"(?:\./)?(?P<path>(?:{OUR_FOLDERS})/[\w./*{{}},<>-]*)"
    for file in tree.with_suffix(".md") + tree.cpp():
        if file.path == "CHANGELOG.md":
            continue
        places = (file.find(rf"\b{path}", file.comments) if file.is_cpp
                  else file.find(rf"`{path}", file.lines))
        for number, match in places:
            named = match.group("path").rstrip("./,")
            if "<" not in named and not _exists(tree, named):
                yield file.finding(number, f"names {named}, which does not exist")


def _exists(tree, named):
    return all(any(fnmatch.fnmatch(path, choice) for path in tree.paths)
               if "*" in choice else choice in tree.paths for choice in _choices(named))


def _choices(named):
    """Expands `a/{b,c}.h` to a/b.h and a/c.h."""
    match = re.search(r"\{([^{}]*)\}", named)
    if not match:
        return [named]
    return [choice for word in match.group(1).split(",")
            for choice in _choices(named[: match.start()] + word + named[match.end() :])]


def quoted_files(tree):
    """A code block after `<!-- quoted from PATH -->` equals that file without its head comment;
    after `<!-- quoted from PATH, excerpt -->`, it equals some consecutive lines of the file."""
    for file in tree.with_suffix(".md"):
        pattern = r"<!-- quoted from (\S+?)(, excerpt)? -->\n```\w*\n(.*?)```"
        for match in re.finditer(pattern, file.text, re.DOTALL):
            number = file.text.count("\n", 0, match.start()) + 1
            path, is_excerpt, quoted = match.groups()
            source = tree.by_path.get(path)
            if source is None:
                yield file.finding(number, f"quotes {path}, which does not exist")
            elif not (_is_excerpt(quoted, source.text) if is_excerpt
                      else quoted.strip() == source.text[len(source.head) :].strip()):
                yield file.finding(number, f"the quoted code differs from {source.path}")


def _is_excerpt(quoted, text):
    """Returns whether the lines occur consecutively in the text, at any common indentation."""
    lines = quoted.strip("\n").split("\n")
    indent = re.search(r"^( *)" + re.escape(lines[0]) + "$", text, re.MULTILINE)
    if not indent or not lines[0]:
        return False
    indented = "\n".join(indent.group(1) + line if line else "" for line in lines)
    return f"\n{indented}\n" in f"\n{text}\n"


def machine_paths(tree):
    """No file names an absolute path of one machine."""
    for file in tree.files:
        for number, match in file.find(r"(?<![\w.>}*-])/(?:home|root|work|Users)/[\w.]+",
                                       file.lines):
            yield file.finding(number, f"{match.group()}: a path on one machine")


# Each word is spelled in two parts, because the rule also reads this file.
_VAGUE = "|".join([r"\bwho" r"ever\b", r"\bno" r"body\b", r"\bsome" r"body\b",
                   r"\bthe" r"re:(?!:)"])


def vague_words(tree):
    """Text names the caller, the owner or the component. Four words that hide it are forbidden."""
    for file in tree.files:
        for number, match in file.find(rf"(?i){_VAGUE}", file.lines):
            yield file.finding(number, f"`{match.group()}` (expected: the name of the caller, the"
                               " owner or the component)")


RULES = [
    layer_table, layers, libraries, listed_in_cmake, links, paths_named, quoted_files,
    machine_paths, vague_words,
]
