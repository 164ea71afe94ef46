// SPDX-License-Identifier: Apache-2.0
//
// Adds one column per property of an allocation, for lists and for a single row.
#include "view/allocation_columns.h"

namespace ashlar::view {
namespace {

template <typename Value, typename Get>
void add_column(const Document& document, const std::vector<uint32_t>& ids, Columns& response,
                const char* name, Get get) {
  std::vector<Value> values;
  values.reserve(ids.size());
  for (const uint32_t id : ids) values.push_back(get(document.allocations().all[id]));
  response.add(name, values);
}

}  // namespace

void add_allocations(const Document& document, const std::vector<uint32_t>& ids,
                     Columns& response) {
  const auto add = [&](const char* name, auto get) {
    add_column<uint32_t>(document, ids, response, name, get);
  };
  response.add("id", ids);
  add_column<double>(document, ids, response, "bytes",
                     [](const Allocation& each) { return static_cast<double>(each.bytes); });
  add("made", [](const Allocation& each) { return each.alloc_entry; });
  add("freed", [](const Allocation& each) { return each.completed_entry; });
  add("stack", [&](const Allocation& each) { return document.stack_of(each); });
  add("stream", [&](const Allocation& each) { return document.stream_of(each.stream); });
  add("pool", [&](const Allocation& each) { return document.pool_of(each.pool); });
  response.add("category", ids, [&](uint32_t id) { return document.category_of(id); });
}

void add_allocation_details(const Document& document, const std::vector<uint32_t>& ids,
                            Columns& response) {
  add_column<double>(document, ids, response, "made_us",
                     [&](const Allocation& each) { return document.time_us(each.alloc_entry); });
  add_column<double>(document, ids, response, "freed_us", [&](const Allocation& each) {
    return document.time_us(each.completed_entry);
  });
  add_column<uint64_t>(document, ids, response, "address",
                       [](const Allocation& each) { return each.address.value(); });
}

}  // namespace ashlar::view
