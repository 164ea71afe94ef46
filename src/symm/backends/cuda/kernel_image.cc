// SPDX-License-Identifier: Apache-2.0
//
// The image is put into the object by the assembler, from the file that CMake names.
#include "symm/backends/cuda/kernel_image.h"

#include "ashlar/export.h"

#if defined(ASHLAR_KERNEL_IMAGE)
// Aligned as a driver's structures are; the zero ends PTX, which is text.
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
