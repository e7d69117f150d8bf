// SPDX-License-Identifier: Apache-2.0
/// Collective operations over std::span: header only, over the C interface in hvd.h.
///
/// Functions throw hvd::Error. Memory given to an asynchronous operation stays the caller's and
/// must live until wait() has returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hvd/hvd.h"

namespace hvd {

/// A failure: what() is the sentence, status() says what the caller can do.
class Error : public std::runtime_error {
 public:
  Error(hvd_status status, const std::string& text) : std::runtime_error(text), status_(status) {}
  hvd_status status() const noexcept { return status_; }

 private:
  hvd_status status_;
};

/// Throws the failure of this thread's last call.
inline void check(hvd_status status) {
  if (status != HVD_OK) throw Error(status, hvd_last_error());
}

/// The hvd_dtype of a C++ type.
template <typename T>
constexpr hvd_dtype dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>) {
    return HVD_FLOAT32;
  } else if constexpr (std::is_same_v<U, double>) {
    return HVD_FLOAT64;
  } else if constexpr (std::is_same_v<U, bool>) {
    return HVD_BOOL;
  } else {
    static_assert(std::is_integral_v<U>, "no hvd_dtype for this type");
    constexpr bool kSigned = std::is_signed_v<U>;
    if constexpr (sizeof(U) == 1) return kSigned ? HVD_INT8 : HVD_UINT8;
    if constexpr (sizeof(U) == 2) return kSigned ? HVD_INT16 : HVD_UINT16;
    if constexpr (sizeof(U) == 4) return kSigned ? HVD_INT32 : HVD_UINT32;
    if constexpr (sizeof(U) == 8) return kSigned ? HVD_INT64 : HVD_UINT64;
  }
}

/// Joins the job for its lifetime. One at a time per process.
class Context {
 public:
  explicit Context(const hvd_init_options* options = nullptr) { check(hvd_init(options)); }
  ~Context() { hvd_shutdown(kPatienceSeconds); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int rank() const { return hvd_rank(); }
  int size() const { return hvd_size(); }
  int local_rank() const { return hvd_local_rank(); }
  int local_size() const { return hvd_local_size(); }
  int cross_rank() const { return hvd_cross_rank(); }
  int cross_size() const { return hvd_cross_size(); }
  /// Ranks, nodes, backends and why, as text.
  std::string describe() const {
    const char* text = hvd_describe();
    if (text == nullptr) throw Error(HVD_ABORTED, hvd_last_error());
    return text;
  }

 private:
  static constexpr double kPatienceSeconds = 10;
};

/// An operation on its way. Waits for it in the destructor, because the memory is borrowed.
class Pending {
 public:
  explicit Pending(hvd_handle handle) : handle_(handle) {}
  Pending(Pending&& other) noexcept : handle_(std::exchange(other.handle_, 0)) {}
  Pending& operator=(Pending&& other) noexcept {
    if (this != &other) {
      finish();
      handle_ = std::exchange(other.handle_, 0);
    }
    return *this;
  }
  ~Pending() { finish(); }

  /// True when wait() would return at once.
  bool is_done() const {
    int done = 1;
    if (handle_ != 0) check(hvd_poll(handle_, &done));
    return done != 0;
  }
  /// Waits for the operation; negative: no limit. On HVD_TIMEOUT it may be called again.
  void wait(double timeout_seconds = -1) {
    if (handle_ == 0) return;
    const hvd_status status = hvd_wait(handle_, timeout_seconds);
    if (status == HVD_OK) return forget();
    const std::string text = hvd_last_error();
    int done = 1;
    if (hvd_poll(handle_, &done) != HVD_OK || done != 0) forget();
    throw Error(status, text);
  }

 private:
  void forget() { hvd_release(std::exchange(handle_, 0)); }
  void finish() noexcept {
    if (handle_ == 0) return;
    hvd_wait(handle_, -1);
    forget();
  }
  hvd_handle handle_;
};

namespace detail {

template <typename T>
hvd_tensor flat_tensor(const T* input, T* output, const std::int64_t& count) {
  return {input, output, dtype_of<T>(), 1, &count, 0, nullptr, 0};
}

inline Pending submit(hvd_request request, const std::string& name, std::span<hvd_tensor> tensors) {
  request.name = name.c_str();
  request.tensors = tensors.data();
  request.tensor_count = static_cast<std::uint32_t>(tensors.size());
  hvd_handle handle = 0;
  check(hvd_submit(&request, &handle));
  return Pending(handle);
}

}  // namespace detail

/// Starts output = reduction of input over ranks. Equal lengths; may be the same memory. float and
/// double may travel as a half type (`wire`).
template <typename T>
Pending allreduce_async(const std::string& name, std::span<const T> input, std::span<T> output,
                        hvd_reduce_op op = HVD_AVERAGE, hvd_wire wire = HVD_WIRE_SAME,
                        std::int32_t process_set = 0) {
  if (input.size() != output.size()) {
    throw Error(HVD_INVALID_ARGUMENT, "allreduce '" + name + "': input has " +
                                          std::to_string(input.size()) + " elements, output " +
                                          std::to_string(output.size()));
  }
  const auto count = static_cast<std::int64_t>(input.size());
  hvd_tensor tensor = detail::flat_tensor(input.data(), output.data(), count);
  hvd_request request = HVD_REQUEST_INITIALIZER;
  request.reduce_op = op;
  request.wire = wire;
  request.process_set = process_set;
  return detail::submit(request, name, {&tensor, 1});
}

/// Replaces `buffer` by its reduction over ranks.
template <typename T>
void allreduce(const std::string& name, std::span<T> buffer, hvd_reduce_op op = HVD_AVERAGE,
               std::int32_t process_set = 0) {
  if (process_set != 0) {
    allreduce_async<T>(name, std::span<const T>(buffer), buffer, op, HVD_WIRE_SAME, process_set)
        .wait();
    return;
  }
  check(
      hvd_allreduce(name.c_str(), buffer.data(), buffer.data(), buffer.size(), dtype_of<T>(), op));
}

/// Starts the reduction in place of several buffers that complete as one.
template <typename T>
Pending grouped_allreduce_async(const std::string& name, std::span<const std::span<T>> buffers,
                                hvd_reduce_op op = HVD_AVERAGE, std::int32_t process_set = 0) {
  std::vector<std::int64_t> counts(buffers.size());
  std::vector<hvd_tensor> tensors(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    counts[i] = static_cast<std::int64_t>(buffers[i].size());
    tensors[i] = detail::flat_tensor(buffers[i].data(), buffers[i].data(), counts[i]);
  }
  hvd_request request = HVD_REQUEST_INITIALIZER;
  request.reduce_op = op;
  request.process_set = process_set;
  return detail::submit(request, name, tensors);
}

template <typename T>
void grouped_allreduce(const std::string& name, std::span<const std::span<T>> buffers,
                       hvd_reduce_op op = HVD_AVERAGE, std::int32_t process_set = 0) {
  grouped_allreduce_async(name, buffers, op, process_set).wait();
}

/// Starts replacing `buffer` by that of rank `root` of the job.
template <typename T>
Pending broadcast_async(const std::string& name, std::span<T> buffer, int root,
                        std::int32_t process_set = 0) {
  const auto count = static_cast<std::int64_t>(buffer.size());
  hvd_tensor tensor = detail::flat_tensor<T>(buffer.data(), buffer.data(), count);
  hvd_request request = HVD_REQUEST_INITIALIZER;
  request.kind = HVD_BROADCAST;
  request.root = root;
  request.process_set = process_set;
  return detail::submit(request, name, {&tensor, 1});
}

template <typename T>
void broadcast(const std::string& name, std::span<T> buffer, int root,
               std::int32_t process_set = 0) {
  broadcast_async(name, buffer, root, process_set).wait();
}

/// Rows that came from all ranks, by rank.
template <typename T>
struct Gathered {
  std::vector<T> values;
  std::vector<std::size_t> rows;  ///< [size] rows that came from each rank.
};

namespace detail {

/// The result of a completed operation whose size only the library knows; forgets the operation.
template <typename T>
Gathered<T> take_rows(hvd_handle handle, std::size_t row_count) {
  static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no memory to copy into");
  const Pending owner(handle);
  hvd_gather gather{};
  check(hvd_gathered(handle, 0, &gather));
  Gathered<T> result;
  result.rows.assign(gather.rows, gather.rows + gather.ranks);
  result.values.resize(static_cast<std::size_t>(gather.shape[0]) * row_count);
  if (!result.values.empty()) {
    std::memcpy(result.values.data(), gather.data, result.values.size() * sizeof(T));
  }
  return result;
}

/// The number of whole rows in `count` elements.
inline std::size_t whole_rows(const char* what, const std::string& name, std::size_t count,
                              std::size_t row_count) {
  if (row_count != 0 && count % row_count == 0) return count / row_count;
  throw Error(HVD_INVALID_ARGUMENT,
              std::string(what) + " '" + name + "': " + std::to_string(count) +
                  " elements are not whole rows of " + std::to_string(row_count));
}

/// Throws unless `splits` has one count for each rank and `count` elements hold their rows.
inline void check_splits(const char* what, const std::string& name, std::size_t count,
                         std::span<const std::int64_t> splits, std::size_t row_count) {
  std::size_t rows = 0;
  for (const std::int64_t split : splits) rows += split > 0 ? static_cast<std::size_t>(split) : 0;
  const int size = hvd_size();
  if (size < 0 || (splits.size() == static_cast<std::size_t>(size) && rows * row_count <= count)) {
    return;
  }
  throw Error(HVD_INVALID_ARGUMENT,
              std::string(what) + " '" + name + "': " + std::to_string(splits.size()) +
                  " splits of " + std::to_string(rows) + " rows, for " + std::to_string(size) +
                  " ranks and " + std::to_string(count) + " elements in rows of " +
                  std::to_string(row_count));
}

}  // namespace detail

/// Concatenates the rows of all ranks. `values` holds rows of `row_count` elements; the number of
/// rows may differ by rank.
template <typename T>
Gathered<T> allgather(const std::string& name, std::span<const T> values,
                      std::size_t row_count = 1) {
  const std::size_t rows = detail::whole_rows("allgather", name, values.size(), row_count);
  hvd_handle handle = 0;
  check(hvd_allgather(name.c_str(), values.data(), rows, row_count, dtype_of<T>(), &handle));
  return detail::take_rows<T>(handle, row_count);
}

/// As allgather, but only rank `root` gets the rows.
template <typename T>
Gathered<T> gather(const std::string& name, std::span<const T> values, int root,
                   std::size_t row_count = 1) {
  const std::size_t rows = detail::whole_rows("gather", name, values.size(), row_count);
  hvd_handle handle = 0;
  check(
      hvd_gather_rows(name.c_str(), values.data(), rows, row_count, dtype_of<T>(), root, &handle));
  return detail::take_rows<T>(handle, row_count);
}

/// Sends splits[r] rows of `values`, in order, to each rank r; returns what the others sent.
template <typename T>
Gathered<T> alltoall(const std::string& name, std::span<const T> values,
                     std::span<const std::int64_t> splits, std::size_t row_count = 1) {
  detail::check_splits("alltoall", name, values.size(), splits, row_count);
  hvd_handle handle = 0;
  check(
      hvd_alltoall(name.c_str(), values.data(), splits.data(), row_count, dtype_of<T>(), &handle));
  return detail::take_rows<T>(handle, row_count);
}

/// Sends splits[r] rows of the `values` of rank `root`, in order, to each rank r. Elsewhere
/// `values` and `splits` may be empty.
template <typename T>
Gathered<T> scatter(const std::string& name, std::span<const T> values,
                    std::span<const std::int64_t> splits, int root, std::size_t row_count = 1) {
  if (hvd_rank() == root) {
    detail::check_splits("scatter", name, values.size(), splits, row_count);
  }
  hvd_handle handle = 0;
  check(hvd_scatter_rows(name.c_str(), values.data(), splits.data(), row_count, dtype_of<T>(), root,
                         &handle));
  return detail::take_rows<T>(handle, row_count);
}

/// This rank's share of the rows of the reduction: the first ranks have one row more where they do
/// not divide.
template <typename T>
std::vector<T> reducescatter(const std::string& name, std::span<const T> values,
                             hvd_reduce_op op = HVD_AVERAGE, std::size_t row_count = 1) {
  const std::size_t rows = detail::whole_rows("reducescatter", name, values.size(), row_count);
  hvd_handle handle = 0;
  check(
      hvd_reducescatter(name.c_str(), values.data(), rows, row_count, dtype_of<T>(), op, &handle));
  return detail::take_rows<T>(handle, row_count).values;
}

/// output = reduction of input over ranks, on rank `root` only; elsewhere `output` may be empty.
template <typename T>
void reduce(const std::string& name, std::span<const T> input, std::span<T> output, int root,
            hvd_reduce_op op = HVD_AVERAGE) {
  if (hvd_rank() == root && input.size() != output.size()) {
    throw Error(HVD_INVALID_ARGUMENT, "reduce '" + name + "': input has " +
                                          std::to_string(input.size()) + " elements, output " +
                                          std::to_string(output.size()));
  }
  check(
      hvd_reduce(name.c_str(), input.data(), output.data(), input.size(), dtype_of<T>(), op, root));
}

/// Returns when every rank of the process set has called it.
inline void barrier(std::int32_t process_set = 0) {
  if (process_set == 0) return check(hvd_barrier());
  hvd_request request = HVD_REQUEST_INITIALIZER;
  request.kind = HVD_BARRIER;
  request.process_set = process_set;
  detail::submit(request, "", {}).wait();
}

}  // namespace hvd
