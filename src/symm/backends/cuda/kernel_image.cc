// SPDX-License-Identifier: Apache-2.0
//
// The assembler embeds the file that CMake names.
#include "symm/backends/cuda/kernel_image.h"

#include "ashlar/export.h"

#if defined(ASHLAR_KERNEL_IMAGE)
// Aligned for the driver's structures. The zero terminates PTX, which is text.
asm(R"(
.pushsection .rodata
.balign 64
.hidden kAshlarSymmKernelImage
.global kAshlarSymmKernelImage
kAshlarSymmKernelImage:
.incbin ")" ASHLAR_KERNEL_IMAGE R"("
.byte 0
.popsection
)");

extern "C" const char kAshlarSymmKernelImage[];

namespace ashlar::symm {
const void* kernel_image() { return kAshlarSymmKernelImage; }
}  // namespace ashlar::symm
#else
namespace ashlar::symm {
const void* kernel_image() { return nullptr; }
}  // namespace ashlar::symm
#endif
