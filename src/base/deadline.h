// The library's own name for what stores, which users may write, need too.
#pragma once

#include "ashlar/deadline.h"  // IWYU pragma: export
