// SPDX-License-Identifier: Apache-2.0
#include "device/kernels/kernel_image.h"

#include <cstdint>

namespace hvd {

/// A line of the table that compile.py writes. An image without an architecture serves all.
struct KernelImage {
  std::uint32_t architecture;
  std::uint32_t is_text;
  std::uint32_t offset;  // from the table's begin
  std::uint32_t bytes;   // 0: the end of the table
};
// NOLINTNEXTLINE(readability-identifier-naming): a symbol of the assembler
extern "C" const KernelImage hvd_kernel_images[];

namespace {

bool serves(const KernelImage& image, int architecture) {
  const int own = static_cast<int>(image.architecture);
  if (own == 0) return true;
  return own <= architecture && (image.is_text != 0 || own / 10 == architecture / 10);
}

}  // namespace

std::span<const std::byte> kernel_image(int architecture) {
  const KernelImage* best = nullptr;
  for (const KernelImage* image = hvd_kernel_images; image->bytes != 0; ++image) {
    if (!serves(*image, architecture)) continue;
    const bool better =
        best == nullptr || image->is_text < best->is_text ||
        (image->is_text == best->is_text && image->architecture > best->architecture);
    if (better) best = image;
  }
  if (best == nullptr) return {};
  return {reinterpret_cast<const std::byte*>(hvd_kernel_images) + best->offset, best->bytes};
}

std::vector<int> kernel_architectures() {
  std::vector<int> found;
  for (const KernelImage* image = hvd_kernel_images; image->bytes != 0; ++image) {
    if (image->is_text == 0) found.push_back(static_cast<int>(image->architecture));
  }
  return found;
}

}  // namespace hvd
