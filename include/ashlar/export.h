// SPDX-License-Identifier: Apache-2.0
//
// Marks a symbol as exported from the shared library. All other symbols are compiled with hidden
// visibility. No effect in a static build.
#pragma once

#define ASHLAR_EXPORT [[gnu::visibility("default")]]
