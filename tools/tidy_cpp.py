# SPDX-License-Identifier: Apache-2.0
"""The rules of tidy.py for C++: sizes, shape, and constructs restricted to some folders. Each rule
is a function from the tree to findings."""

import datetime
import re

import tidy_text

MAX_COLUMNS = 100
MAX_FILE_LINES = 800
MAX_UNEXPLAINED_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

# Folders whose files end up in the library or the command line tool.
SHIPPED = ("include", "src")


def line_length(tree):
    """Lines of code have at most 100 columns. Documents and data may have more."""
    for file in tree.files:
        is_data = file.path.startswith("tests/golden/") and file.path.endswith(".txt")
        if is_data or file.path.endswith((".md", ".json", ".html", ".yml")):
            continue
        for number, line in enumerate(file.lines, start=1):
            if len(line) > MAX_COLUMNS:
                yield file.finding(number, f"{len(line)} columns (at most {MAX_COLUMNS})")


def file_length(tree):
    """A file has at most 800 lines. Above 400, its head says "The file is long because ..."."""
    for file in tree.cpp() + tree.with_suffix(".py"):
        count = len(file.lines)
        if file.lines and "SPDX-License-Identifier" in file.lines[0]:
            count -= 2  # the licence and the line below it
        if count > MAX_FILE_LINES:
            yield file.finding(1, f"{count} lines (at most {MAX_FILE_LINES}): split it")
        elif count > MAX_UNEXPLAINED_FILE_LINES and not any(
                "long because" in line.lower() for line in file.lines[:12]):
            yield file.finding(
                1, f"{count} lines: above {MAX_UNEXPLAINED_FILE_LINES} the head comment says why,"
                ' with "The file is long because ..."')


def function_length(tree):
    """A function has at most 60 lines, from its signature to its last brace."""
    for file in tree.cpp():
        for function in tidy_text.functions(file):
            if function.line_count > MAX_FUNCTION_LINES:
                yield file.finding(
                    function.first_line, f"{function.name} has {function.line_count} lines"
                    f" (at most {MAX_FUNCTION_LINES}): extract functions")


LICENSE_TAG = "SPDX-License-Identifier: Apache-2.0"


def license_tag(tree):
    """Every source file names its licence in its first line, or in the line below `#!`."""
    for file in tree.cpp() + tree.with_suffix(".py") + tree.with_suffix(".ts") \
            + tree.with_suffix(".tsx"):
        if file.text.strip() and not any(LICENSE_TAG in line for line in file.lines[:2]):
            yield file.finding(1, f"no licence (expected in the first line: {LICENSE_TAG})")


def head_comment(tree):
    """Every C++ file starts with a comment that says what it provides, below its licence."""
    for file in tree.cpp():
        text = [line for line in file.head.split("\n") if line.strip("/ ")
                and LICENSE_TAG not in line]
        if not text:
            yield file.finding(1, "no head comment (expected: what the file provides, in `//`"
                               " lines)")


def pragma_once(tree):
    """Every header is guarded by `#pragma once`."""
    for file in tree.with_suffix(".h"):
        if not any(line.strip() == "#pragma once" for line in file.code):
            yield file.finding(1, "no `#pragma once`")


def macros(tree):
    """Macros are called ASHLAR_*, except where a standard names them."""
    for file in tree.cpp():
        if file.is_in(*tree.home_of("macros")):
            continue
        for number, match in file.find(r"^\s*#\s*define\s+(?!ASHLAR_)(\w+)"):
            yield file.finding(number, f"macro {match.group(1)} (expected: a function or constant,"
                               " or ASHLAR_...)")


def _outside_home(tree, thing, pattern, message):
    """Yields findings for `pattern` in shipped code outside the folders that may use `thing`."""
    for file in tree.cpp(*SHIPPED):
        if file.is_in(*tree.home_of(thing)):
            continue
        for number, match in file.find(pattern):
            yield file.finding(number, f"`{match.group().strip()}`: {message}")


def environment(tree):
    """Only src/config reads the environment; other code receives options."""
    return _outside_home(tree, "environment", r"\b(secure_getenv|getenv|setenv|putenv|environ)\b",
                         "only src/config reads the environment")


def printing(tree):
    """The library prints nothing; the command line tool does."""
    return _outside_home(
        tree, "printing",
        r"\bstd::(cout|cerr|clog)\b|\b(v?f?printf|f?puts|putchar|perror)\s*(?=\()",
        "the library prints nothing (expected: return a Status)")


def exceptions(tree):
    """Nothing below the public API throws."""
    return _outside_home(tree, "exceptions", r"\bthrow\b",
                         "nothing below the public API throws (expected: return a Status)")


def new_and_delete(tree):
    """A value or a smart pointer owns. `new` is allowed in the expression that constructs a smart
    pointer, for classes with a private constructor."""
    for file in tree.cpp(*SHIPPED):
        if file.is_in(*tree.home_of("new_and_delete")):
            continue
        for number, match in file.find(r"(?<!operator )(?:\bnew\b|(?<!= )\bdelete\b)"):
            if file.code[number - 1].lstrip().startswith("#include"):
                continue
            before = " ".join(file.code[max(0, number - 2) : number - 1])
            before += file.code[number - 1][: match.start()]
            if match.group() == "new" and re.search(_MAKES_POINTER, before):
                continue
            yield file.finding(number, f"`{match.group()}` (expected: a value or"
                               " std::make_unique)")


_MAKES_POINTER = r"\b(unique|shared)_ptr<[^;]*>\s*\w*\(\s*$"


def to_do(tree):
    """A to-do comment names its issue."""
    marks = "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"])
    for file in tree.files:
        for number, match in file.find(rf"\b({marks})\b(?!\(#\d+\))", file.lines):
            yield file.finding(number, f"{match.group()} without an issue (expected:"
                               f" {match.group()}(#123): ...)")


def commented_out_code(tree):
    """Comments are sentences; old code is in the version history."""
    code = re.compile(
        r"^\s*//\s*(?:(?:return|if|for|while|delete|using|auto|const)\b.*[;{]"
        r"|[\w:.>-]+\([^)]*\);|[\w.>*\[\]-]+ [+-]?= .*;|[{}])\s*$")
    for file in tree.cpp():
        for number, line in enumerate(file.comments, start=1):
            if code.match(line):
                yield file.finding(number, f"commented-out code: {line.strip()}")


# First words of the names of functions with side effects.
_ACTION_VERBS = frozenset("""
    acquire add advance allocate assign begin clear close collect commit create destroy do
    emplace end erase exchange export fetch fill free grow import insert launch lock map merge
    move notify open pop push put record release remove reserve reset resize restore run set
    signal sleep split start step stop store swap take trim try unlock unmap update wait write
""".split())
# Last words that make a name with such a verb a getter, such as free_bytes() and lock_count().
_NOUNS = ("bytes", "count", "id", "index", "size", "range", "address")


def side_effects_in_checks(tree):
    """A check must not have side effects, because ASHLAR_DCHECK may be compiled out."""
    for file in tree.cpp(*SHIPPED):
        text = "\n".join(file.code)
        for match in re.finditer(r"(?<!define )\bASHLAR_D?CHECK\(", text):
            condition = _in_parentheses(text, match.end())
            effect = _side_effect(condition)
            if effect:
                yield file.finding(
                    text.count("\n", 0, match.start()) + 1,
                    f"`{effect}` inside a check (expected: do it first, then check the result)")


def _in_parentheses(text, start):
    depth = 1
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return text[start:position]
    return text[start:]


def _side_effect(condition):
    """Returns the first expression in the condition that looks like a side effect, or empty."""
    operator = re.search(r"\+\+|--|(?<![=!<>])=(?!=)", re.sub(r"\[=\]", "", condition))
    if operator:
        return operator.group()
    for match in re.finditer(r"(\w+)\s*\(", condition):
        words = match.group(1).split("_")
        is_container_end = words in (["begin"], ["end"])
        if words[0] in _ACTION_VERBS and words[-1] not in _NOUNS and not is_container_end:
            return match.group(1) + "()"
    return ""


def for_testing(tree):
    """Only tests call functions named *_for_testing."""
    for file in tree.cpp(*SHIPPED):
        for number, match in file.find(r"(?:\.|->|^\s*|\breturn )(\w+_for_testing)\s*\("):
            yield file.finding(number, f"{match.group(1)} is called outside tests/")


def disabled_tests(tree, today=None):
    """A disabled test names an issue and an expiry date."""
    today = today or datetime.date.today()
    for file in tree.cpp("tests"):
        for number, match in file.find(r"\bDISABLED_\w+"):
            reason = " ".join(file.lines[max(0, number - 4) : number])
            issue = re.search(r"#\d+", reason)
            expiry = re.search(r"expires (\d{4}-\d{2}-\d{2})", reason)
            if not issue or not expiry:
                yield file.finding(number, f"{match.group()} (expected above it: `// #123, expires"
                                   " 2031-12-31: why`)")
            elif datetime.date.fromisoformat(expiry.group(1)) < today:
                yield file.finding(number, f"{match.group()} expired on {expiry.group(1)}")


RULES = [
    line_length, file_length, function_length, license_tag, head_comment, pragma_once, macros,
    environment, printing, exceptions, new_and_delete, to_do, commented_out_code,
    side_effects_in_checks, for_testing, disabled_tests,
]
