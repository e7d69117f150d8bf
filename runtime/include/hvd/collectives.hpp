// SPDX-License-Identifier: Apache-2.0
/// Collective operations over std::span: header only, over the C interface in hvd.h.
///
/// Functions throw hvd::Error. Memory given to an asynchronous operation stays the caller's and
/// must live until wait() has returned.
#pragma once

#include <array>
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

inline hvd_request request_of(hvd_kind kind, std::int32_t process_set) {
  hvd_request request = HVD_REQUEST_INITIALIZER;
  request.kind = kind;
  request.process_set = process_set;
  return request;
}

/// The tensors' memory is borrowed until it is over. `waits`: the caller waits at once, and so
/// drives it.
inline hvd_handle start(hvd_request request, const std::string& name, std::span<hvd_tensor> tensors,
                        bool waits = false) {
  request.name = name.c_str();
  request.tensors = tensors.data();
  request.tensor_count = static_cast<std::uint32_t>(tensors.size());
  if (waits) request.flags |= HVD_SUBMIT_MORE;
  hvd_handle handle = 0;
  check(hvd_submit(&request, &handle));
  return handle;
}

inline Pending submit(const hvd_request& request, const std::string& name,
                      std::span<hvd_tensor> tensors) {
  return Pending(start(request, name, tensors));
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
  hvd_request request = detail::request_of(HVD_ALLREDUCE, process_set);
  request.reduce_op = op;
  request.wire = wire;
  return detail::submit(request, name, {&tensor, 1});
}

/// Replaces `buffer` by its reduction over ranks.
template <typename T>
void allreduce(const std::string& name, std::span<T> buffer, hvd_reduce_op op = HVD_AVERAGE,
               std::int32_t process_set = 0) {
  if (process_set != 0) {
    const auto count = static_cast<std::int64_t>(buffer.size());
    hvd_tensor tensor = detail::flat_tensor<T>(buffer.data(), buffer.data(), count);
    hvd_request request = detail::request_of(HVD_ALLREDUCE, process_set);
    request.reduce_op = op;
    Pending(detail::start(request, name, {&tensor, 1}, true)).wait();
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
  hvd_request request = detail::request_of(HVD_ALLREDUCE, process_set);
  request.reduce_op = op;
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
  hvd_request request = detail::request_of(HVD_BROADCAST, process_set);
  request.root = root;
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

/// Runs an operation on rows of `row_count` elements whose result the library makes.
template <typename T>
Gathered<T> run_for_rows(const hvd_request& request, const std::string& name,
                         std::span<const T> values, std::size_t row_count,
                         std::span<const std::int64_t> splits = {}) {
  const std::array<std::int64_t, 2> shape = {
      static_cast<std::int64_t>(row_count == 0 ? 0 : values.size() / row_count),
      static_cast<std::int64_t>(row_count)};
  hvd_tensor tensor{values.data(), nullptr, dtype_of<T>(), 2,
                    shape.data(),  0,       splits.data(), splits.size()};
  if (splits.empty()) tensor.splits = nullptr;
  const hvd_handle handle = start(request, name, {&tensor, 1}, true);
  const Pending owner(handle);
  check(hvd_wait(handle, -1));
  return copy_rows<T>(handle, 0, row_count);
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

/// output = reduction of input over ranks, on rank `root` of the job only; elsewhere `output` may
/// be empty.
template <typename T>
void reduce(const std::string& name, std::span<const T> input, std::span<T> output, int root,
            hvd_reduce_op op = HVD_AVERAGE, std::int32_t process_set = 0) {
  if (hvd_rank() == root && input.size() != output.size()) {
    throw Error(HVD_INVALID_ARGUMENT, "reduce '" + name + "': input has " +
                                          std::to_string(input.size()) + " elements, output " +
                                          std::to_string(output.size()));
  }
  const auto count = static_cast<std::int64_t>(input.size());
  hvd_tensor tensor = detail::flat_tensor(input.data(), output.data(), count);
  hvd_request request = detail::request_of(HVD_REDUCE, process_set);
  request.root = root;
  request.reduce_op = op;
  Pending(detail::start(request, name, {&tensor, 1}, true)).wait();
}

/// Returns when every rank of the process set has called it.
inline void barrier(std::int32_t process_set = 0) {
  if (process_set == 0) return check(hvd_barrier());
  Pending(detail::start(detail::request_of(HVD_BARRIER, process_set), "", {}, true)).wait();
}

}  // namespace hvd
