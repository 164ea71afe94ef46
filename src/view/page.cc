// SPDX-License-Identifier: Apache-2.0
//
// Decompresses the embedded page.
#include "view/page.h"

#include <zlib.h>

#include "base/check.h"
#include "view/embed/page_bytes.h"

namespace ashlar::view {

std::string built_in_page() {
  const PageBytes carried = page_bytes();
  std::string page(carried.page_bytes, '\0');
  if (carried.compressed_bytes == 0) return {};
  uLongf bytes = page.size();
  const int code = ::uncompress(reinterpret_cast<Bytef*>(page.data()), &bytes, carried.bytes,
                                carried.compressed_bytes);
  ASHLAR_CHECK(code == Z_OK && bytes == page.size());
  return page;
}

}  // namespace ashlar::view
