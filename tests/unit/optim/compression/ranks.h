// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "optim/compression/compressor.h"

namespace hvd {

using Vector = std::vector<float>;

/// One compressor for each of N ranks, and plain collectives between them.
class Ranks {
 public:
  Ranks(std::size_t size, const Compression& compression, std::vector<std::int64_t> shape) {
    const Tensor gradient{.shape = std::move(shape)};
    for (std::size_t rank = 0; rank < size; ++rank) {
      ranks_.push_back(make_compressor(compression, "w", gradient).value());
    }
  }

  Compressor& operator[](std::size_t rank) { return *ranks_[rank]; }
  bool travel_whole() const { return ranks_.front() == nullptr; }
  std::size_t bytes_sent() const { return bytes_sent_; }

  /// Replaces the gradients of all ranks by what the ranks make of them.
  void step(std::vector<Vector>& gradients, const Allreduce& allreduce = {ReduceOp::kAverage},
            double unit = 1, bool others_are_finite = true) {
    bytes_sent_ = 0;
    held_.clear();
    std::vector<std::optional<Exchange>> exchanges;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      exchanges.emplace_back(ranks_[rank]->begin({.gradient = gradients[rank],
                                                  .allreduce = allreduce,
                                                  .ranks = static_cast<int>(ranks_.size()),
                                                  .unit = unit}));
    }
    while (exchanges.front()) {
      held_.push_back(run(exchanges));
      const auto& gathered = held_.back();
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        const GatherResult* const result = gathered.empty() ? nullptr : &gathered[rank];
        exchanges[rank] = ranks_[rank]->resume(result).value();
        ASSERT_EQ(exchanges[rank].has_value(), exchanges.front().has_value());
      }
    }
    const bool is_finite = ranks_.front()->is_finite();
    for (const auto& one : ranks_) {
      ASSERT_EQ(one->is_finite(), is_finite);
      one->finish(is_finite && others_are_finite);
    }
  }

  /// What a rank keeps between steps.
  Bytes state(std::size_t rank) const {
    ByteWriter writer;
    ranks_[rank]->save(writer);
    return writer.take();
  }

 private:
  static std::size_t count_of(const Exchange& exchange) {
    std::size_t count = 1;
    for (const auto extent : exchange.tensor.shape) count *= static_cast<std::size_t>(extent);
    return count;
  }

  std::vector<GatherResult> run(const std::vector<std::optional<Exchange>>& exchanges) {
    const Exchange& first = *exchanges.front();
    const std::size_t width = size_of(first.tensor.dtype);
    bytes_sent_ += count_of(first) * width;
    if (const auto* allreduce = std::get_if<Allreduce>(&first.operation)) {
      reduce(exchanges, *allreduce, count_of(first));
      return {};
    }
    const bool is_alltoall = std::holds_alternative<Alltoall>(first.operation);
    const std::size_t size = exchanges.size();
    std::vector<GatherResult> results(size);
    for (std::size_t to = 0; to < size; ++to) {
      std::vector<std::byte> bytes;
      for (const auto& from : exchanges) {
        const std::size_t count = count_of(*from);
        // The engine takes no alltoall without splits of elements that do not divide.
        EXPECT_TRUE(!is_alltoall || count % size == 0 || from->tensor.splits.size() == size);
        const std::size_t begin = is_alltoall ? first_row_of(count, size, to) : 0;
        const std::size_t end = is_alltoall ? first_row_of(count, size, to + 1) : count;
        const auto* const data = static_cast<const std::byte*>(from->tensor.input);
        bytes.insert(bytes.end(), data + begin * width, data + end * width);
        results[to].rows.push_back(static_cast<std::int64_t>(end - begin));
      }
      results[to].data.reset(new std::byte[bytes.size()]);
      std::copy(bytes.begin(), bytes.end(), results[to].data.get());
    }
    return results;
  }

  static void reduce(const std::vector<std::optional<Exchange>>& exchanges,
                     const Allreduce& allreduce, std::size_t count) {
    Vector result(count, allreduce.op == ReduceOp::kMax ? -INFINITY : 0.0F);
    for (const auto& exchange : exchanges) {
      const auto* values = static_cast<const float*>(exchange->tensor.input);
      for (std::size_t i = 0; i < count; ++i) {
        const float value = static_cast<float>(allreduce.prescale) * values[i];
        if (allreduce.op == ReduceOp::kMax) {
          result[i] = result[i] < value || value != value ? value : result[i];
        } else {
          result[i] += value;
        }
      }
    }
    const double divisor =
        allreduce.op == ReduceOp::kAverage ? static_cast<double>(exchanges.size()) : 1.0;
    for (float& value : result) value *= static_cast<float>(allreduce.postscale / divisor);
    for (const auto& exchange : exchanges) {
      std::memcpy(exchange->tensor.output, result.data(), count * sizeof(float));
    }
  }

  std::vector<std::unique_ptr<Compressor>> ranks_;
  std::vector<std::vector<GatherResult>> held_;  ///< Of this step.
  std::size_t bytes_sent_ = 0;
};

/// Numbers that look random, the same everywhere.
inline Vector noise(std::size_t count, std::uint32_t seed) {
  Vector values(count);
  std::uint32_t state = seed * 2654435761U + 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<std::int32_t>(state)) / 2147483648.0F;
  }
  return values;
}

inline std::vector<Vector> noise_by_rank(std::size_t ranks, std::size_t count,
                                         std::uint32_t seed = 1) {
  std::vector<Vector> gradients;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    gradients.push_back(noise(count, seed * 100 + static_cast<std::uint32_t>(rank)));
  }
  return gradients;
}

/// Equal as bits: NaN equals NaN.
inline bool same_bits(const Vector& a, const Vector& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline void expect_same_on_all(const std::vector<Vector>& gradients) {
  for (const Vector& one : gradients) EXPECT_TRUE(same_bits(one, gradients.front()));
}

}  // namespace hvd
