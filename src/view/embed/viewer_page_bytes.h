// SPDX-License-Identifier: Apache-2.0
//
// The viewer's page, compressed with zlib, in the source file that embed_page.cc generates.
#pragma once

#include <cstddef>

namespace ashlar::view {

struct ViewerPageBytes {
  const unsigned char* bytes = nullptr;
  size_t compressed_bytes = 0;  // 0: this build has no page
  size_t html_bytes = 0;        // size after decompression
};

ViewerPageBytes viewer_page_bytes();

}  // namespace ashlar::view
