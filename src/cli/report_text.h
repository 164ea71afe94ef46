// What `ashlar report` says about causes and what to do, for every command that says it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analysis/report.h"
#include "ashlar/options.h"

namespace ashlar {

struct CauseRow {
  const char* key;
  const char* words;
  size_t bytes;
};

std::vector<CauseRow> rows_of(const Causes& causes);

// "12.3 %"
std::string percent(size_t part, size_t whole);

// Sentences, the most useful first.
std::vector<std::string> advice_of(const Report& report, const AllocatorOptions& recorded);

}  // namespace ashlar
