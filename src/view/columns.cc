// SPDX-License-Identifier: Apache-2.0
//
// Writes the header last, because it contains the offsets of the columns.
#include "view/columns.h"

#include <bit>

#include "base/align.h"
#include "base/check.h"
#include "base/wire.h"

namespace ashlar::view {
namespace {

constexpr size_t kNameBytes = 16;
constexpr size_t kOffsetBytes = 8;
constexpr size_t kAlignment = 8;
constexpr std::string_view kMagic = "ASHV";
constexpr size_t kHeadBytes = 8;

static_assert(std::endian::native == std::endian::little, "columns are copied without conversion");

}  // namespace

void Columns::add(const Kind& kind, std::string_view bytes) {
  ASHLAR_CHECK(kind.name.size() <= kNameBytes);
  std::string name(kind.name);
  name.resize(kNameBytes);
  WireWriter row;
  row.append_raw(name)
      .append_number(static_cast<uint32_t>(kind.type))
      .append_number(static_cast<uint32_t>(bytes.size() / kind.element_bytes));
  table_ += row.take();
  offsets_.push_back(values_.size());
  values_.append(bytes);
  values_.resize(align_up(values_.size(), kAlignment));
}

std::string Columns::take() {
  const size_t row_bytes = kNameBytes + 2 * sizeof(uint32_t);
  const size_t begin = kHeadBytes + offsets_.size() * (row_bytes + kOffsetBytes);
  WireWriter head;
  head.append_raw(kMagic).append_number(static_cast<uint32_t>(offsets_.size()));
  for (size_t i = 0; i < offsets_.size(); ++i) {
    head.append_raw(std::string_view(table_).substr(i * row_bytes, row_bytes));
    head.append_number(static_cast<uint64_t>(begin + offsets_[i]));
  }
  return head.take() + values_;
}

}  // namespace ashlar::view
