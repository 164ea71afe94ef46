// SPDX-License-Identifier: Apache-2.0
//
// Tests of every opcode, and of hostile files.
#include "format/pickle_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/format/pickle_text.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;
using namespace std::string_literals;

// The result of running a machine.
class MachineRun {
 public:
  explicit MachineRun(std::string bytes, const ReadLimits& limits = {})
      : bytes_(std::move(bytes)), store_(limits), source_(bytes_), machine_(source_, store_) {
    result_.emplace(machine_.run());
  }

  bool ok() const { return result_->ok(); }
  const Status& status() const { return result_->status(); }
  std::string text() const { return ok() ? text_of(**result_, 0) : status().message(); }

 private:
  // Formats the value like Python's repr().
  std::string text_of(Value value, int depth) const {
    if (depth > 5) return "...";
    switch (value.kind) {
      case ValueKind::kNone: return "None";
      case ValueKind::kBool: return value.bits != 0 ? "True" : "False";
      case ValueKind::kInteger: return std::to_string(static_cast<int64_t>(value.bits));
      case ValueKind::kLargeInteger: return std::to_string(value.bits);
      case ValueKind::kFloat: return std::to_string(value.as_double());
      case ValueKind::kString: return "'" + std::string(store_.string_at(value.index())) + "'";
      case ValueKind::kBytes: return "bytes";
      default: break;
    }
    std::string all;
    for (const Value& item : store_.items(value)) all += text_of(item, depth + 1) + " ";
    if (!all.empty()) all.pop_back();
    return value.kind == ValueKind::kTuple  ? "(" + all + ")"
           : value.kind == ValueKind::kList ? "[" + all + "]"
                                            : "{" + all + "}";
  }

  std::string bytes_;
  ValueStore store_;
  MemorySource source_;
  PickleMachine machine_;
  std::optional<Result<Value>> result_;
};

std::string value_of(std::string_view opcodes) { return MachineRun(pickle::whole(opcodes)).text(); }

TEST(PickleMachine, BuildsNoneAndBooleans) {
  EXPECT_EQ(value_of("N"), "None");
  EXPECT_EQ(value_of("\x88"), "True");
  EXPECT_EQ(value_of("\x89"), "False");
}

TEST(PickleMachine, BuildsNumbersOfEveryWidth) {
  EXPECT_EQ(value_of("K\xff"), "255");
  EXPECT_EQ(value_of("M\xff\xff"), "65535");
  EXPECT_EQ(value_of("J\xff\xff\xff\xff"), "-1");
  EXPECT_EQ(value_of("\x8a\0"s), "0");
  EXPECT_EQ(value_of("\x8a\x01\x80"), "-128");
  EXPECT_EQ(value_of("\x8a\x03\0\0\x01"s), "65536");
  EXPECT_EQ(value_of("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\xff"), "-1");
  EXPECT_EQ(value_of("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0"s), "18446744073709551615");
  EXPECT_EQ(value_of("\x8b\x02\0\0\0\x01\x02"s), "513");
}

TEST(PickleMachine, BuildsFloatsFromBigEndianBytes) {
  EXPECT_EQ(value_of("G\x3f\xf8\0\0\0\0\0\0"s), "1.500000");
}

TEST(PickleMachine, BuildsStringsOfEveryLengthField) {
  EXPECT_EQ(value_of("\x8c\x02hi"), "'hi'");
  EXPECT_EQ(value_of("X\x02\0\0\0hi"s), "'hi'");
  EXPECT_EQ(value_of("\x8d\x02\0\0\0\0\0\0\0hi"s), "'hi'");
  EXPECT_EQ(value_of("U\x02hi"), "'hi'");
  const std::string longer(100000, 'x');
  EXPECT_EQ(value_of(pickle::string(longer)), "'" + longer + "'");
}

TEST(PickleMachine, SkipsBytes) {
  EXPECT_EQ(value_of("C\x02\xff\xff"), "bytes");
  EXPECT_EQ(value_of("B\x02\0\0\0\xff\xff"s), "bytes");
  EXPECT_EQ(value_of("\x8e\x02\0\0\0\0\0\0\0\xff\xff"s), "bytes");
  EXPECT_EQ(value_of("\x96\x02\0\0\0\0\0\0\0\xff\xff"s), "bytes");
}

TEST(PickleMachine, BuildsTuplesListsAndDicts) {
  EXPECT_EQ(value_of(")"), "()");
  EXPECT_EQ(value_of("K\x01\x85"), "(1)");
  EXPECT_EQ(value_of("K\x01K\x02\x86"), "(1 2)");
  EXPECT_EQ(value_of("K\x01K\x02K\x03\x87"), "(1 2 3)");
  EXPECT_EQ(value_of("(K\x01K\x02K\x03K\x04t"), "(1 2 3 4)");
  EXPECT_EQ(value_of("]"), "[]");
  EXPECT_EQ(value_of("]K\x01\x61"), "[1]");
  EXPECT_EQ(value_of("](K\x01K\x02\x65(K\x03\x65"), "[1 2 3]");
  EXPECT_EQ(value_of("(K\x01K\x02l"), "[1 2]");
  EXPECT_EQ(value_of("}"), "{}");
  EXPECT_EQ(value_of("}K\x01K\x02s"), "{1 2}");
  EXPECT_EQ(value_of("}(K\x01K\x02u"), "{1 2}");
  EXPECT_EQ(value_of("(K\x01K\x02\x64"), "{1 2}");
}

TEST(PickleMachine, StoresValuesInTheMemo) {
  EXPECT_EQ(value_of("]\x94\x30h\0"s), "[]");
  EXPECT_EQ(value_of("K\x07q\x02\x30h\x02"), "7");
  EXPECT_EQ(value_of("K\x07r\x03\0\0\0\x30j\x03\0\0\0"s), "7");
  EXPECT_EQ(value_of("](K\x01\x94K\x02\x94h\0h\x01\x65"s), "[1 2 1 2]");
}

TEST(PickleMachine, PopsAndDuplicates) {
  EXPECT_EQ(value_of("K\x01K\x02\x30"), "1");
  EXPECT_EQ(value_of("K\x01(K\x02K\x03\x31"), "1");
  EXPECT_EQ(value_of("K\x01(\x30"), "1");
  EXPECT_EQ(value_of("K\x01\x32\x86"), "(1 1)");
}

TEST(PickleMachine, IgnoresFrameLengths) {
  EXPECT_EQ(value_of("\x95\xff\xff\xff\xff\xff\xff\xff\xffN"), "None");
}

TEST(PickleMachine, AcceptsProtocols2To5) {
  EXPECT_EQ(MachineRun("\x80\x02N.").text(), "None");
  EXPECT_EQ(MachineRun("\x80\x05N.").text(), "None");
  EXPECT_THAT(MachineRun("\x80\x01N.").text(), HasSubstr("protocol is 1 (expected 2 to 5)"));
  EXPECT_THAT(MachineRun("\x80\x06N.").text(), HasSubstr("protocol is 6 (expected 2 to 5)"));
  EXPECT_THAT(MachineRun("(lp0\n.").text(), HasSubstr("not a pickle"));
}

TEST(PickleMachine, IgnoresBytesAfterStop) {
  EXPECT_EQ(MachineRun(pickle::whole("N") + "\xff\xff").text(), "None");
}

TEST(PickleMachine, RejectsCallsWithTheirOffset) {
  const std::string harmful = "cos\nsystem\n(S'true'\ntR";
  EXPECT_THAT(value_of("N" + harmful),
              HasSubstr("byte 3: GLOBAL: importing and calling are not allowed"));
  for (const std::string_view opcode :
       {"c", "\x93", "R", "b", "i", "o", "\x81", "\x92", "\x82", "\x83", "\x84", "P", "Q"}) {
    const MachineRun ran(pickle::whole("NN" + std::string(opcode)));
    EXPECT_TRUE(ran.status().is(StatusKind::kFormat)) << opcode;
    EXPECT_THAT(ran.text(), HasSubstr("byte 4: ")) << opcode;
    EXPECT_THAT(ran.text(), HasSubstr("importing and calling are not allowed")) << opcode;
  }
}

TEST(PickleMachine, RejectsTextualAndUnknownOpcodes) {
  EXPECT_THAT(value_of("I1\n"), HasSubstr("INT: an opcode of the textual protocols"));
  EXPECT_THAT(value_of("\x8f"), HasSubstr("EMPTY_SET"));
  EXPECT_THAT(value_of("\x80\x04"), HasSubstr("PROTO: not at the beginning"));
  EXPECT_THAT(value_of("\xff"), HasSubstr("unknown opcode 255"));
}

TEST(PickleMachine, RejectsNumbersBeyond64Bits) {
  EXPECT_THAT(value_of("\x8a\x09\0\0\0\0\0\0\0\0\x01"s), HasSubstr("at most 64 bits"));
  EXPECT_THAT(value_of("\x8a\x09\0\0\0\0\0\0\0\0\xff"s), HasSubstr("below -2^63"));
  EXPECT_THAT(value_of("\x8a\xff" + std::string(255, '\x7f')), HasSubstr("a number of 255 bytes"));
  EXPECT_THAT(value_of("\x8b\xff\xff\xff\x7f"), HasSubstr("a number of 2147483647 bytes"));
  EXPECT_THAT(value_of("\x8b\xff\xff\xff\xff"), HasSubstr("a number of -1 bytes"));
}

TEST(PickleMachine, RejectsStackUnderflow) {
  EXPECT_THAT(value_of(""), HasSubstr("STOP: the stack has 0 values"));
  EXPECT_THAT(value_of("N("), HasSubstr("a mark is still open"));
  EXPECT_THAT(value_of("N\x86"), HasSubstr("expected at least 2"));
  EXPECT_THAT(value_of("NN(N\x86"), HasSubstr("1 values above the newest mark"));
  EXPECT_THAT(value_of("Ne"), HasSubstr("no mark"));
  EXPECT_THAT(value_of("(Ne"), HasSubstr("added to nothing (expected a list)"));
  EXPECT_THAT(value_of("}(Ne"), HasSubstr("added to a dict (expected a list)"));
  EXPECT_THAT(value_of("](NNu"), HasSubstr("set in a list (expected a dict)"));
  EXPECT_THAT(value_of("}(Nu"), HasSubstr("a key has no value"));
  EXPECT_THAT(value_of("(N\x64"), HasSubstr("a key has no value"));
  EXPECT_THAT(value_of("0"), HasSubstr("expected at least 1"));
}

TEST(PickleMachine, RejectsInvalidUtf8) {
  EXPECT_THAT(value_of("\x8c\x01\xff"), HasSubstr("not UTF-8"));
  EXPECT_THAT(value_of(pickle::string(std::string(100000, '\xff'))), HasSubstr("not UTF-8"));
}

TEST(PickleMachine, RejectsUnknownMemoIndexes) {
  EXPECT_THAT(value_of("h\0"s), HasSubstr("the memo has nothing at index 0"));
  EXPECT_THAT(value_of("j\xff\xff\xff\xff"), HasSubstr("the memo has nothing at index 4294967295"));
  // Storing at index 2 of the memo leaves indexes 0 and 1 unset.
  EXPECT_THAT(value_of("Nq\x02h\x01"), HasSubstr("the memo has nothing at index 1"));
}

TEST(PickleMachine, RejectsHugeMemoIndexes) {
  EXPECT_THAT(value_of("Nr\xff\xff\xff\xff"), HasSubstr("memo's index is 4294967295"));
}

TEST(PickleMachine, AllocatesNothingForAnnouncedLengths) {
  for (const std::string& announced :
       {"\x8d\0\0\0\0\0\x01\0\0"s, "X\xff\xff\xff\xff"s, "\x8e\0\0\0\0\0\x01\0\0"s,
        "B\xff\xff\xff\xff"s, "\x96\xff\xff\xff\xff\xff\xff\xff\xff"s}) {
    const MachineRun ran("\x80\x04" + announced + "short");
    EXPECT_TRUE(ran.status().is(StatusKind::kFormat));
    EXPECT_THAT(ran.text(), HasSubstr("byte 2: "));
    EXPECT_THAT(ran.text(), HasSubstr("is truncated"));
  }
}

TEST(PickleMachine, SurvivesDeepNesting) {
  // Lists nested half a million deep.
  const size_t depth = 500'000;
  EXPECT_TRUE(
      MachineRun(pickle::whole(pickle::repeat("]", depth) + pickle::repeat("a", depth - 1))).ok());
}

TEST(PickleMachine, RejectsTooManyOpenContainers) {
  EXPECT_THAT(value_of(pickle::repeat("(", 2'000'000)), HasSubstr("containers are open"));
}

TEST(PickleMachine, SurvivesAListThatContainsItself) {
  EXPECT_EQ(value_of("]\x94h\0a"s), "[[[[[[...]]]]]]");
}

TEST(PickleMachine, SurvivesExponentialSharing) {
  // Each list contains the previous list ten times, so the expanded value would have 10^200 items.
  std::string bytes = "]\x94";
  for (int i = 0; i < 200; ++i) {
    const std::string again(1, static_cast<char>(i));
    bytes += "](" + pickle::repeat("h" + again, 10) + "e\x94";
  }
  EXPECT_TRUE(MachineRun(pickle::whole(bytes)).ok());
}

TEST(PickleMachine, RejectsValuesBeyondTheLimit) {
  const ReadLimits limits = {.value_bytes = size_t{1} << 20};
  for (const std::string& bomb :
       {pickle::repeat("N", 1 << 20), pickle::repeat("]", 1 << 20), pickle::repeat("}", 1 << 20),
        "N" + pickle::repeat("\x94", 1 << 20), "N" + pickle::repeat("\x85", 1 << 20),
        pickle::repeat("]Na0", 1 << 20), pickle::string(std::string(2 << 20, 'x'))}) {
    EXPECT_THAT(MachineRun(pickle::whole(bomb), limits).text(), HasSubstr("more than 1.00 MiB"));
  }
}

TEST(PickleMachine, RejectsEveryTruncation) {
  const std::string bytes = pickle::whole(
      pickle::dict({{"a", pickle::list({pickle::number(1), pickle::large_number(1ull << 63)})},
                    {"b", pickle::pair(1, 2) + "\x94"},
                    {"c", "G\x3f\xf8\0\0\0\0\0\0"s}}));
  ASSERT_TRUE(MachineRun(bytes).ok());
  for (size_t length = 0; length < bytes.size(); ++length) {
    const MachineRun ran(bytes.substr(0, length));
    EXPECT_TRUE(ran.status().is(StatusKind::kFormat)) << length;
    EXPECT_THAT(ran.text(), HasSubstr("is truncated")) << length;
  }
}

// A source that returns one byte at a time, then fails.
class FailingSource final : public ByteSource {
 public:
  explicit FailingSource(std::string_view bytes) : bytes_(bytes) {}
  Result<size_t> read(std::span<char> into) override {
    if (bytes_.empty()) return Status::device_fault("read", 5, "the disk is on fire");
    into[0] = bytes_.front();
    bytes_.remove_prefix(1);
    return size_t{1};
  }

 private:
  std::string_view bytes_;
};

TEST(PickleMachine, ForwardsErrorsOfTheSource) {
  FailingSource source("\x80\x04](N");
  ValueStore store({});
  const Result<Value> value = PickleMachine(source, store).run();
  EXPECT_TRUE(value.status().is(StatusKind::kDeviceFault));
  EXPECT_EQ(value.status().message(), "the disk is on fire");
}

TEST(PickleMachine, ReadsOneByteAtATime) {
  FailingSource source("\x80\x04](K\x01K\x02\x65.");
  ValueStore store({});
  EXPECT_TRUE(PickleMachine(source, store).run().ok());
}

}  // namespace
}  // namespace ashlar
