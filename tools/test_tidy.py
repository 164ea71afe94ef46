#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tidy.py: every rule reports what it forbids and accepts what it allows.

The file is long because every rule has its test here."""

import datetime
import unittest

import tidy
import tidy_classes
import tidy_cpp
import tidy_text
import tidy_tree

TABLE = {
    "folders": {
        "include/ashlar": [],
        "src/base": [],
        "src/device": ["src/base"],
        "src/config": ["src/base"],
        "src/cli": ["*"],
        "tests": ["*"],
    },
    "restricted_headers": {"include/ashlar/sim.h": ["src/cli", "tests"]},
    "libraries": {"gtest/": ["tests"], "cuda.h": ["src/device"]},
    "system": {"headers": ["unistd.h", "sys/"]},
    "homes": {
        "c": ["include/ashlar/c"],
        "environment": ["src/config"],
        "macros": ["include/ashlar/c"],
        "printing": ["src/cli"],
        "exceptions": ["src/cli"],
        "new_and_delete": ["src/base/intrusive_list.h"],
    },
}


def find(rule, files, table=None, **arguments):
    """Returns the rule's findings in these files as text, one per line."""
    tree = tidy_text.Tree(files, TABLE if table is None else table)
    return "\n".join(str(finding) for finding in rule(tree, **arguments))


class RuleTest(unittest.TestCase):
    def assert_finds(self, rule, path, text, wanted, **arguments):
        self.assertIn(wanted, find(rule, {path: text}, **arguments))

    def assert_clean(self, rule, path, text, **arguments):
        self.assertEqual(find(rule, {path: text}, **arguments), "")


class SplitTest(unittest.TestCase):
    def test_comments_and_literals_are_separated_from_code(self):
        text = """f("// not a comment"); // a comment "with quotes"
int n = 1'000; /* two
lines */ g();"""
        code, comments = tidy_text.split_cpp(text)
        self.assertEqual(len(code), len(text))
        self.assertNotIn("comment", code)
        self.assertIn("1'000", code)
        self.assertIn("g();", code)
        self.assertIn('// a comment "with quotes"', comments)
        self.assertNotIn("not a comment", comments)

    def test_raw_strings_are_literals(self):
        code, _ = tidy_text.split_cpp('auto s = R"x(new " // delete)x"; int after;')
        self.assertNotIn("new", code)
        self.assertIn("int after;", code)


class FunctionTest(unittest.TestCase):
    def names_and_lengths(self, text):
        found = tidy_text.functions(tidy_text.SourceFile("a.cc", text))
        return [(function.name, function.line_count) for function in found]

    def test_functions_are_found_in_namespaces_and_classes(self):
        text = """namespace a {
class Mutex {
 public:
  void lock() { m_.lock(); }
};
int one(int n)
    const {
  if (n) {
    return 2;
  }
  return 1;
}
}  // namespace a
"""
        self.assertEqual(self.names_and_lengths(text), [("lock", 1), ("one", 7)])

    def test_braces_of_values_are_no_bodies(self):
        text = """const int table[] = {
  f(1),
};
void declared(const Options& options = {});
Thing::Thing(int n) : a_{n}, b_{} {
  use(n);
}
#define ASHLAR_X(x) \\
  { x
int last() {
}
"""
        self.assertEqual(self.names_and_lengths(text), [("Thing::Thing", 3), ("last", 2)])


class CppRuleTest(RuleTest):
    def test_line_length(self):
        self.assert_finds(tidy_cpp.line_length, "src/a.cc", "x" * 101, "src/a.cc:1: 101 columns")
        self.assert_clean(tidy_cpp.line_length, "src/a.cc", "x" * 100)
        self.assert_clean(tidy_cpp.line_length, "README.md", "x" * 101)
        self.assert_clean(tidy_cpp.line_length, "tests/golden/cli/leaks.txt", "x" * 101)
        self.assert_finds(tidy_cpp.line_length, "tests/CMakeLists.txt", "x" * 101, "101 columns")

    def test_file_length(self):
        self.assert_finds(tidy_cpp.file_length, "a.cc", "// a\n" * 401, "long because")
        for head in ("// The file is long because so.\n", "// Long because so.\n"):
            self.assert_clean(tidy_cpp.file_length, "a.cc", head + "x\n" * 400)
            self.assert_finds(tidy_cpp.file_length, "a.cc", head + "x\n" * 800, "at most 800")

    def test_function_length(self):
        body = "  step();\n" * 59
        self.assert_finds(
            tidy_cpp.function_length, "a.cc", f"\nint f() {{\n{body}}}\n", "a.cc:2: f has 61 lines")
        self.assert_clean(tidy_cpp.function_length, "a.cc", f"int f() {{\n{body[10:]}}}\n")

    def test_head_comment(self):
        self.assert_finds(tidy_cpp.head_comment, "a.cc", "#include <a>\n", "no head comment")
        self.assert_finds(tidy_cpp.head_comment, "a.cc",
                          f"// {tidy_cpp.LICENSE_TAG}\n//\n#include <a>\n", "no head comment")
        self.assert_clean(tidy_cpp.head_comment, "a.cc", "// Parses options.\n")

    def test_license_tag(self):
        self.assert_finds(tidy_cpp.license_tag, "a.cc", "// Parses options.\n", "no licence")
        self.assert_clean(tidy_cpp.license_tag, "a.cc", f"// {tidy_cpp.LICENSE_TAG}\n")
        self.assert_clean(tidy_cpp.license_tag, "a.py", f"#!python\n# {tidy_cpp.LICENSE_TAG}\n")

    def test_pragma_once(self):
        self.assert_finds(tidy_cpp.pragma_once, "a.h", "// #pragma once\n", "no `#pragma once`")
        self.assert_clean(tidy_cpp.pragma_once, "a.h", "// A.\n#pragma once\n")

    def test_macros(self):
        self.assert_finds(tidy_cpp.macros, "a.h", "#define MAX(a, b) a", "macro MAX")
        self.assert_clean(tidy_cpp.macros, "a.h", "#define ASHLAR_CHECK(c) c")
        self.assert_clean(tidy_cpp.macros, "include/ashlar/c/a.h", "#define MAX(a, b) a")

    def test_environment(self):
        text = 'auto v = std::getenv("HOME");'
        self.assert_finds(tidy_cpp.environment, "src/base/a.cc", text, "only src/config")
        self.assert_clean(tidy_cpp.environment, "src/config/a.cc", text)
        self.assert_clean(tidy_cpp.environment, "src/base/a.cc", "// getenv is for others")

    def test_printing(self):
        for statement in ("std::cout << 1;", "std::cerr << 1;", 'printf("a");',
                          "fputs(a, stderr);"):
            self.assert_finds(tidy_cpp.printing, "src/base/a.cc", statement, "prints nothing")
            self.assert_clean(tidy_cpp.printing, "src/cli/a.cc", statement)
        self.assert_clean(tidy_cpp.printing, "src/base/a.cc", "std::snprintf(a, n, f);")

    def test_exceptions(self):
        self.assert_finds(tidy_cpp.exceptions, "src/base/a.cc", "throw 1;", "return a Status")
        self.assert_clean(tidy_cpp.exceptions, "src/base/a.cc", "// may throw")

    def test_new_and_delete(self):
        rule = tidy_cpp.new_and_delete
        self.assert_finds(rule, "src/base/a.cc", "auto* p = new int;", "`new`")
        self.assert_finds(rule, "src/base/a.cc", "delete p;", "`delete`")
        self.assert_clean(rule, "src/base/intrusive_list.h", "delete p;")
        self.assert_clean(rule, "src/base/a.cc", "A(const A&) = delete;")
        self.assert_clean(rule, "src/base/a.cc", "return std::unique_ptr<A>(\n    new A(1));")

    def test_to_do(self):
        mark = "TO" + "DO"
        self.assert_finds(tidy_cpp.to_do, "src/a.cc", f"// {mark}: later", "without an issue")
        self.assert_clean(tidy_cpp.to_do, "src/a.cc", f"// {mark}(#12): later")

    def test_commented_out_code(self):
        for line in ("// return x;", "//  queue.push(x);", "// count_ += 1;", "// if (x) {"):
            self.assert_finds(tidy_cpp.commented_out_code, "a.cc", line, "commented-out code")
        for line in ("// Sizes are bytes;", "// It is (x) or (y);", "int a = 1;  // a count"):
            self.assert_clean(tidy_cpp.commented_out_code, "a.cc", line)

    def test_side_effects_in_checks(self):
        rule = tidy_cpp.side_effects_in_checks
        for condition in ("n++ < 3", "n = 3", "do_it()", "map_.erase(\n    key) == 1", "take()"):
            self.assert_finds(rule, "src/a.cc", f"ASHLAR_DCHECK({condition});", "inside a check")
        for condition in ("n <= 3", "a == b && is_free(c)", "it != map_.end()", "free_bytes() > 0"):
            self.assert_clean(rule, "src/a.cc", f"ASHLAR_CHECK({condition});")

    def test_for_testing(self):
        rule = tidy_cpp.for_testing
        self.assert_finds(rule, "src/base/a.cc", "  a.count_for_testing();", "outside tests/")
        self.assert_clean(rule, "src/base/a.h", "  int count_for_testing() const;")
        self.assert_clean(rule, "tests/a.cc", "  a.count_for_testing();")

    def test_disabled_tests(self):
        def check(comment):
            text = f"{comment}\nTEST(A, DISABLED_Works) {{}}\n"
            return find(tidy_cpp.disabled_tests, {"tests/a.cc": text},
                        today=datetime.date(2030, 6, 1))

        self.assertIn("expected above it", check("// some day"))
        self.assertIn("expired on 2030-05-31", check("// #7, expires 2030-05-31: flaky"))
        self.assertEqual(check("// #7, expires 2030-06-01: flaky"), "")


class ClassTest(unittest.TestCase):
    """Tests tidy_classes.classes on C++ of every shape that the project uses."""

    def describe(self, text):
        found = tidy_classes.classes(tidy_text.SourceFile("src/a.h", text))
        return {each.name: (each.private_functions, each.fields) for each in found}

    def test_definitions_are_found_and_other_uses_are_not(self):
        text = """
enum class Color { kRed };
enum struct Shape : int { kRound };
struct Declared;
using Tag = struct TagType*;
template <class T, class U = Other<int>> class Plain final : public Base<T(int)>, Other {};
template <> struct std::hash<Id<int>> { int x; };
struct alignas(64) Aligned {};
class ASHLAR_CAPABILITY("mutex") [[nodiscard]] Annotated {};
struct Outer::Impl { int y; };
void f(struct Declared* d) { struct Local { int z; }; }
"""
        self.assertEqual(list(self.describe(text)), [
            "Plain", "std::hash", "Aligned", "Annotated", "Outer::Impl", "Local"])

    def test_private_functions_are_counted(self):
        text = """class A : B {
  int implicit();
 public:
  A() : a_{1}, b_{2} {}
  ~A();
 private:
  explicit A(int n) : a_{n}, b_(n) { f(); }
  template <typename T, size_t n = (1 << 3)>
  bool one(T* t = {}) const ASHLAR_REQUIRES(mutex_) { return t < n; }
#if ASHLAR_X
  [[nodiscard]] static int two() noexcept(true) { if (a) { b(); } return 1; }
#endif
  std::function<void(int)> three(int (*f)(int));
  bool operator==(const A&) const = default;
  auto operator<=>(const A&) const = default;
  bool operator()(int a) const;
  explicit operator bool() const { return true; }
  friend bool g(A& a) { return true; }
  using Function = void (*)(int);
  ASHLAR_NO_COPY(A);
  int a_ = h(1);
 protected:
  int four();
};"""
        functions, fields = self.describe(text)["A"]
        self.assertEqual(functions, [
            "implicit", "A", "one", "two", "three", "operator==", "operator<=>", "operator()",
            "operator bool"])
        self.assertEqual(fields, ["a_"])

    def test_fields_are_counted(self):
        text = """struct A {
  int a = 0, b{1};
  std::map<int, std::vector<int>> c ASHLAR_GUARDED_BY(mutex);
  std::array<std::atomic<int*>, size_t{1} << kBits> d{};
  void (*e)(int, int) = nullptr;
  bool (A::*f)() = nullptr;
  unsigned g : 31 = 0;
  char h[16][2] = {};
  const std::function<int(int)> i = [](int n) { return n; };
  mutable std::mutex j;
  union { int k; float l; };
  struct Inner { int x; int y; };
  Inner m{.x = 1, .y = 2};
  enum class Kind { kOne, kTwo } n = Kind::kOne;
  struct { int z; } o;
  alignas(64) std::atomic<int> p{0};
  Table q = {{1, f(2)}, {3, 4}};
  static constexpr int kBits = 6;
  static inline std::vector<int> shared{};
  int function() const { return a < b; }
};"""
        found = self.describe(text)
        self.assertEqual(found["A"], ([], list("abcdefghijklmnopq")))
        self.assertEqual(found["A::Inner"], ([], ["x", "y"]))


class ClassRuleTest(RuleTest):
    def test_class_size(self):
        def class_with(functions, fields):
            members = "".join(f"  void f{i}();\n" for i in range(functions))
            members += "".join(f"  int field{i}_ = 0;\n" for i in range(fields))
            return f"\nclass Big {{\n{members}}};\n"

        rule = tidy_classes.class_size
        self.assert_clean(rule, "src/a.h", class_with(40, 20))
        self.assert_finds(rule, "src/a.h", class_with(41, 0), "a.h:2: Big has 41 private functions")
        self.assert_finds(rule, "src/a.cc", class_with(0, 21), "a.cc:2: Big has 21 fields")
        self.assert_clean(rule, "tests/a.h", class_with(41, 21))

    def test_class_files(self):
        definitions = ["void A::f() {}", "A::A(int n)\n    : n_(n) {}", "A::~A() = default;",
                       "bool A::operator==(const A& other) const {}"]

        def check(count, folder="src/base", header="src/base/a.h"):
            sources = {f"{folder}/{i}.cc": definitions[i] for i in range(count)}
            return find(tidy_classes.class_files, {
                header: "class A {\n};", "src/base/other.cc": "int n = A::kMax;\nA g(A::B b) {}",
                **sources})

        self.assertEqual(check(3), "")
        self.assertIn("src/base/a.h:1: A is implemented in 4 files", check(4))
        self.assertIn("A is implemented in 4 files", check(4, header="include/ashlar/a.h"))
        inner = {"src/a.h": "class A { class In {}; };", "src/b.h": "class B { class In {}; };"}
        sources = {f"src/{i}.cc": f"Map<int, {name}> {name}::In::f() {{}}"
                   for i, name in enumerate("AABB")}
        self.assertEqual(find(tidy_classes.class_files, {**inner, **sources}), "")

    def test_folder_size(self):
        def check(count, folder="src/base", suffix=".h"):
            files = {f"{folder}/f{i}{suffix}": "" for i in range(count)}
            return find(tidy_classes.folder_size, {**files, f"{folder}/sub/g.h": ""})

        self.assertEqual(check(40), "")
        self.assertIn("src/base:1: 41 files", check(41))
        self.assertEqual(check(41, folder="tests"), "")
        self.assertEqual(check(41, suffix=".md"), "")


class TreeRuleTest(RuleTest):
    def test_layer_table(self):
        upward = dict(TABLE, folders={"src/base": ["src/device"], "src/device": []})
        self.assertIn("src/base lists src/device", find(tidy_tree.layer_table, {}, upward))
        self.assert_finds(tidy_tree.layer_table, "src/attic/a.cc", "", "src/attic has no line")
        self.assert_finds(tidy_tree.layer_table, "src/base/sub/a.h", "", "src/base/sub has no line")
        self.assert_finds(tidy_tree.layer_table, "src/gpu/a.cu", "", "src/gpu has no line")
        for path in ("src/base/a.cc", "tests/unit/a.cc", "include/ashlar/c/a.h", "src/README.md"):
            self.assert_clean(tidy_tree.layer_table, path, "")

    def find_include(self, path, line, rule=tidy_tree.layers):
        others = ("src/base/b.h", "src/device/d.h", "src/config/c.h", "include/ashlar/v.h",
                  "include/ashlar/sim.h", "tests/help/t.h")
        return find(rule, {**{other: "" for other in others}, path: line})

    def test_layers(self):
        cases = [
            ("src/base/a.cc", "device/d.h", "src/base includes src/device/d.h"),
            ("src/device/a.cc", "config/c.h", "src/device includes src/config/c.h"),
            ("src/base/a.cc", "ashlar/sim.h", "which is restricted to src/cli, tests"),
            ("src/base/a.cc", "lost.h", "not a file of this project"),
            ("include/ashlar/a.h", "base/b.h", "include/ashlar includes src/base/b.h"),
        ]
        for path, name, wanted in cases:
            self.assertIn(wanted, self.find_include(path, f'#include "{name}"'))
        for path, name in [("src/device/a.cc", "base/b.h"), ("src/base/a.cc", "ashlar/v.h"),
                           ("src/cli/a.cc", "config/c.h"), ("tests/a.cc", "ashlar/sim.h"),
                           ("tests/a.cc", "help/t.h"), ("src/base/a.cc", "b.h")]:
            self.assertEqual(self.find_include(path, f'#include "{name}"'), "")
        self.assertEqual(self.find_include("src/base/a.cc", '// #include "device/d.h"'), "")

    def test_libraries(self):
        rule = tidy_tree.libraries
        cases = [
            ("src/base/a.cc", "gtest/gtest.h", "belongs to tests"),
            ("src/base/a.cc", "cuda.h", "belongs to src/device"),
            ("src/base/a.cc", "boost/any.hpp", "nor a library"),
            ("include/ashlar/a.h", "unistd.h", "standard library only"),
            ("include/ashlar/a.h", "stdint.h", "neither a standard"),
        ]
        for path, name, wanted in cases:
            self.assertIn(wanted, self.find_include(path, f"#include <{name}>", rule))
        for path, name in [("src/base/a.cc", "vector"), ("src/base/a.cc", "sys/mman.h"),
                           ("tests/a.cc", "gtest/gtest.h"), ("tests/a.cc", "ashlar/v.h"),
                           ("include/ashlar/c/a.h", "stdint.h"), ("tests/c/a.c", "stdio.h")]:
            self.assertEqual(self.find_include(path, f"#include <{name}>", rule), "")

    def test_listed_in_cmake(self):
        def check(path, lists):
            return find(tidy_tree.listed_in_cmake, {path: "", **lists})

        lists = {"src/CMakeLists.txt": "target_sources(x base/a.cc ${ROOT}/include/ashlar/v.h)"}
        self.assertEqual(check("src/base/a.cc", lists), "")
        self.assertEqual(check("include/ashlar/v.h", lists), "")
        self.assertEqual(check("src/base/inner.h", lists), "")
        self.assertIn("not listed", check("src/base/b.cc", lists))
        self.assertIn("not listed", check("src/device/base/a.cc", lists))
        self.assertIn("not listed", check("include/ashlar/w.h", lists))

    def test_links(self):
        self.assert_finds(tidy_tree.links, "docs/a.md", "[b](b.md)", "link to b.md")
        self.assert_finds(tidy_tree.links, "docs/a.md", "[b](../src)", "link to ../src")
        for text in ("[a](a.md#part)", "[x](https://example.org)", "[y](#here)", "[z](../docs)"):
            self.assert_clean(tidy_tree.links, "docs/a.md", text)

    def test_paths_named(self):
        rule = tidy_tree.paths_named
        self.assert_finds(rule, "a.md", "see `src/lost.cc`", "names src/lost.cc")
        self.assert_finds(rule, "a.md", "run `./scripts/lost --now`", "names scripts/lost")
        self.assert_finds(rule, "src/a.cc", "// See docs/lost.md.", "names docs/lost.md")
        self.assert_clean(rule, "CHANGELOG.md", "`src/lost.cc` is gone")
        files = {"src/a.h": "", "src/b.h": "// src/a.h and src/b.h.", "a.md": "`src/{a,b}.h`, "
                 "`src/`, `src/*.h`, `src/<name>.h`"}
        self.assertEqual(find(rule, files), "")

    def test_quoted_files(self):
        def check(quoted):
            readme = f"<!-- quoted from examples/a.cc -->\n```cpp\n{quoted}\n```\n"
            return find(tidy_tree.quoted_files,
                        {"README.md": readme, "examples/a.cc": "// Head.\nint a;\n"})

        self.assertEqual(check("int a;"), "")
        self.assertIn("differs from examples/a.cc", check("int b;"))
        self.assert_finds(tidy_tree.quoted_files, "README.md",
                          "<!-- quoted from b.cc -->\n```\n```\n", "does not exist")

    def test_quoted_excerpts(self):
        def check(quoted):
            readme = f"<!-- quoted from examples/a.cc, excerpt -->\n```cpp\n{quoted}\n```\n"
            source = "int f() {\n  int a;\n\n  if (a) {\n    b();\n  }\n}\n"
            return find(tidy_tree.quoted_files, {"README.md": readme, "examples/a.cc": source})

        self.assertEqual(check("int a;\n\nif (a) {\n  b();\n}"), "")
        self.assertIn("differs from examples/a.cc", check("int a;\nif (a) {"))
        self.assertIn("differs from examples/a.cc", check(""))

    def test_machine_paths(self):
        self.assert_finds(
            tidy_tree.machine_paths, "a.md", "in /ho" + "me/someone/src", "a path on one machine")
        self.assert_finds(
            tidy_tree.machine_paths, "a.md", "in /ro" + "ot/.cache/x", "a path on one machine")
        self.assert_clean(tidy_tree.machine_paths, "a.md", "`build/home/x` and /usr/lib")

    def test_vague_words(self):
        rule = tidy_tree.vague_words
        for word in ("who" + "ever", "No" + "body", "some" + "body", "the" + "re: yes"):
            for path in ("README.md", "src/a.cc", "tests/golden/cli/a.txt", "scripts/a"):
                self.assert_finds(rule, path, f"// for {word}", f"{path}:1: `")
        for text in ("some" + "body_else", "bodyguard", "there is one", "there::name"):
            self.assert_clean(rule, "a.md", text)


class CommandTest(unittest.TestCase):
    def test_every_rule_has_a_test_and_a_description(self):
        tests = {name for suite in (CppRuleTest, ClassRuleTest, TreeRuleTest)
                 for name in dir(suite) if name.startswith("test_")}
        for rule in tidy.RULES:
            self.assertIn(f"test_{rule.__name__}", tests)
            self.assertTrue(rule.__doc__)

    def test_all_modules_take_part(self):
        rules = tidy_cpp.RULES + tidy_classes.RULES + tidy_tree.RULES
        self.assertEqual(set(tidy.RULES), set(rules))

    def test_findings_are_sorted_and_name_their_rule(self):
        tree = tidy_text.Tree({"src/base/b.h": "throw 1;", "src/base/a.h": "// A."}, TABLE)
        found = tidy.check(tree)
        self.assertEqual(found, sorted(found))
        self.assertIn("exceptions", [rule_name for _, rule_name in found])

    def test_layer_table_of_the_project_is_sound(self):
        tree = tidy_text.Tree({}, tidy.read_table())
        self.assertEqual(list(tidy_tree.layer_table(tree)), [])


if __name__ == "__main__":
    unittest.main()
