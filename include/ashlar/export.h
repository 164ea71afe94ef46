// SPDX-License-Identifier: Apache-2.0
//
// Marks a symbol as exported from the shared library. All other symbols are compiled with hidden
// visibility. A shared object that links the static library exports the marked symbols as well.
#pragma once

#define ASHLAR_EXPORT [[gnu::visibility("default")]]
