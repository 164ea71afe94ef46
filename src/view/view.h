// SPDX-License-Identifier: Apache-2.0
//
// The documents that are being looked at, and the answers to all questions about them: those of
// docs/formats/view.md, whoever asks, a page through a server or a self-contained file. Documents
// come, and never go. Thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/status.h"
#include "base/mutex.h"
#include "http/response.h"
#include "view/document.h"
#include "view/explanations.h"
#include "view/table.h"

namespace ashlar::view {

inline constexpr size_t kMostDocuments = 1024;

class View {
 public:
  // `program`: its name and version. `live`: the process that is being watched; empty: none.
  View(std::string program, Explain explain, std::string live = {})
      : program_(std::move(program)), live_(std::move(live)), explanations_(std::move(explain)) {}

  // Makes a document of each device. Their numbers; kInvalidArgument: there are too many documents
  // already.
  Result<std::vector<uint32_t>> add(const std::shared_ptr<const Recording>& recording);

  // What is asked, such as "d/0/tile" and "by=allocation&level=0&index=0&detail=0". Unknown
  // questions get 404, arguments out of range 400, with one sentence as {"error": …}.
  http::Response answer(std::string_view path, std::string_view query) const;

  // The same, but waits for what takes long.
  http::Response wait_for_answer(std::string_view path, std::string_view query) const;

  // In the order of their numbers.
  std::vector<const Document*> documents() const;
  const std::string& program() const { return program_; }

 private:
  struct Exhibit {
    Document document;
    AllocationTable table;
    explicit Exhibit(Document made) : document(std::move(made)), table(document) {}
  };

  struct Found {
    const Exhibit* exhibit = nullptr;
    std::string_view what{};  // is asked about it
  };
  // None where the path leads to no document.
  Found find(std::string_view path) const;
  http::Response scene() const;

  const std::string program_;
  const std::string live_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<const Exhibit>> exhibits_ ASHLAR_GUARDED_BY(mutex_);
  // Ends before the documents do.
  mutable Explanations explanations_;
};

}  // namespace ashlar::view
