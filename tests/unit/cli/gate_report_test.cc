// SPDX-License-Identifier: Apache-2.0
//
// Tests of gate results as text, Markdown and JUnit XML, including escaping.
#include "cli/recording/gate_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/terminal/style.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

GateReport report() {
  GateReport report = {
      .base = "main.pickle", .now = "a<b>&\"c\"|`d`\x1b.pickle", .notes = {}, .result = {}};
  report.result.checks = {{.name = "peak requested",
                           .unit = GateUnit::kBytes,
                           .base = 1000,
                           .now = 900,
                           .allowed = 1000},
                          {.name = "peak reserved",
                           .unit = GateUnit::kBytes,
                           .base = 1000,
                           .now = 1500,
                           .allowed = 1020},
                          {.name = "fragmentation",
                           .unit = GateUnit::kFraction,
                           .base = 0.1,
                           .now = 0.25,
                           .allowed = 0.2}};
  return report;
}

TEST(GateReportTest, TextHasTableAndSummary) {
  const std::string text = strip_style(gate_as_text(report()));
  EXPECT_THAT(text, HasSubstr("  peak requested   1000 B     900 B       -10.00 %   1000 B  ok\n"));
  EXPECT_THAT(text,
              HasSubstr("  fragmentation   10.00 %   25.00 %  +15.00 points  20.00 %  EXCEEDED\n"));
  EXPECT_THAT(text, HasSubstr("Failed: 2 of 3 figures exceed the limit.\n"));
}

TEST(GateReportTest, MarkdownEscapesFileNames) {
  const std::string text = gate_as_markdown(report());
  EXPECT_THAT(text, HasSubstr("a\\<b\\>&\"c\"\\|\\`d\\`?.pickle against main.pickle"));
  EXPECT_THAT(
      text, HasSubstr("| peak reserved | 1000 B | 1.46 KiB | +50.00 % | 1020 B | **exceeded** |"));
}

TEST(GateReportTest, JUnitHasOneCasePerCheck) {
  EXPECT_EQ(gate_as_junit(report()),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuites tests=\"3\" failures=\"2\">\n"
            "  <testsuite name=\"ashlar gate\" tests=\"3\" failures=\"2\" errors=\"0\">\n"
            "    <properties>\n"
            "      <property name=\"base\" value=\"main.pickle\"/>\n"
            "      <property name=\"new\" "
            "value=\"a&lt;b&gt;&amp;&quot;c&quot;|`d`?.pickle\"/>\n"
            "    </properties>\n"
            "    <testcase classname=\"ashlar.gate\" name=\"peak requested\"/>\n"
            "    <testcase classname=\"ashlar.gate\" name=\"peak reserved\">\n"
            "      <failure message=\"peak reserved: 1.46 KiB exceeds the limit of 1020 B; base: "
            "1000 B (480 B above the limit)\"/>\n"
            "    </testcase>\n"
            "    <testcase classname=\"ashlar.gate\" name=\"fragmentation\">\n"
            "      <failure message=\"fragmentation: 25.00 % exceeds the limit of 20.00 %; base: "
            "10.00 %\"/>\n"
            "    </testcase>\n"
            "  </testsuite>\n"
            "</testsuites>\n");
}

TEST(GateReportTest, ReplacesCharactersThatXmlForbids) {
  EXPECT_EQ(escape_xml("a'\x01\xff"
                       "b"),
            "a&apos;??b");
}

TEST(GateReportTest, ShowsNoPercentageForZeroBase) {
  GateReport zero_base = report();
  zero_base.result.checks = {
      {.name = "peak requested", .unit = GateUnit::kBytes, .base = 0, .now = 5, .allowed = 9}};
  EXPECT_THAT(gate_as_text(zero_base), HasSubstr("from 0 B"));
  EXPECT_THAT(gate_as_text(zero_base), HasSubstr("Passed"));
}

}  // namespace
}  // namespace ashlar
