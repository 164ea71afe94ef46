// SPDX-License-Identifier: Apache-2.0
//
// Compares reductions with a naive model, bit for bit.
#include "symm/collectives/reduce/reduce.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ashlar::symm {
namespace {

constexpr ElementType kTypes[] = {ElementType::kF32, ElementType::kF16, ElementType::kBf16,
                                  ElementType::kF64, ElementType::kI8,  ElementType::kI16,
                                  ElementType::kI32, ElementType::kI64, ElementType::kU8,
                                  ElementType::kU16, ElementType::kU32, ElementType::kU64};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd,
                             ReduceOp::kAvg, ReduceOp::kAnd, ReduceOp::kOr,  ReduceOp::kXor};

// Performs one step of the model for floating-point types. A NaN operand makes kMin and kMax return
// NaN. For kAvg, only adds; the caller divides the sum.
template <typename T>
T combine_floats(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kProd: return a * b;
    case ReduceOp::kMin: return std::isnan(a) ? a : std::isnan(b) ? b : b < a ? b : a;
    case ReduceOp::kMax: return std::isnan(a) ? a : std::isnan(b) ? b : b > a ? b : a;
    default: return a + b;
  }
}

template <typename T>
T reduce_floats(ReduceOp op, const std::vector<T>& values) {
  T total = values[0];
  for (size_t i = 1; i < values.size(); ++i) total = combine_floats(op, total, values[i]);
  return op == ReduceOp::kAvg ? total / static_cast<T>(values.size()) : total;
}

__extension__ using Exact = __int128;

template <typename T>
T reduce_integers(ReduceOp op, const std::vector<T>& values) {
  Exact sum = 0;
  uint64_t product = 1;
  uint64_t all = ~uint64_t{0};
  uint64_t any = 0;
  uint64_t odd = 0;
  T least = values[0];
  T most = values[0];
  for (const T value : values) {
    sum += value;
    product *= static_cast<uint64_t>(value);
    all &= static_cast<uint64_t>(value);
    any |= static_cast<uint64_t>(value);
    odd ^= static_cast<uint64_t>(value);
    least = std::min(least, value);
    most = std::max(most, value);
  }
  switch (op) {
    case ReduceOp::kSum: return static_cast<T>(sum);
    case ReduceOp::kAvg: return static_cast<T>(sum / static_cast<Exact>(values.size()));
    case ReduceOp::kProd: return static_cast<T>(product);
    case ReduceOp::kMin: return least;
    case ReduceOp::kMax: return most;
    case ReduceOp::kAnd: return static_cast<T>(all);
    case ReduceOp::kOr: return static_cast<T>(any);
    case ReduceOp::kXor: return static_cast<T>(odd);
  }
  return {};
}

template <typename T>
std::vector<T> column(const std::vector<std::vector<std::byte>>& sources, size_t index) {
  std::vector<T> values;
  for (const auto& source : sources) {
    T value;
    std::memcpy(&value, source.data() + index * sizeof(T), sizeof(T));
    values.push_back(value);
  }
  return values;
}

template <typename Half, typename Narrow>
Half reduce_halves(ReduceOp op, const std::vector<Half>& values, Narrow narrow) {
  std::vector<float> wide;
  for (const Half value : values) wide.push_back(widen(value));
  if (wide.size() == 1) return values[0];
  return narrow(reduce_floats(op, wide));
}

template <typename T>
void put(std::vector<std::byte>& out, size_t index, T value) {
  std::memcpy(out.data() + index * sizeof(T), &value, sizeof(T));
}

std::vector<std::byte> model(Reduction reduction,
                             const std::vector<std::vector<std::byte>>& sources, size_t count) {
  std::vector<std::byte> out(count * element_bytes(reduction.type));
  for (size_t i = 0; i < count; ++i) {
    switch (reduction.type) {
      case ElementType::kF32:
        put(out, i, reduce_floats(reduction.op, column<float>(sources, i)));
        break;
      case ElementType::kF64:
        put(out, i, reduce_floats(reduction.op, column<double>(sources, i)));
        break;
      case ElementType::kF16:
        put(out, i, reduce_halves(reduction.op, column<F16>(sources, i), narrow_to_f16));
        break;
      case ElementType::kBf16:
        put(out, i, reduce_halves(reduction.op, column<Bf16>(sources, i), narrow_to_bf16));
        break;
      case ElementType::kI8:
        put(out, i, reduce_integers(reduction.op, column<int8_t>(sources, i)));
        break;
      case ElementType::kI16:
        put(out, i, reduce_integers(reduction.op, column<int16_t>(sources, i)));
        break;
      case ElementType::kI32:
        put(out, i, reduce_integers(reduction.op, column<int32_t>(sources, i)));
        break;
      case ElementType::kI64:
        put(out, i, reduce_integers(reduction.op, column<int64_t>(sources, i)));
        break;
      case ElementType::kU8:
        put(out, i, reduce_integers(reduction.op, column<uint8_t>(sources, i)));
        break;
      case ElementType::kU16:
        put(out, i, reduce_integers(reduction.op, column<uint16_t>(sources, i)));
        break;
      case ElementType::kU32:
        put(out, i, reduce_integers(reduction.op, column<uint32_t>(sources, i)));
        break;
      case ElementType::kU64:
        put(out, i, reduce_integers(reduction.op, column<uint64_t>(sources, i)));
        break;
    }
  }
  return out;
}

bool is_nan(ElementType type, const std::byte* element) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, element_bytes(type));
  switch (type) {
    case ElementType::kF32: return std::isnan(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case ElementType::kF64: return std::isnan(std::bit_cast<double>(bits));
    case ElementType::kF16: return std::isnan(widen(F16{static_cast<uint16_t>(bits)}));
    case ElementType::kBf16: return std::isnan(widen(Bf16{static_cast<uint16_t>(bits)}));
    default: return false;
  }
}

// Compares bitwise, but any NaN matches any NaN: which of two NaNs survives depends on the
// processor.
void expect_same(ElementType type, const std::byte* found, const std::vector<std::byte>& wanted) {
  const size_t step = element_bytes(type);
  for (size_t at = 0; at < wanted.size(); at += step) {
    if (is_nan(type, found + at) && is_nan(type, wanted.data() + at)) continue;
    ASSERT_EQ(std::memcmp(found + at, wanted.data() + at, step), 0) << "element " << at / step;
  }
}

// Returns random bits for integers; for floats, finite numbers, signed zeros, infinity and NaNs.
std::vector<std::byte> draw(std::mt19937& random, ElementType type, size_t count, size_t source) {
  std::vector<std::byte> out(count * element_bytes(type));
  for (size_t i = 0; i < count; ++i) {
    const double ordinary = std::ldexp(std::uniform_real_distribution(-1.0, 1.0)(random),
                                       static_cast<int>(random() % 13) - 6);
    double value = ordinary;
    if (random() % 16 == 0) value = random() % 2 == 0 ? 0.0 : -0.0;
    if (random() % 64 == 0) value = INFINITY;
    if (i % 8 == source && random() % 8 == 0) value = std::numeric_limits<double>::quiet_NaN();
    switch (type) {
      case ElementType::kF32: put(out, i, static_cast<float>(value)); break;
      case ElementType::kF64: put(out, i, value); break;
      case ElementType::kF16: put(out, i, narrow_to_f16(static_cast<float>(value))); break;
      case ElementType::kBf16: put(out, i, narrow_to_bf16(static_cast<float>(value))); break;
      default:
        for (size_t k = 0; k < element_bytes(type); ++k) {
          out[i * element_bytes(type) + k] = static_cast<std::byte>(random());
        }
    }
  }
  return out;
}

struct Case {
  Reduction reduction;
  size_t source_count = 0;
  size_t count = 0;
  size_t shift = 0;          // offset of the buffers from vector alignment, in elements
  bool is_in_place = false;  // `out` is one of the sources
};

void check(const Case& c, const ReduceKernels& kernels) {
  SCOPED_TRACE(std::string(name(c.reduction.type)) + " " + std::string(name(c.reduction.op)) +
               " of " + std::to_string(c.source_count) + " x " + std::to_string(c.count) +
               " shifted by " + std::to_string(c.shift) + " with " + kernels.name);
  std::mt19937 random(static_cast<unsigned>(c.count * 31 + c.source_count));
  std::vector<std::vector<std::byte>> sources;
  for (size_t i = 0; i < c.source_count; ++i) {
    sources.push_back(draw(random, c.reduction.type, c.count, i));
  }
  const std::vector<std::byte> wanted = model(c.reduction, sources, c.count);

  const size_t bytes = wanted.size();
  const size_t begin = 64 + c.shift * element_bytes(c.reduction.type);
  const std::byte guard{0x5A};
  std::vector<std::vector<std::byte>> buffers(c.source_count + 1,
                                              std::vector<std::byte>(begin + bytes + 64, guard));
  std::vector<const std::byte*> rows_in;
  for (size_t i = 0; i < c.source_count; ++i) {
    if (bytes > 0) std::memcpy(buffers[i].data() + begin, sources[i].data(), bytes);
    rows_in.push_back(buffers[i].data() + begin);
  }
  std::vector<std::byte>& out = c.is_in_place ? buffers[c.source_count / 2] : buffers.back();
  reduce(c.reduction, rows_in, out.data() + begin, c.count, kernels);
  expect_same(c.reduction.type, out.data() + begin, wanted);
  for (size_t i = 0; i < begin; ++i) ASSERT_EQ(out[i], guard) << "before";
  for (size_t i = begin + bytes; i < out.size(); ++i) ASSERT_EQ(out[i], guard) << "after";
}

TEST(Reduce, MatchesTheModelForEveryTypeAndOperation) {
  for (const ElementType type : kTypes) {
    for (const ReduceOp op : kOps) {
      if (!check_reducible(type, op).ok()) continue;
      for (const size_t source_count : {1, 2, 3, 4, 5, 8}) {
        check({.reduction = {type, op}, .source_count = source_count, .count = 1100},
              best_kernels());
        check({.reduction = {type, op}, .source_count = source_count, .count = 77},
              portable_kernels());
      }
    }
  }
}

TEST(Reduce, IsCorrectAtVectorBoundaries) {
  for (const ElementType type : kTypes) {
    for (size_t count = 0; count <= 70; ++count) {
      for (const size_t shift : {0, 1, 3}) {
        check({.reduction = {type}, .source_count = 3, .count = count, .shift = shift},
              best_kernels());
      }
    }
    for (const size_t count : {511, 512, 513, 1023, 1024, 1025}) {
      check({.reduction = {type, ReduceOp::kMax}, .source_count = 2, .count = count},
            best_kernels());
    }
  }
}

TEST(Reduce, MayOverwriteOneOfItsSources) {
  for (const ElementType type : kTypes) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
      for (const size_t source_count : {1, 2, 3, 5}) {
        check({.reduction = {type, op},
               .source_count = source_count,
               .count = 1200,
               .shift = 1,
               .is_in_place = true},
              best_kernels());
      }
    }
  }
}

TEST(Reduce, RoundsHalvesOnceAtTheEnd) {
  // f16 cannot represent 2049, so rounding at each step would lose every 1.
  const auto half = [](float value) { return narrow_to_f16(value); };
  const std::vector<F16> values{half(2048), half(1), half(1), half(1), half(1)};
  std::vector<const std::byte*> sources;
  for (const F16& value : values) sources.push_back(reinterpret_cast<const std::byte*>(&value));
  F16 out;
  reduce({ElementType::kF16, ReduceOp::kSum}, sources, reinterpret_cast<std::byte*>(&out), 1);
  EXPECT_EQ(widen(out), 2052);
}

TEST(Reduce, AveragesIntegersWithoutOverflow) {
  const int8_t values[] = {127, 126, 127};
  const std::vector<const std::byte*> sources{reinterpret_cast<const std::byte*>(&values[0]),
                                              reinterpret_cast<const std::byte*>(&values[1]),
                                              reinterpret_cast<const std::byte*>(&values[2])};
  int8_t out = 0;
  reduce({ElementType::kI8, ReduceOp::kAvg}, sources, reinterpret_cast<std::byte*>(&out), 1);
  EXPECT_EQ(out, 126);
}

TEST(Reduce, RejectsBitwiseReductionOfFloats) {
  const Status wrong = check_reducible(ElementType::kBf16, ReduceOp::kXor);
  EXPECT_EQ(wrong.kind(), StatusKind::kInvalidArgument);
  EXPECT_THAT(wrong.message(), ::testing::HasSubstr("reduction xor of bf16"));
  EXPECT_TRUE(check_reducible(ElementType::kU8, ReduceOp::kXor).ok());
}

TEST(Reduce, RejectsUnknownTypesAndOperations) {
  EXPECT_EQ(check_reducible(static_cast<ElementType>(12), ReduceOp::kSum).kind(),
            StatusKind::kInvalidArgument);
  EXPECT_EQ(check_reducible(static_cast<ElementType>(-1), ReduceOp::kSum).kind(),
            StatusKind::kInvalidArgument);
  EXPECT_EQ(check_reducible(ElementType::kF32, static_cast<ReduceOp>(8)).kind(),
            StatusKind::kInvalidArgument);
}

}  // namespace
}  // namespace ashlar::symm
