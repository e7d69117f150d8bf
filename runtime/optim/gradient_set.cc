// SPDX-License-Identifier: Apache-2.0
#include "optim/gradient_set.h"

#include <utility>

namespace hvd {

namespace {

std::size_t bytes_of(const Tensor& tensor) {
  std::size_t bytes = size_of(tensor.dtype);
  for (const std::int64_t extent : tensor.shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

}  // namespace

GradientSet::GradientSet(std::vector<Gradient> gradients, Options options) : options_(options) {
  gradients_.reserve(gradients.size());
  for (Gradient& gradient : gradients) {
    const std::size_t bytes = bytes_of(gradient.tensor);
    gradients_.push_back(Entry{.gradient = std::move(gradient), .bytes = bytes});
  }
}

Status GradientSet::check_index(std::size_t index) const {
  if (index < gradients_.size()) return Status::ok();
  return error(Code::kInvalidArgument, "gradient {}: the set has {}", index, gradients_.size());
}

Result<std::optional<Request>> GradientSet::ready(std::size_t index, void* data, bool last_pass) {
  HVD_TRY(check_index(index));
  Entry& entry = gradients_[index];
  if (entry.is_submitted) {
    return error(Code::kInvalidArgument,
                 "gradient '{}': another backward pass after {} of {}; wait for the step first, or "
                 "raise the passes per step",
                 entry.gradient.name, entry.passes, options_.passes_per_step);
  }
  ++entry.passes;
  if (entry.passes < options_.passes_per_step && !last_pass) return std::optional<Request>();

  entry.is_submitted = true;
  ++submitted_;
  pending_bytes_ += entry.bytes;
  const bool is_last = submitted_ == gradients_.size();
  const bool wakes = is_last || pending_bytes_ >= options_.flush_bytes;
  if (wakes) pending_bytes_ = 0;

  Request request;
  request.name = entry.gradient.name;
  request.operation = options_.operation;
  request.more = !wakes;
  request.tensors.push_back(entry.gradient.tensor);
  request.tensors.back().input = data;
  request.tensors.back().output = data;
  return std::optional<Request>(std::move(request));
}

std::vector<std::size_t> GradientSet::missing() const {
  std::vector<std::size_t> indices;
  if (submitted_ == gradients_.size()) return indices;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (!gradients_[i].is_submitted) indices.push_back(i);
  }
  return indices;
}

Status GradientSet::describe(std::size_t index, Tensor tensor) {
  HVD_TRY(check_index(index));
  gradients_[index].bytes = bytes_of(tensor);
  gradients_[index].gradient.tensor = std::move(tensor);
  return Status::ok();
}

void GradientSet::begin_step() {
  for (Entry& entry : gradients_) {
    entry.passes = 0;
    entry.is_submitted = false;
  }
  submitted_ = 0;
  pending_bytes_ = 0;
}

Status GradientSet::set_passes_per_step(int passes) {
  if (passes < 1) {
    return error(Code::kInvalidArgument, "passes per step: {}, must be 1 or more", passes);
  }
  options_.passes_per_step = passes;
  return Status::ok();
}

}  // namespace hvd
