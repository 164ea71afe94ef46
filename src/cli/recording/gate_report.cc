// SPDX-License-Identifier: Apache-2.0
//
// Formats the same table of checks as text, Markdown and JUnit XML.
#include "cli/recording/gate_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "cli/terminal/stack_text.h"
#include "cli/terminal/style.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

std::string value_text(const GateCheck& check, double value) {
  return check.unit == GateUnit::kBytes ? format_bytes(static_cast<size_t>(value))
                                        : fmt::format("{:.2f} %", value * 100);
}

// Formats the change of a metric: in percent for bytes, in percentage points for fractions.
std::string change_text(const GateCheck& check) {
  if (check.unit == GateUnit::kFraction) {
    return fmt::format("{:+.2f} points", (check.now - check.base) * 100);
  }
  if (check.base == 0) return check.now == 0 ? "none" : "from 0 B";
  return fmt::format("{:+.2f} %", (check.now / check.base - 1) * 100);
}

// Formats a failed check. Two decimals can hide a small excess, so for bytes the exact excess is
// included.
std::string failure_text(const GateCheck& check) {
  std::string exact;
  if (check.unit == GateUnit::kBytes) {
    exact = fmt::format(
        " ({} above the limit)",
        format_bytes(std::max<size_t>(static_cast<size_t>(check.now - check.allowed), 1)));
  }
  return fmt::format("{}: {} exceeds the limit of {}; base: {}{}", check.name,
                     value_text(check, check.now), value_text(check, check.allowed),
                     value_text(check, check.base), exact);
}

std::string summary_of(const GateReport& report) {
  const auto failed = std::count_if(report.result.checks.begin(), report.result.checks.end(),
                                    [](const GateCheck& check) { return !check.is_passed(); });
  if (failed == 0) return "Passed: all figures are within their limits.";
  return fmt::format("Failed: {} of {} figures exceed{} the limit.", failed,
                     report.result.checks.size(), failed == 1 ? "s" : "");
}

// Escapes Markdown syntax, which file names may contain.
std::string escape_markdown(std::string_view text) {
  std::string escaped;
  for (char c : printable(text)) {
    if (std::string_view("\\`*_{}[]<>#|!").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace

std::string gate_as_text(const GateReport& report) {
  Table table({{},
               {"base", Align::kRight},
               {"new", Align::kRight},
               {"change", Align::kRight},
               {"allowed", Align::kRight},
               {}});
  for (const GateCheck& check : report.result.checks) {
    table.add({std::string(check.name), value_text(check, check.base), value_text(check, check.now),
               change_text(check), value_text(check, check.allowed),
               check.is_passed() ? green("ok") : red("EXCEEDED")});
  }
  return fmt::format("base  {}\nnew   {}\n{}\n{}\n{}\n", printable(report.base),
                     printable(report.now), report.notes, table.to_text(), summary_of(report));
}

std::string gate_as_markdown(const GateReport& report) {
  std::string text = fmt::format(
      "### Memory: {}\n\n{} against {}\n\n"
      "| | base | new | change | allowed | |\n|---|--:|--:|--:|--:|---|\n",
      summary_of(report), escape_markdown(report.now), escape_markdown(report.base));
  for (const GateCheck& check : report.result.checks) {
    text +=
        fmt::format("| {} | {} | {} | {} | {} | {} |\n", check.name, value_text(check, check.base),
                    value_text(check, check.now), change_text(check),
                    value_text(check, check.allowed), check.is_passed() ? "ok" : "**exceeded**");
  }
  return text;
}

std::string gate_as_junit(const GateReport& report) {
  const auto failed = std::count_if(report.result.checks.begin(), report.result.checks.end(),
                                    [](const GateCheck& check) { return !check.is_passed(); });
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites tests=\"{0}\" failures=\"{1}\">\n"
      "  <testsuite name=\"ashlar gate\" tests=\"{0}\" failures=\"{1}\" errors=\"0\">\n"
      "    <properties>\n"
      "      <property name=\"base\" value=\"{2}\"/>\n"
      "      <property name=\"new\" value=\"{3}\"/>\n"
      "    </properties>\n",
      report.result.checks.size(), failed, escape_xml(report.base), escape_xml(report.now));
  for (const GateCheck& check : report.result.checks) {
    text +=
        fmt::format("    <testcase classname=\"ashlar.gate\" name=\"{}\"", escape_xml(check.name));
    if (check.is_passed()) {
      text += "/>\n";
      continue;
    }
    text += fmt::format(">\n      <failure message=\"{}\"/>\n    </testcase>\n",
                        escape_xml(failure_text(check)));
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

std::string escape_xml(std::string_view text) {
  std::string escaped;
  for (char c : printable(text)) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&apos;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

}  // namespace ashlar
