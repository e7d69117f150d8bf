// SPDX-License-Identifier: Apache-2.0
/// Collective operations on rows, slices along the first dimension, whose number may differ by
/// rank.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "hvd/collectives.hpp"

namespace hvd {

/// Rows that came from all ranks, by rank.
template <typename T>
struct Gathered {
  std::vector<T> values;
  std::vector<std::size_t> rows;  ///< [size] rows that came from each rank.
};

namespace detail {

/// The number of whole rows in `count` elements.
inline std::size_t whole_rows(const char* what, const std::string& name, std::size_t count,
                              std::size_t row_count) {
  if (row_count != 0 && count % row_count == 0) return count / row_count;
  throw Error(HVD_INVALID_ARGUMENT,
              std::string(what) + " '" + name + "': " + std::to_string(count) +
                  " elements are not whole rows of " + std::to_string(row_count));
}

/// The result of tensor `index` of a completed operation whose size only the library knows.
template <typename T>
Gathered<T> copy_rows(hvd_handle handle, std::uint32_t index, std::size_t row_count) {
  static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no memory to copy into");
  hvd_gather gather{};
  check(hvd_gathered(handle, index, &gather));
  Gathered<T> result;
  result.rows.assign(gather.rows, gather.rows + gather.ranks);
  result.values.resize(static_cast<std::size_t>(gather.shape[0]) * row_count);
  if (!result.values.empty()) {
    std::memcpy(result.values.data(), gather.data, result.values.size() * sizeof(T));
  }
  return result;
}

/// Runs an operation on rows of `row_count` elements; what it gives goes to `output` if it fits.
template <typename T>
Pending run_rows(const hvd_request& request, const std::string& name, std::span<const T> values,
                 std::size_t row_count, std::span<const std::int64_t> splits, std::span<T> output) {
  const std::array<std::int64_t, 2> shape = {
      static_cast<std::int64_t>(row_count == 0 ? 0 : values.size() / row_count),
      static_cast<std::int64_t>(row_count)};
  hvd_tensor tensor{};
  tensor.input = values.data();
  tensor.output = output.data();
  tensor.output_bytes = output.size_bytes();
  tensor.dtype = dtype_of<T>();
  tensor.dimensions = 2;
  tensor.shape = shape.data();
  tensor.splits = splits.empty() ? nullptr : splits.data();
  tensor.split_count = splits.size();
  Pending owner(start(request, name, {&tensor, 1}, true));
  check(hvd_wait(owner.handle(), -1));
  return owner;
}

template <typename T>
Gathered<T> run_for_rows(const hvd_request& request, const std::string& name,
                         std::span<const T> values, std::size_t row_count,
                         std::span<const std::int64_t> splits = {}) {
  const Pending owner = run_rows<T>(request, name, values, row_count, splits, {});
  return copy_rows<T>(owner.handle(), 0, row_count);
}

/// The rows that came from each rank; throws where they did not fit.
template <typename T>
std::vector<std::size_t> run_into(const hvd_request& request, const std::string& name,
                                  std::span<const T> values, std::size_t row_count,
                                  std::span<const std::int64_t> splits, std::span<T> output) {
  const Pending owner = run_rows<T>(request, name, values, row_count, splits, output);
  hvd_gather gather{};
  check(hvd_gathered(owner.handle(), 0, &gather));
  if (gather.data != nullptr && gather.data != output.data()) {
    throw Error(HVD_INVALID_ARGUMENT, "'" + name + "': " + std::to_string(gather.shape[0]) +
                                          " rows came, which is more than an output of " +
                                          std::to_string(output.size()) +
                                          " elements holds; pass a longer one");
  }
  return {gather.rows, gather.rows + gather.ranks};
}

/// Throws unless there is one split for each rank of the set and `count` elements hold their rows.
inline void check_splits(const std::string& what, const hvd_request& request, std::size_t count,
                         std::span<const std::int64_t> splits, std::size_t row_count) {
  if (splits.empty()) return;
  std::size_t rows = 0;
  for (const std::int64_t split : splits) rows += split > 0 ? static_cast<std::size_t>(split) : 0;
  const int size = hvd_process_set_size(request.process_set);
  if (size < 0 || (splits.size() == static_cast<std::size_t>(size) && rows * row_count <= count)) {
    return;
  }
  throw Error(HVD_INVALID_ARGUMENT,
              what + ": " + std::to_string(splits.size()) + " splits of " + std::to_string(rows) +
                  " rows, for " + std::to_string(size) + " ranks and " + std::to_string(count) +
                  " elements in rows of " + std::to_string(row_count));
}

}  // namespace detail

/// Concatenates the rows of all ranks. `values` holds rows of `row_count` elements; the number of
/// rows may differ by rank.
template <typename T>
Gathered<T> allgather(const std::string& name, std::span<const T> values, std::size_t row_count = 1,
                      std::int32_t process_set = 0) {
  detail::whole_rows("allgather", name, values.size(), row_count);
  return detail::run_for_rows(detail::request_of(HVD_ALLGATHER, process_set), name, values,
                              row_count);
}

/// As allgather, into `output`, which must not overlap `values`; returns the rows from each rank.
/// An Error where it is too short: on this rank only, after the others have got their rows.
template <typename T>
std::vector<std::size_t> allgather_into(const std::string& name, std::span<const T> values,
                                        std::span<T> output, std::size_t row_count = 1,
                                        std::int32_t process_set = 0) {
  detail::whole_rows("allgather", name, values.size(), row_count);
  return detail::run_into<T>(detail::request_of(HVD_ALLGATHER, process_set), name, values,
                             row_count, {}, output);
}

/// As allgather, but only rank `root` of the job gets the rows.
template <typename T>
Gathered<T> gather(const std::string& name, std::span<const T> values, int root,
                   std::size_t row_count = 1, std::int32_t process_set = 0) {
  detail::whole_rows("gather", name, values.size(), row_count);
  hvd_request request = detail::request_of(HVD_GATHER, process_set);
  request.root = root;
  return detail::run_for_rows(request, name, values, row_count);
}

/// Sends splits[r] rows of `values`, in order, to each rank r of the set; returns what the others
/// sent. Empty splits: shared out evenly.
template <typename T>
Gathered<T> alltoall(const std::string& name, std::span<const T> values,
                     std::span<const std::int64_t> splits, std::size_t row_count = 1,
                     std::int32_t process_set = 0) {
  detail::whole_rows("alltoall", name, values.size(), row_count);
  const hvd_request request = detail::request_of(HVD_ALLTOALL, process_set);
  detail::check_splits("alltoall '" + name + "'", request, values.size(), splits, row_count);
  return detail::run_for_rows(request, name, values, row_count, splits);
}

/// As alltoall, into `output`, as allgather_into().
template <typename T>
std::vector<std::size_t> alltoall_into(const std::string& name, std::span<const T> values,
                                       std::span<const std::int64_t> splits, std::span<T> output,
                                       std::size_t row_count = 1, std::int32_t process_set = 0) {
  detail::whole_rows("alltoall", name, values.size(), row_count);
  const hvd_request request = detail::request_of(HVD_ALLTOALL, process_set);
  detail::check_splits("alltoall '" + name + "'", request, values.size(), splits, row_count);
  return detail::run_into(request, name, values, row_count, splits, output);
}

/// Sends splits[r] rows of the `values` of rank `root` of the job, in order, to each rank r of the
/// set; empty splits: shared out evenly. Elsewhere `values` and `splits` do not count.
template <typename T>
Gathered<T> scatter(const std::string& name, std::span<const T> values,
                    std::span<const std::int64_t> splits, int root, std::size_t row_count = 1,
                    std::int32_t process_set = 0) {
  hvd_request request = detail::request_of(HVD_SCATTER, process_set);
  request.root = root;
  if (hvd_rank() != root) return detail::run_for_rows<T>(request, name, {}, row_count);
  detail::whole_rows("scatter", name, values.size(), row_count);
  detail::check_splits("scatter '" + name + "'", request, values.size(), splits, row_count);
  return detail::run_for_rows(request, name, values, row_count, splits);
}

/// This rank's share of the rows of the reduction: the first ranks have one row more where they do
/// not divide.
template <typename T>
std::vector<T> reducescatter(const std::string& name, std::span<const T> values,
                             hvd_reduce_op op = HVD_AVERAGE, std::size_t row_count = 1,
                             std::int32_t process_set = 0) {
  detail::whole_rows("reducescatter", name, values.size(), row_count);
  hvd_request request = detail::request_of(HVD_REDUCESCATTER, process_set);
  request.reduce_op = op;
  return detail::run_for_rows(request, name, values, row_count).values;
}

}  // namespace hvd
