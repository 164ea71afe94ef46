// SPDX-License-Identifier: Apache-2.0
//
// Stands in for the header of PyTorch with this name.
#pragma once

#include "standin/torch/standin.h"
