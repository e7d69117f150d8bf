// SPDX-License-Identifier: Apache-2.0
/// Allreduce of sparse tensors: header only, over hvd.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hvd/rows.hpp"

namespace hvd {

/// Some rows of a tensor, as the gradient of an embedding is. An index may stand there several
/// times: its rows are to be added.
template <typename T>
struct Sparse {
  std::vector<std::int64_t> indices;  ///< [rows]
  std::vector<T> values;              ///< [rows * row_count]
};

namespace detail {

/// Where whole numbers add up: neither their sum nor the number of ranks may fit into their type.
template <typename T>
using WideInteger = std::conditional_t<std::is_unsigned_v<T>, std::uint64_t, std::int64_t>;

/// The average over ranks of the rows that all of them gave. Of whole numbers the rows of one index
/// become one, where it came first: the quotient, toward zero, is that of their sum.
template <typename T>
Sparse<T> average_of_rows(Sparse<T> rows, std::size_t row_count, int ranks) {
  if constexpr (std::is_floating_point_v<T>) {
    for (T& value : rows.values) value /= static_cast<T>(ranks);
    return rows;
  } else {
    std::unordered_map<std::int64_t, std::size_t> places;
    Sparse<WideInteger<T>> sums;
    for (std::size_t row = 0; row < rows.indices.size(); ++row) {
      const auto [place, is_new] = places.try_emplace(rows.indices[row], sums.indices.size());
      if (is_new) {
        sums.indices.push_back(rows.indices[row]);
        sums.values.resize(sums.values.size() + row_count);
      }
      for (std::size_t i = 0; i < row_count; ++i) {
        sums.values[place->second * row_count + i] += rows.values[row * row_count + i];
      }
    }
    Sparse<T> result{std::move(sums.indices), {}};
    for (const auto sum : sums.values) {
      result.values.push_back(static_cast<T>(sum / static_cast<WideInteger<T>>(ranks)));
    }
    return result;
  }
}

}  // namespace detail

/// The sum or average over ranks of sparse tensors: the rows of all ranks, by rank, each with its
/// index. Ranks may have different numbers of rows, also none. `values` holds rows of `row_count`
/// elements. In an average of whole numbers each index stands once.
template <typename T>
Sparse<T> sparse_allreduce(const std::string& name, std::span<const std::int64_t> indices,
                           std::span<const T> values, std::size_t row_count = 1,
                           hvd_reduce_op op = HVD_AVERAGE, std::int32_t process_set = 0) {
  const std::size_t rows = detail::whole_rows("sparse allreduce", name, values.size(), row_count);
  if (rows != indices.size()) {
    throw Error(HVD_INVALID_ARGUMENT, "sparse allreduce '" + name + "': " + std::to_string(rows) +
                                          " rows, and " + std::to_string(indices.size()) +
                                          " indices; pass one for each row");
  }
  if (op != HVD_AVERAGE && op != HVD_SUM) {
    throw Error(HVD_UNSUPPORTED, "sparse allreduce '" + name +
                                     "': only a sum or an average has rows that are missing");
  }
  const int ranks = hvd_process_set_size(process_set);
  if (ranks < 0) throw Error(HVD_INVALID_ARGUMENT, hvd_last_error());
  const std::array<std::int64_t, 2> shape = {static_cast<std::int64_t>(rows),
                                             static_cast<std::int64_t>(row_count)};
  std::array<hvd_tensor, 2> tensors = {{
      {indices.data(), nullptr, HVD_INT64, 1, shape.data(), 0, nullptr, 0, 0},
      {values.data(), nullptr, dtype_of<T>(), 2, shape.data(), 0, nullptr, 0, 0},
  }};
  const hvd_handle handle =
      detail::start(detail::request_of(HVD_ALLGATHER, process_set), name, tensors, true);
  const Pending owner(handle);
  check(hvd_wait(handle, -1));
  Sparse<T> all{detail::copy_rows<std::int64_t>(handle, 0, 1).values,
                detail::copy_rows<T>(handle, 1, row_count).values};
  return op == HVD_SUM ? all : detail::average_of_rows(std::move(all), row_count, ranks);
}

}  // namespace hvd
