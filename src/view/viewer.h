// SPDX-License-Identifier: Apache-2.0
//
// The open documents and the responses to requests for them (docs/reference/formats/view.md), for
// the HTTP server and for self-contained files. Documents are added and never removed. Thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/json_analysis.h"
#include "ashlar/status.h"
#include "base/mutex.h"
#include "http/response.h"
#include "view/allocation_table.h"
#include "view/analysis_worker.h"
#include "view/document.h"

namespace ashlar::view {

inline constexpr size_t kMaxDocuments = 1024;

class Viewer {
 public:
  // `program` is the name and version of the tool. `live` is the name of the monitored process, or
  // empty if no process is monitored.
  Viewer(std::string program, JsonAnalyses analyses, std::string live = {})
      : program_(std::move(program)),
        live_(std::move(live)),
        analyses_(std::move(analyses)),
        worker_(analyses_) {}

  // Adds one document per device and returns their numbers.
  // kInvalidArgument: there would be more than kMaxDocuments documents.
  Result<std::vector<uint32_t>> add(const std::shared_ptr<const Recording>& recording);

  // Responds to a request such as "d/0/tile" with the query
  // "by=allocation&level=0&index=0&detail=0". The status is 404 for unknown requests and 400 for
  // invalid arguments, with the body {"error": "one sentence"}.
  http::Response respond(std::string_view path, std::string_view query) const;

  // Like respond, but waits for responses that are computed in the background.
  http::Response wait_for_response(std::string_view path, std::string_view query) const;

  // Returns all documents, in the order of their numbers.
  std::vector<const Document*> documents() const;
  const std::string& program() const { return program_; }
  const JsonAnalyses& analyses() const { return analyses_; }

 private:
  struct LoadedDocument {
    Document document;
    AllocationTable table;
    explicit LoadedDocument(Document made) : document(std::move(made)), table(document) {}
  };

  struct ResolvedPath {
    const LoadedDocument* loaded = nullptr;
    std::string_view resource{};  // the path after the document
  };
  // Finds the document that the path refers to; null if there is none.
  ResolvedPath find(std::string_view path) const;
  http::Response scene() const;
  http::Response source(const Document& document, std::string_view query) const;

  const std::string program_;
  const std::string live_;
  const JsonAnalyses analyses_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<const LoadedDocument>> documents_ ASHLAR_GUARDED_BY(mutex_);
  // Declared after the documents, so that the worker, which refers to documents, is destroyed
  // first.
  mutable AnalysisWorker worker_;
};

}  // namespace ashlar::view
