// SPDX-License-Identifier: Apache-2.0
//
// Marks what the shared library shows to its users. Everything else is compiled with hidden
// visibility. Harmless in a static build.
#pragma once

#define ASHLAR_EXPORT [[gnu::visibility("default")]]
