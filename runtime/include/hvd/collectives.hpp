// SPDX-License-Identifier: Apache-2.0
/// Collective operations over std::span: header only, over the C interface in hvd.h.
///
/// Functions throw hvd::Error; destructors do not. Memory given to an asynchronous operation stays
/// the caller's: it must neither change, move (a vector that grows does) nor end until wait() has
/// returned or the hvd::Pending has ended. So declare the memory before what borrows it.
///
/// What an exception leaves unfinished, its owner ends before the memory does: it waits for the
/// other ranks, 10 s at most, then ends this rank's part in the job (hvd_abort()), so that every
/// other rank gets an hvd::Error that names this one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
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

namespace detail {

/// Seconds for the other ranks to come to what this rank will not go on with.
inline constexpr double kPatienceSeconds = 10;

/// Tells whether an exception ends the object that this is a member of.
class Unwinding {
 public:
  bool operator()() const noexcept { return std::uncaught_exceptions() > before_; }

 private:
  int before_ = std::uncaught_exceptions();
};

/// Ends a set of gradients before the memory of the gradients. A rank that an exception took out of
/// a step will not give the rest of it, for which the others wait: they are told at once.
class EndGradients {
 public:
  void operator()(hvd_gradients* gradients) const noexcept {
    if (is_unwinding_()) hvd_gradients_abandon(gradients, "an exception left a training step", 0);
    hvd_gradients_destroy(gradients);
  }

 private:
  Unwinding is_unwinding_;
};
using OwnedGradients = std::unique_ptr<hvd_gradients, EndGradients>;

}  // namespace detail

/// Joins the job for its lifetime. One at a time per process. An exception that ends it ends the
/// job for the other ranks as well: their operations fail, and name this rank.
class Context {
 public:
  explicit Context(const hvd_init_options* options = nullptr) { check(hvd_init(options)); }
  ~Context() {
    if (is_unwinding_()) hvd_abort("an exception left the scope of its hvd::Context");
    hvd_shutdown(detail::kPatienceSeconds);
  }
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
  detail::Unwinding is_unwinding_;
};

/// An operation on its way. Waits for it in the destructor, because the memory is borrowed; where
/// an exception ends it, not longer than 10 s: see the head of this file.
class Pending {
 public:
  explicit Pending(hvd_handle handle) : handle_(handle) {}
  Pending(Pending&& other) noexcept
      : handle_(std::exchange(other.handle_, 0)), is_unwinding_(other.is_unwinding_) {}
  Pending& operator=(Pending&& other) noexcept {
    if (this != &other) {
      finish();
      handle_ = std::exchange(other.handle_, 0);
    }
    return *this;
  }
  ~Pending() { finish(); }

  /// For hvd_gathered().
  hvd_handle handle() const { return handle_; }
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
  /// GPU memory: puts what follows in `stream` after the operation. The host waits until the ranks
  /// have agreed to run it: as hvd_wait_stream().
  void wait_stream(void* stream, double timeout_seconds = -1) {
    put_before(stream, timeout_seconds);
    forget();
  }
  /// As wait_stream(), and keeps the result that the library made for gathered_rows().
  void put_before(void* stream, double timeout_seconds = -1) const {
    if (handle_ != 0) check(hvd_wait_stream(handle_, stream, timeout_seconds));
  }

 private:
  void forget() { hvd_release(std::exchange(handle_, 0)); }
  void finish() noexcept {
    if (handle_ == 0) return;
    int done = 1;
    if (is_unwinding_() && hvd_wait(handle_, detail::kPatienceSeconds) == HVD_TIMEOUT &&
        hvd_poll(handle_, &done) == HVD_OK && done == 0) {
      hvd_abort("an exception left an operation that other ranks did not come to");
    }
    hvd_wait(handle_, -1);
    forget();
  }
  hvd_handle handle_;
  detail::Unwinding is_unwinding_;
};

namespace detail {

template <typename T>
hvd_tensor flat_tensor(const T* input, T* output, const std::int64_t& count) {
  return {input, output, dtype_of<T>(), 1, &count, 0, nullptr, 0, 0};
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
