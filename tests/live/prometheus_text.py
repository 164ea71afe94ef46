# SPDX-License-Identifier: Apache-2.0
"""A strict parser of the Prometheus text format 0.0.4. In addition to the grammar, it checks the
conventions for names that `promtool check metrics` checks."""

import re

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
METADATA = re.compile(r"# (HELP|TYPE) ([a-z][a-z0-9_]*) (.*)")
HELP_TEXT = re.compile(r"(?:[^\\\n]|\\\\|\\n)+")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?|Inf|NaN)")
OTHER_UNITS = {"kilobytes", "megabytes", "gigabytes", "kib", "mib", "gib", "kb", "mb", "gb",
               "bits", "milliseconds", "microseconds", "nanoseconds", "minutes", "hours", "days",
               "ms", "us", "ns", "percent"}


class Family:
    def __init__(self, name):
        self.name = name
        self.help = None
        self.type = None
        self.samples = []  # (labels, value)


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def unescaped(value):
    return re.sub(r"\\(.)", lambda match: {"n": "\n"}.get(match[1], match[1]), value)


def parse_labels(text, line):
    labels = {}
    while text:
        match = LABEL.match(text)
        expect(match, f"malformed label: {line}")
        expect(match[1] not in labels, f"label {match[1]} is repeated: {line}")
        expect(not match[1].startswith("__"), f"label {match[1]} is reserved: {line}")
        labels[match[1]] = unescaped(match[2])
        text = text[match.end():]
        expect(not text or (text[0] == "," and len(text) > 1), f"malformed labels: {line}")
        text = text[1:]
    return labels


def parse_sample(line):
    name = NAME.match(line)
    expect(name, f"no metric name: {line}")
    rest = line[name.end():]
    labels = {}
    if rest.startswith("{"):
        # The last brace closes the labels, because a value is a number and has no brace.
        end = rest.rindex("}")
        labels = parse_labels(rest[1:end], line)
        rest = rest[end + 1:]
    expect(rest.startswith(" ") and NUMBER.fullmatch(rest[1:]), f"malformed value: {line}")
    return name[0], labels, float(rest[1:])


def check_name(family):
    words = family.name.split("_")
    kinds = {"gauge", "counter", "histogram", "summary"}
    expect(not kinds & set(words), f"{family.name} contains a type")
    expect(not OTHER_UNITS & set(words), f"{family.name} is not in base units")
    expect(words[-1] not in ("count", "sum", "bucket"), f"{family.name} looks like a histogram")
    expect((words[-1] == "total") == (family.type == "counter"),
           f"{family.name} is a {family.type}: names of counters, and only those, end in _total")


def check(family):
    expect(family.type in ("counter", "gauge"), f"{family.name} has the type {family.type}")
    expect(family.help, f"{family.name} has no help text")
    check_name(family)
    series = [tuple(sorted(labels.items())) for labels, _ in family.samples]
    expect(len(series) == len(set(series)), f"{family.name} repeats a series")
    for labels, value in family.samples:
        expect(family.type != "counter" or value >= 0, f"{family.name} is negative: {labels}")


def parse(text):
    """Returns the metrics by name. Raises AssertionError for the first violation."""
    expect(text.endswith("\n") and "\r" not in text, "lines end with a line feed")
    families = {}
    current = None
    for line in text[:-1].split("\n"):
        if line.startswith("#"):
            match = METADATA.fullmatch(line)
            expect(match, f"neither HELP nor TYPE: {line}")
            kind, name, value = match.groups()
            if current is None or current.name != name:
                expect(name not in families, f"the lines of {name} are not adjacent")
                current = families[name] = Family(name)
            expect(getattr(current, kind.lower()) is None, f"{kind} of {name} is repeated")
            expect(not current.samples, f"{kind} of {name} follows its samples")
            expect(kind == "TYPE" or HELP_TEXT.fullmatch(value), f"malformed help text: {line}")
            setattr(current, kind.lower(), value)
        else:
            name, labels, value = parse_sample(line)
            expect(current is not None and current.name == name,
                   f"the sample is not below the metadata of its metric: {line}")
            current.samples.append((labels, value))
    for family in families.values():
        check(family)
    return families
