// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "optim/compression/compressor.h"

// The makers of the methods, one file each; the table in compressor.cc lists them. A maker returns
// null for a gradient that is no smaller in its form.
namespace hvd {

using CompressorMaker = std::unique_ptr<Compressor> (*)(const Compression& compression,
                                                        std::string_view name,
                                                        const Tensor& gradient);

/// Float8 (e4m3 or e5m2): a scale agreed by a maximum over the ranks, then one byte per element.
/// Bytes are exchanged and summed in float32, because sums of 8-bit floats overflow and lose bits.
std::unique_ptr<Compressor> make_float8_e4m3(const Compression& compression, std::string_view name,
                                             const Tensor& gradient);
std::unique_ptr<Compressor> make_float8_e5m2(const Compression& compression, std::string_view name,
                                             const Tensor& gradient);

/// The elements of the largest magnitude, with error feedback (Stich et al. 2018,
/// https://arxiv.org/abs/1809.07599), and with momentum correction and factor masking where there
/// is a momentum (Lin et al. 2018, https://arxiv.org/abs/1712.01887).
std::unique_ptr<Compressor> make_top_k(const Compression& compression, std::string_view name,
                                       const Tensor& gradient);

/// All elements: of a gradient that another method leaves whole, where it has a momentum, which the
/// optimizer then has not. Null without one.
std::unique_ptr<Compressor> make_whole(const Compression& compression, const Tensor& gradient);

/// A product of two thin matrices, with error feedback and warm start (Vogels et al. 2019,
/// https://arxiv.org/abs/1905.13727).
std::unique_ptr<Compressor> make_power_sgd(const Compression& compression, std::string_view name,
                                           const Tensor& gradient);

/// kMismatch unless each of the ranks sent so many rows: gradients of other shapes give others.
Status check_rows(const GatherResult& gathered, std::size_t rows, std::string_view what);

/// Elements of a tensor.
std::size_t count_of(const Tensor& tensor);

/// Writes and reads an array of float32 whose length both sides know.
void save_floats(std::span<const float> values, ByteWriter& writer);
Status load_floats(std::span<float> values, ByteReader& reader);

}  // namespace hvd
