// SPDX-License-Identifier: Apache-2.0
/// Collective operations and gradients for programs of libtorch: header only, over hvd.h.
///
///     hvd::Context hvd;                                             // joins the job
///     hvd::torch::broadcast_parameters(*model, 0);                  // all ranks start equal
///     hvd::torch::GradientReducer reducer(*model);                  // averages during backward()
///     for (...) { loss.backward(); reducer.synchronize(); optimizer.step(); }
///
/// Tensors are on the CPU. Functions throw hvd::Error. What is under way holds the storage of its
/// tensors, which cannot be resized meanwhile; a tensor that was given another storage, or was
/// written to, is an Error of the wait. Build with the flags of that PyTorch:
/// docs/how-to/train-with-libtorch.md.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hvd/collectives.hpp"
#include "hvd/gradients.h"

namespace hvd::torch {

/// The hvd_dtype of a tensor; throws for types that do not travel.
inline hvd_dtype dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kByte:
      return HVD_UINT8;
    case at::kChar:
      return HVD_INT8;
    case at::kShort:
      return HVD_INT16;
    case at::kInt:
      return HVD_INT32;
    case at::kLong:
      return HVD_INT64;
    case at::kHalf:
      return HVD_FLOAT16;
    case at::kFloat:
      return HVD_FLOAT32;
    case at::kDouble:
      return HVD_FLOAT64;
    case at::kBool:
      return HVD_BOOL;
    case at::kBFloat16:
      return HVD_BFLOAT16;
    case at::kComplexFloat:
      return HVD_COMPLEX64;
    case at::kComplexDouble:
      return HVD_COMPLEX128;
    default:
      break;
  }
  throw Error(HVD_UNSUPPORTED,
              std::string("a tensor of ") + at::toString(tensor.scalar_type()) + ": convert it");
}

namespace detail {

inline void check_plain(const at::Tensor& tensor) {
  if (tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided) return;
  throw Error(HVD_UNSUPPORTED,
              "a tensor that is undefined, sparse or not on the CPU: use .cpu() "
              "or .to_dense()");
}

/// Row-major memory with the tensor's values: the tensor itself where it is that already.
inline at::Tensor plain(const at::Tensor& tensor) {
  check_plain(tensor);
  return tensor.detach().resolve_conj().resolve_neg().contiguous();
}

/// Throws unless the tensor can be replaced in place.
inline void check_in_place(const at::Tensor& tensor) {
  check_plain(tensor);
  if (tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) return;
  throw Error(HVD_UNSUPPORTED, "in place: the tensor is not row-major: use contiguous()");
}

inline hvd_tensor described(const at::Tensor& source, const at::Tensor& target) {
  hvd_tensor tensor{};
  tensor.input = source.data_ptr();
  tensor.output = target.defined() ? target.data_ptr() : nullptr;
  tensor.dtype = dtype_of(source);
  tensor.dimensions = static_cast<std::int32_t>(source.dim());
  tensor.shape = source.sizes().data();
  return tensor;
}

/// The storage of a tensor that an operation under way reads and writes: kept from being freed,
/// exchanged or resized, whatever becomes of the tensor.
class Borrowed {
 public:
  Borrowed() = default;
  explicit Borrowed(const at::Tensor& tensor)
      : alias_(tensor.detach()), version_(version_of(tensor)), locks_(storage()->resizable()) {
    if (locks_) storage()->set_resizable(false);
  }
  Borrowed(Borrowed&& other) noexcept { swap(other); }
  Borrowed& operator=(Borrowed&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Borrowed() {
    if (locks_) storage()->set_resizable(true);
  }

  bool is_empty() const { return !alias_.defined(); }
  /// The tensor was given other memory, or other values.
  bool has_changed(const at::Tensor& tensor) const {
    return !tensor.defined() || tensor.data_ptr() != alias_.data_ptr() ||
           version_of(tensor) != version_;
  }

 private:
  static std::int64_t version_of(const at::Tensor& tensor) {
    return tensor.is_inference() ? 0 : static_cast<std::int64_t>(tensor._version());
  }
  c10::StorageImpl* storage() const { return alias_.storage().unsafeGetStorageImpl(); }
  void swap(Borrowed& other) noexcept {
    std::swap(alias_, other.alias_);
    std::swap(version_, other.version_);
    std::swap(locks_, other.locks_);
  }

  at::Tensor alias_;
  std::int64_t version_ = 0;
  bool locks_ = false;  ///< Another one may have made it so before.
};

/// Throws about a tensor that somebody changed while it was borrowed.
[[noreturn]] inline void throw_changed(const std::string& what) {
  throw Error(HVD_INVALID_ARGUMENT,
              "rank " + std::to_string(hvd_rank()) + ": " + what +
                  " got other memory or values while its reduction was under way; wait for it "
                  "first, then change it");
}

/// Runs an operation whose rows come from all ranks; as many as the library says.
inline at::Tensor run_for_rows(const hvd_request& request, const std::string& name,
                               const at::Tensor& source, std::span<const std::int64_t> splits) {
  hvd_tensor tensor = described(source, {});
  tensor.splits = splits.empty() ? nullptr : splits.data();
  tensor.split_count = splits.size();
  Pending owner(hvd::detail::start(request, name, {&tensor, 1}, true));
  check(hvd_wait(owner.handle(), -1));
  hvd_gather gather{};
  check(hvd_gathered(owner.handle(), 0, &gather));
  at::Tensor rows = at::empty(
      at::IntArrayRef(gather.shape, static_cast<std::size_t>(gather.dimensions)), source.options());
  if (gather.data != nullptr) std::memcpy(rows.data_ptr(), gather.data, rows.nbytes());
  return rows;
}

}  // namespace detail

/// How tensors are reduced, and between whom.
struct Reduction {
  hvd_reduce_op op = HVD_AVERAGE;
  std::string name{};  ///< Equal on all ranks; empty: from the order of calls.
  std::int32_t process_set = 0;
};

/// An operation on its way, with the tensors that it needs and their storage.
class PendingTensors {
 public:
  PendingTensors(std::vector<at::Tensor> tensors, std::vector<detail::Borrowed> borrowed,
                 Pending pending)
      : tensors_(std::move(tensors)),
        borrowed_(std::move(borrowed)),
        pending_(std::move(pending)) {}

  bool is_done() const { return pending_.is_done(); }
  /// The tensors, after their values have come.
  const std::vector<at::Tensor>& wait() {
    pending_.wait();
    const std::vector<detail::Borrowed> borrowed = std::move(borrowed_);
    borrowed_.clear();
    for (std::size_t i = 0; i < borrowed.size(); ++i) {
      if (borrowed[i].has_changed(tensors_[i])) {
        detail::throw_changed("allreduce: tensor " + std::to_string(i));
      }
    }
    return tensors_;
  }

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<detail::Borrowed> borrowed_;
  Pending pending_;
};

/// Starts replacing the tensors by their reductions, which complete as one.
inline PendingTensors allreduce_async_(std::vector<at::Tensor> tensors,
                                       const Reduction& reduction = {}) {
  std::vector<hvd_tensor> described;
  std::vector<detail::Borrowed> borrowed;
  described.reserve(tensors.size());
  borrowed.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    detail::check_in_place(tensor);
    borrowed.emplace_back(tensor);
    described.push_back(detail::described(tensor, tensor));
  }
  hvd_request request = hvd::detail::request_of(HVD_ALLREDUCE, reduction.process_set);
  request.reduce_op = reduction.op;
  Pending pending = hvd::detail::submit(request, reduction.name, described);
  return {std::move(tensors), std::move(borrowed), std::move(pending)};
}

/// Replaces the tensor by its reduction over the ranks.
inline void allreduce_(const at::Tensor& tensor, const Reduction& reduction = {}) {
  allreduce_async_({tensor}, reduction).wait();
}

/// The reduction over the ranks. Has no gradient.
inline at::Tensor allreduce(const at::Tensor& tensor, const Reduction& reduction = {}) {
  at::Tensor result = detail::plain(tensor).clone();
  allreduce_(result, reduction);
  return result;
}

/// This rank's share of the rows of the reduction; the first ranks have one row more.
inline at::Tensor reducescatter(const at::Tensor& tensor, const Reduction& reduction = {}) {
  const at::Tensor source = detail::plain(tensor);
  hvd_request request = hvd::detail::request_of(HVD_REDUCESCATTER, reduction.process_set);
  request.reduce_op = reduction.op;
  return detail::run_for_rows(request, reduction.name, source, {});
}

/// Replaces the tensor by that of rank `root` of the job.
inline void broadcast_(const at::Tensor& tensor, int root, const std::string& name = "",
                       std::int32_t process_set = 0) {
  detail::check_in_place(tensor);
  hvd_tensor one = detail::described(tensor, tensor);
  hvd_request request = hvd::detail::request_of(HVD_BROADCAST, process_set);
  request.root = root;
  Pending(hvd::detail::start(request, name, {&one, 1}, true)).wait();
}

/// The rows of all ranks, by rank; their number may differ.
inline at::Tensor allgather(const at::Tensor& tensor, const std::string& name = "",
                            std::int32_t process_set = 0) {
  const hvd_request request = hvd::detail::request_of(HVD_ALLGATHER, process_set);
  return detail::run_for_rows(request, name, detail::plain(tensor), {});
}

/// Sends `splits` rows to each rank (empty: equal parts); the rows that came.
inline at::Tensor alltoall(const at::Tensor& tensor, std::span<const std::int64_t> splits = {},
                           const std::string& name = "", std::int32_t process_set = 0) {
  const hvd_request request = hvd::detail::request_of(HVD_ALLTOALL, process_set);
  return detail::run_for_rows(request, name, detail::plain(tensor), splits);
}

/// Replaces parameters and buffers of a module by those of rank `root`; call once before training.
inline void broadcast_parameters(const ::torch::nn::Module& module, int root,
                                 std::int32_t process_set = 0) {
  const auto copy = [&](const std::string& name, const at::Tensor& value) {
    if (!value.defined()) return;
    const at::Tensor mine = value.detach();
    at::Tensor flat = detail::plain(mine);
    broadcast_(flat, root, "broadcast." + name, process_set);
    if (flat.data_ptr() != mine.data_ptr()) mine.copy_(flat);
  };
  for (const auto& one : module.named_parameters()) copy(one.key(), one.value());
  for (const auto& one : module.named_buffers()) copy(one.key(), one.value());
}

/// Reduces the gradients of a module while the backward pass goes on; synchronize() ends a step.
///
/// A parameter without a gradient on this rank counts as zeros. The module must live on, and its
/// parameters stay the same. From the hook of a gradient until synchronize() the gradient is
/// borrowed: it is neither clipped, scaled nor exchanged in between. An exception that ends the
/// reducer in the middle of a step ends this rank's part in the job. One thread at a time.
class GradientReducer {
 public:
  /// Settings, equal on all ranks.
  struct Options {
    hvd_reduce_op op = HVD_AVERAGE;
    int passes_per_step = 1;  ///< Backward passes that add up before a reduction.
    std::int32_t process_set = 0;
  };

  explicit GradientReducer(const ::torch::nn::Module& module)
      : GradientReducer(module, Options{}) {}
  GradientReducer(const ::torch::nn::Module& module, const Options& options) {
    for (const auto& one : module.named_parameters()) {
      if (!one.value().requires_grad()) continue;
      detail::check_plain(one.value());
      names_.push_back(one.key());
      parameters_.push_back(one.value());
    }
    in_flight_.resize(parameters_.size());
    gradients_.reset(create(options));
    for (std::size_t i = 0; i < parameters_.size(); ++i) hook(i);
  }
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;
  ~GradientReducer() {
    for (const auto& [node, key] : hooks_) node->del_post_hook(key);
  }

  /// Sends what the backward pass has not sent, and waits for all. Then clip or step. Throws where
  /// a gradient was exchanged or written to before.
  void synchronize() {
    std::uint32_t count = 0;
    check(hvd_gradients_missing(gradients_.get(), nullptr, 0, &count));
    std::vector<std::uint32_t> missing(count);
    check(hvd_gradients_missing(gradients_.get(), missing.data(), count, &count));
    for (const std::uint32_t index : missing) {
      at::Tensor& gradient = parameters_[index].mutable_grad();
      if (!gradient.defined())
        gradient = at::zeros(parameters_[index].sizes(),
                             parameters_[index].options().requires_grad(false));
      ready(index, 1);
    }
    check(hvd_gradients_wait(gradients_.get(), -1));
    const auto borrowed = std::exchange(in_flight_, std::vector<detail::Borrowed>(names_.size()));
    for (std::size_t i = 0; i < borrowed.size(); ++i) {
      if (borrowed[i].is_empty() || !borrowed[i].has_changed(parameters_[i].grad())) continue;
      detail::throw_changed("the gradient of '" + names_[i] + "'");
    }
  }

 private:
  /// Called by autograd when a gradient has been added up.
  class Ready : public ::torch::autograd::FunctionPostHook {
   public:
    Ready(GradientReducer* owner, std::size_t index) : owner_(owner), index_(index) {}
    ::torch::autograd::variable_list operator()(const ::torch::autograd::variable_list& outputs,
                                                const ::torch::autograd::variable_list&) override {
      owner_->ready(index_, 0);
      return outputs;
    }

   private:
    GradientReducer* owner_;
    std::size_t index_;
  };

  // Its type differs between versions of PyTorch.
  using Node = decltype(::torch::autograd::impl::grad_accumulator(std::declval<at::Tensor>()));

  void hook(std::size_t index) {
    // The node lives for as long as somebody holds it.
    auto node = ::torch::autograd::impl::grad_accumulator(parameters_[index]);
    const auto key = node->add_post_hook(std::make_unique<Ready>(this, index));
    hooks_.emplace_back(std::move(node), key);
  }

  void ready(std::size_t index, int last_pass) {
    at::Tensor& gradient = parameters_[index].mutable_grad();
    detail::check_plain(gradient);
    if (!gradient.is_contiguous()) gradient = gradient.contiguous();
    check(hvd_gradient_ready(gradients_.get(), static_cast<std::uint32_t>(index),
                             gradient.data_ptr(), last_pass));
    in_flight_[index] = detail::Borrowed();  // of the last pass, first: it is the same storage
    in_flight_[index] = detail::Borrowed(gradient);
  }

  hvd_gradients* create(const Options& options) const {
    std::vector<const char*> names;
    std::vector<hvd_tensor> tensors;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      names.push_back(names_[i].c_str());
      tensors.push_back(detail::described(parameters_[i], {}));
    }
    hvd_gradients_options given = HVD_GRADIENTS_OPTIONS_INITIALIZER;
    given.reduce_op = options.op;
    given.passes_per_step = options.passes_per_step;
    given.process_set = options.process_set;
    hvd_gradients* created = nullptr;
    check(hvd_gradients_create(&given, names.data(), tensors.data(),
                               static_cast<std::uint32_t>(tensors.size()), &created));
    return created;
  }

  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;
  std::vector<detail::Borrowed> in_flight_;  ///< [parameters] since the last pass; else empty.
  hvd::detail::OwnedGradients gradients_;
  std::vector<std::pair<Node, std::uintptr_t>> hooks_;
};

}  // namespace hvd::torch
