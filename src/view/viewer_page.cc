// SPDX-License-Identifier: Apache-2.0
//
// Decompresses the embedded page.
#include "view/viewer_page.h"

#include <zlib.h>

#include "base/check.h"
#include "view/embed/viewer_page_bytes.h"

namespace ashlar::view {

std::string embedded_viewer_page() {
  const ViewerPageBytes embedded = viewer_page_bytes();
  std::string page(embedded.html_bytes, '\0');
  if (embedded.compressed_bytes == 0) return {};
  uLongf bytes = page.size();
  const int code = ::uncompress(reinterpret_cast<Bytef*>(page.data()), &bytes, embedded.bytes,
                                embedded.compressed_bytes);
  ASHLAR_CHECK(code == Z_OK && bytes == page.size());
  return page;
}

}  // namespace ashlar::view
