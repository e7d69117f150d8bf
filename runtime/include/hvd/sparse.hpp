// SPDX-License-Identifier: Apache-2.0
/// Allreduce of sparse tensors: header only, over hvd.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
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

/// The sum or average over ranks of sparse tensors: the rows of all ranks, by rank, each with its
/// index. Ranks may have different numbers of rows, also none. `values` holds rows of `row_count`
/// elements. For an average the values are divided by the ranks of the set before they travel.
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
  std::vector<T> shares(values.begin(), values.end());
  if (op == HVD_AVERAGE) {
    const int ranks = hvd_process_set_size(process_set);
    if (ranks < 0) throw Error(HVD_INVALID_ARGUMENT, hvd_last_error());
    for (T& share : shares) share = static_cast<T>(share / static_cast<T>(ranks));
  }
  const std::array<std::int64_t, 2> shape = {static_cast<std::int64_t>(rows),
                                             static_cast<std::int64_t>(row_count)};
  std::array<hvd_tensor, 2> tensors = {{
      {indices.data(), nullptr, HVD_INT64, 1, shape.data(), 0, nullptr, 0, 0},
      {shares.data(), nullptr, dtype_of<T>(), 2, shape.data(), 0, nullptr, 0, 0},
  }};
  const hvd_handle handle =
      detail::start(detail::request_of(HVD_ALLGATHER, process_set), name, tensors, true);
  const Pending owner(handle);
  check(hvd_wait(handle, -1));
  return {detail::copy_rows<std::int64_t>(handle, 0, 1).values,
          detail::copy_rows<T>(handle, 1, row_count).values};
}

}  // namespace hvd
