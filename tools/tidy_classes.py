# SPDX-License-Identifier: Apache-2.0
"""The rules of tidy.py for the size of classes and folders. Classes are found by matching brackets,
which is reliable for code formatted by clang-format: a space precedes the brace of a function body,
and none precedes the brace of an initializer.

  tools/tidy_classes.py [COUNT]    prints the largest classes with their members (default: 10)"""

import collections
import dataclasses
import posixpath
import re
import sys

import tidy_text

MAX_PRIVATE_FUNCTIONS = 40
MAX_FIELDS = 20
MAX_IMPLEMENTATION_FILES = 3
MAX_FOLDER_FILES = 40


@dataclasses.dataclass
class ClassDefinition:
    """A class, struct or union. `name` includes the names of the enclosing classes."""

    name: str
    line: int
    private_functions: list
    fields: list


_KEYWORD = re.compile(r"(?<![\w.])(class|struct|union)\b")
_ACCESS = re.compile(r"\s*(public|protected|private)\s*:(?!:)")
_ATTRIBUTE = re.compile(r"\s*(\[\[.*?\]\]|(ASHLAR_\w+|alignas|__\w+__)(?=\W))", re.DOTALL)
_POINTER = r"(?:\w+::)*[*&]"
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def classes(file):
    """Yields the class definitions of a C++ file. Nested and local classes are definitions of their
    own; the members of an anonymous struct or union belong to the class around it."""
    text = _code_without_directives(file)
    enclosing = []  # (name, end)
    for match in _KEYWORD.finditer(text):
        if re.search(r"\benum\s+$", text[: match.start()]):
            continue
        name, opening = _head(text, match.end())
        if not name:
            continue
        while enclosing and enclosing[-1][1] < match.start():
            enclosing.pop()
        end = _skip(text, opening)
        qualified = "::".join([outer for outer, _ in enclosing] + [name])
        enclosing.append((name, end))
        line = text.count("\n", 0, match.start()) + 1
        access = "private" if match.group(1) == "class" else "public"
        yield _describe(qualified, line, text[opening + 1 : end - 1], access)


def _code_without_directives(file):
    text = "\n".join(file.code)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
                  lambda match: re.sub(r"[^\n]", " ", match.group()), text, flags=re.MULTILINE)


def _skip(text, position):
    """Returns the position after the bracket that closes the bracket at `position`."""
    depth = 0
    for match in re.compile(r"[()\[\]{}]").finditer(text, position):
        depth += 1 if match.group() in _PAIRS else -1
        if depth == 0:
            return match.end()
    return len(text)


def _skip_template(text, position):
    """Returns the position after the template arguments at `position`; `position` if there are
    none."""
    depth, at = 0, position
    while at < len(text):
        if text[at] in _PAIRS:
            at = _skip(text, at)
            continue
        if text.startswith("<<", at) and depth > 0:  # a shift operator
            at += 2
            continue
        if text[at] == "<":
            depth += 1
        elif text[at] == ">" and text[at - 1] not in "-=":
            depth -= 1
            if depth == 0:
                return at + 1
        elif text[at] in ";)]}":
            break
        at += 1
    return position


def _head(text, position):
    """Returns the name of the class whose head continues at `position`, and the position of its
    opening brace. The name is None if this is not a definition or the class is anonymous."""
    position = _skip_attributes(text, position)
    name = re.compile(r"\s*((?:\w+\s*::\s*)*\w+)").match(text, position)
    if not name or name.group(1) == "final":
        return None, 0
    position = name.end()
    if text[position : position + 1] == "<":  # a template specialization
        position = _skip_template(text, position)
    rest = re.compile(r"(?:\s+final\b)?\s*(?::(?!:)[^;{]*)?\{").match(text, position)
    return (name.group(1), rest.end() - 1) if rest else (None, 0)


def _skip_attributes(text, position):
    while attribute := _ATTRIBUTE.match(text, position):
        position = attribute.end()
        if text[position : position + 1] == "(":
            position = _skip(text, position)
    return position


def _describe(name, line, body, access):
    found = ClassDefinition(name, line, [], [])
    for access_of_member, kind, member in _members(body, access):
        if kind == "field":
            found.fields.append(member)
        elif access_of_member == "private":
            found.private_functions.append(member)
    return found


def _members(body, access):
    """Yields (access, "function" or "field", name) for each member, except static data and
    types."""
    position = 0
    while position < len(body):
        if label := _ACCESS.match(body, position):
            access, position = label.group(1), label.end()
            continue
        declaration, inner, position = _declaration(body, position)
        if inner is not None:
            for _, kind, member in _members(inner, "public"):
                yield access, kind, member
        for kind, member in _declared(declaration):
            yield access, kind, member


def _declaration(body, position):
    """Returns the declaration at `position` without function bodies, initializers in braces,
    annotations and template arguments; the body of an anonymous struct or union, if it is one; and
    the position after it."""
    text, inner = "", None
    while position < len(body):
        after = _skip_attributes(body, position)
        if after > position:
            text, position = text + " ", after
            continue
        symbol = body[position]
        if symbol == ";":
            is_anonymous = text.rstrip().endswith("{}")
            return text, inner if is_anonymous else None, position + 1
        if symbol == "<" and not text.rstrip().endswith("operator"):
            after = _skip_template(body, position)
            position = max(after, position + 1)
            continue
        if symbol == "{":
            after = _skip(body, position)
            if re.fullmatch(r"\s*(struct|union)\s*", text):
                inner = body[position + 1 : after - 1]
            elif _is_function(text) and text[-1:].isspace() and not text.rstrip().endswith("="):
                return text, None, after
            text, position = text + "{}", after
            continue
        if symbol in _PAIRS:
            after = _skip(body, position)
            text, position = text + body[position:after], after
            continue
        text, position = text + symbol, position + 1
    return text, inner, position


_TYPE = (r"\s*(?:(?:template|static|mutable|const|inline|volatile)\b\s*)*"
         r"(?:class|struct|union|enum)\b")


def _is_function(declaration):
    """Returns whether the declaration has a parameter list, ignoring those of function pointers."""
    if re.match(_TYPE + r"[^(]*\{\}", declaration):
        return False
    head = re.split(r"(?<!operator)(?<![=!<>])=(?!=)", declaration)[0]
    return re.search(rf"(?:[\w~]|\boperator\W{{1,3}})\s*\((?!\s*{_POINTER})", head) is not None


def _declared(declaration):
    """Yields ("function" or "field", name) for each member that the declaration declares."""
    text = re.sub(r"^\s*template\b", "", declaration).strip()
    if not text or re.match(r"(using|typedef|friend|static_assert|namespace)\b", text):
        return
    if re.match(r"(enum\s+)?(class|struct|union|enum)\b[^;(]*(\{\}\s*)?$", text) \
            and not re.search(r"\{\}\s*\w|^struct \w+\s*\*?\s+\*?\w+$", text):
        return  # declares a type, but no field of that type
    if _is_function(text):
        name = re.search(r"(operator\s*\(\)|operator[^(]*|~?\w+)\s*\(", text)
        yield "function", name.group(1).strip()
        return
    if re.search(r"^(\w+\s+)*?(static|constexpr)\b", text):
        return
    text = re.sub(r"\{\}(?=\s*\w)", " ", text)  # the body of the field's type
    for declarator in _split(text):
        name = re.search(rf"\(\s*{_POINTER}+\s*(\w+)|(\w+)\s*(?:\[[^\]]*\]\s*)*(?::\s*\w+\s*)?"
                         r"(?:\{\}\s*)?(?:=(?!=).*)?$", declarator, re.DOTALL)
        if name:
            yield "field", name.group(1) or name.group(2)


def _split(declaration):
    """Yields the declarators, which are separated by the commas outside brackets. Commas inside
    initializers are always in brackets."""
    start, position = 0, 0
    while position < len(declaration):
        if declaration[position] in _PAIRS:
            position = _skip(declaration, position)
            continue
        if declaration[position] == ",":
            yield declaration[start:position]
            start = position + 1
        position += 1
    yield declaration[start:]


def class_size(tree):
    """A class in src/ has at most 40 private functions and 20 fields."""
    for file in tree.cpp("src"):
        for each in classes(file):
            functions, fields = len(each.private_functions), len(each.fields)
            if functions > MAX_PRIVATE_FUNCTIONS:
                yield file.finding(each.line, f"{each.name} has {functions} private functions"
                                   f" (at most {MAX_PRIVATE_FUNCTIONS}): split it")
            if fields > MAX_FIELDS:
                yield file.finding(each.line, f"{each.name} has {fields} fields"
                                   f" (at most {MAX_FIELDS}): group those that change together")


def class_files(tree):
    """A class is implemented in at most 3 `.cc` files."""
    definitions = collections.defaultdict(list)  # (file, line) of each definition, keyed by name
    for file in tree.cpp("include", "src"):
        for each in classes(file):
            definitions[each.name].append((file, each.line))
    sources = collections.defaultdict(set)  # paths, keyed by definition
    for file in tree.cpp("src"):
        for name in _implemented(file):
            if place := _nearest(definitions.get(name, []), file):
                sources[place[0].path, place[1], name].add(file.path)
    for (path, line, name), paths in sorted(sources.items()):
        if len(paths) > MAX_IMPLEMENTATION_FILES:
            yield tree.by_path[path].finding(
                line, f"{name} is implemented in {len(paths)} files"
                f" (at most {MAX_IMPLEMENTATION_FILES}): split it")


def _implemented(file):
    """Returns the names of the classes whose functions a `.cc` file defines outside their class."""
    if not file.path.endswith(".cc"):
        return set()
    text = _code_without_directives(file)
    before = None
    while before != text:  # removes template arguments, innermost first; none spans a statement
        before = text
        text = re.sub(r"<[^<>;{}]*>", "", text)
    found = re.finditer(r"^(?!\s)[^;{}()=]*?\b((?:\w+::)+)(?:~?\w+|operator[^;{}]{1,30}?)\s*\(",
                        text, re.MULTILINE)
    return {match.group(1)[:-2] for match in found}


def _nearest(places, file):
    """Returns the definition that `file` most likely implements: its path shares most folders."""
    def shared(place):
        return len(posixpath.commonpath([place[0].path, file.path]))

    return max(places, key=shared, default=None)


def folder_size(tree):
    """A folder of src/ has at most 40 files."""
    counts = collections.Counter(
        posixpath.dirname(path) for path in tree.paths
        if path.startswith("src/") and path.endswith(tidy_text.SOURCE_SUFFIXES))
    for folder, count in sorted(counts.items()):
        if count > MAX_FOLDER_FILES:
            yield tidy_text.Finding(folder, 1, f"{count} files (at most {MAX_FOLDER_FILES}):"
                                    " merge files or make a sub-folder")


RULES = [class_size, class_files, folder_size]


def main():
    import tidy  # which imports this file

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    tree = tidy_text.Tree.read(tidy.ROOT, tidy.read_table())
    found = [(file, each) for file in tree.cpp("src") for each in classes(file)]
    print(f"{len(found)} classes")
    for kind in ("private_functions", "fields"):
        print(f"\nmost {kind.replace('_', ' ')}:")
        largest = sorted(found, key=lambda pair: -len(getattr(pair[1], kind)))[:count]
        for file, each in largest:
            members = getattr(each, kind)
            print(f"  {len(members):3} {each.name} ({file.path}:{each.line}): {' '.join(members)}")


if __name__ == "__main__":
    main()
