// SPDX-License-Identifier: Apache-2.0
#include "optim/gradient_set.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "optim/compression/methods.h"
#include "optim/gradient_norm.h"

namespace hvd {

GradientSet::GradientSet(std::vector<Gradient> gradients, Options options) : options_(options) {
  gradients_.reserve(gradients.size());
  for (Gradient& gradient : gradients) {
    const std::size_t count = count_of(gradient.tensor);
    const std::size_t bytes = count * size_of(gradient.tensor.dtype);
    gradients_.push_back(Entry{.gradient = std::move(gradient), .count = count, .bytes = bytes});
  }
  begin_step();
}

Status GradientSet::check(const Options& options) {
  if (options.passes_per_step < 1) {
    return error(Code::kInvalidArgument, "passes per step: {}, must be 1 or more",
                 options.passes_per_step);
  }
  if (!std::isfinite(options.predivide) || options.predivide <= 0) {
    return error(Code::kInvalidArgument, "gradient predivide: {}, must be above 0; 1 has no effect",
                 options.predivide);
  }
  if (options.predivide != 1 && options.operation.op != ReduceOp::kAverage) {
    return error(Code::kInvalidArgument,
                 "gradient predivide: {} with {}; only an average can be divided in two parts",
                 options.predivide, name_of(options.operation.op));
  }
  if (!std::isfinite(options.clip_norm) || options.clip_norm < 0) {
    return error(Code::kInvalidArgument, "clip norm: {}, must be 0 (none) or more",
                 options.clip_norm);
  }
  if (options.clip_norm != 0 && options.device.kind != DeviceKind::kCpu) {
    return error(Code::kUnsupported,
                 "clip norm: {} of gradients in GPU memory; clip them on the device once the step "
                 "was waited for",
                 options.clip_norm);
  }
  return Status::ok();
}

namespace {

/// What an exchange of a part must say of the whole gradient, so that ranks whose gradients differ
/// in shape or memory order, or which compress them otherwise, get an error. FNV-1a.
std::uint64_t tag_of(const Tensor& gradient, const Compression& compression) {
  std::uint64_t tag = 14695981039346656037U;
  const auto add = [&tag](std::uint64_t value) { tag = (tag ^ value) * 1099511628211U; };
  add(gradient.layout);
  for (const std::int64_t extent : gradient.shape) add(static_cast<std::uint64_t>(extent));
  add(static_cast<std::uint64_t>(compression.method));
  add(static_cast<std::uint64_t>(compression.rank));
  add(compression.smallest);
  add(std::bit_cast<std::uint64_t>(compression.ratio));
  add(std::bit_cast<std::uint64_t>(compression.momentum));
  return tag;
}

}  // namespace

Status GradientSet::check_index(std::size_t index) const {
  if (index < gradients_.size()) return Status::ok();
  return error(Code::kInvalidArgument, "gradient {}: the set has {}", index, gradients_.size());
}

Status GradientSet::check_idle(std::size_t index) const {
  HVD_TRY(check_index(index));
  const Entry& entry = gradients_[index];
  if (!entry.is_submitted && !entry.is_difference) return Status::ok();
  return error(Code::kInvalidArgument, "gradient '{}' is on its way: change it between steps",
               entry.gradient.name);
}

Allreduce GradientSet::operation_of(const Entry& entry) const {
  Allreduce operation = options_.operation;
  operation.prescale /= options_.predivide;
  operation.postscale *= options_.predivide;
  if (options_.mean_over_passes) operation.prescale /= entry.passes;
  if (entry.count >= entry.compression.smallest) {
    operation.wire = wire_of(entry.compression.method);
  }
  return operation;
}

Request GradientSet::request_for(const Entry& entry, const Exchange& exchange) const {
  Request request;
  request.process_set = options_.process_set;
  request.name = entry.gradient.name + "/" + std::string(exchange.stage);
  request.operation = exchange.operation;
  request.more = true;
  request.tensors.push_back(exchange.tensor);
  request.tensors.back().layout = tag_of(entry.gradient.tensor, entry.compression);
  request.on_complete = [memory = entry.memory](const Status&) {};
  return request;
}

Result<Request> GradientSet::first_request(Entry& entry, int ranks) {
  void* data = entry.data;
  if (entry.is_difference) {
    Memory& memory = *entry.memory;
    const auto* const values = static_cast<const float*>(data);
    memory.difference.resize(entry.count);
    for (std::size_t i = 0; i < entry.count; ++i) {
      memory.difference[i] = values[i] - memory.start[i];
    }
    data = memory.difference.data();
  }
  const Allreduce operation = operation_of(entry);
  if (entry.memory != nullptr && entry.memory->compressor != nullptr) {
    const double passes = options_.mean_over_passes ? entry.passes : 1;
    const double scale = entry.is_difference ? 1 : loss_scale_;
    Request request =
        request_for(entry, entry.memory->compressor->begin(
                               {.gradient = std::span(static_cast<float*>(data), entry.count),
                                .allreduce = operation,
                                .ranks = ranks,
                                .unit = scale * passes}));
    // As with any method, and with none: ranks that have chosen otherwise meet, and get an error.
    request.name = entry.gradient.name;
    return request;
  }
  Request request;
  request.name = entry.gradient.name;
  request.process_set = options_.process_set;
  request.operation = operation;
  request.device = options_.device;
  request.tensors.push_back(entry.gradient.tensor);
  request.tensors.back().input = data;
  request.tensors.back().output = data;
  if (entry.is_difference) request.on_complete = [memory = entry.memory](const Status&) {};
  return request;
}

Result<std::optional<Request>> GradientSet::ready(std::size_t index, void* data, bool last_pass,
                                                  int ranks) {
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
  entry.data = data;
  ++submitted_;
  if (entry.sharing != Sharing::kReduced) return std::optional<Request>();
  pending_bytes_ += entry.bytes;
  const bool wakes = is_worth_waking() || pending_bytes_ >= options_.flush_bytes;
  if (wakes) pending_bytes_ = 0;
  HVD_TRY_ASSIGN(Request request, first_request(entry, ranks));
  request.more = !wakes;
  return std::optional<Request>(std::move(request));
}

Status GradientSet::mark_elsewhere(std::size_t index) {
  HVD_TRY(check_idle(index));
  gradients_[index].is_submitted = true;  // without data: nothing here looks at it
  ++submitted_;
  return Status::ok();
}

Request GradientSet::round_request(std::string_view stage, std::span<float> values) const {
  const ReduceOp op = options_.operation.op;
  Request request;
  request.name = gradients_.front().gradient.name + "/" + std::string(stage);
  request.process_set = options_.process_set;
  // As most gradients are reduced, so that it shares a batch with them: only 0 is told from others.
  const bool is_linear = op == ReduceOp::kAverage || op == ReduceOp::kSum;
  request.operation = Allreduce{.op = is_linear ? op : ReduceOp::kMax};
  request.tensors.push_back({.input = values.data(),
                             .output = values.data(),
                             .dtype = DataType::kFloat32,
                             .shape = {static_cast<std::int64_t>(values.size())}});
  request.more = true;
  return request;
}

std::optional<Request> GradientSet::whole_request(bool is_end) {
  if (!options_.tracks_use || is_whole_sent_ || gradients_.empty()) return std::nullopt;
  const bool is_whole = submitted_ == gradients_.size();
  if (!is_whole && !is_end) return std::nullopt;
  is_whole_sent_ = true;
  whole_ = std::make_shared<float>(is_whole ? 0.0F : 1.0F);
  Request request = round_request("whole", {whole_.get(), 1});
  request.on_complete = [whole = whole_](const Status&) {};
  return request;
}

Request GradientSet::use_request(bool is_final) {
  uses_ = std::make_shared<std::vector<float>>(gradients_.size() + 1);
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    (*uses_)[i] = gradients_[i].is_submitted ? 1.0F : 0.0F;
  }
  uses_->back() = is_final ? 0.0F : 1.0F;
  Request request = round_request("use", *uses_);
  request.on_complete = [uses = uses_](const Status&) {};
  return request;
}

GradientSet::Round GradientSet::end_round() {
  Round round{.needed = {}, .is_over = uses_->back() == 0};
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if ((*uses_)[i] != 0 && !gradients_[i].is_submitted) round.needed.push_back(i);
  }
  is_whole_sent_ = false;
  return round;
}

Result<std::optional<Request>> GradientSet::resume(std::size_t index,
                                                   const GatherResult* gathered) {
  HVD_TRY(check_index(index));
  if (!is_compressed(index)) return std::optional<Request>();
  const Entry& entry = gradients_[index];
  HVD_TRY_ASSIGN(const auto exchange, entry.memory->compressor->resume(gathered));
  if (!exchange) return std::optional<Request>();
  return std::optional(request_for(entry, *exchange));
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
  HVD_TRY(check_idle(index));
  Entry& entry = gradients_[index];
  std::shared_ptr<Memory> memory;
  if (entry.compression.method != CompressionMethod::kNone) {
    memory = std::make_shared<Memory>();
    HVD_TRY_ASSIGN(memory->compressor,
                   make_compressor(entry.compression, entry.gradient.name, tensor));
  }
  entry.memory = std::move(memory);
  entry.count = count_of(tensor);
  entry.bytes = entry.count * size_of(tensor.dtype);
  entry.gradient.tensor = std::move(tensor);
  return Status::ok();
}

Status GradientSet::share(std::size_t index, Sharing sharing) {
  HVD_TRY(check_idle(index));
  if (is_on_gpu() && sharing == Sharing::kLocalScaled) {
    return error(Code::kUnsupported,
                 "gradient '{}': a local one of GPU memory is not scaled here: share it as local, "
                 "and divide it by the ranks on the device",
                 gradients_[index].gradient.name);
  }
  if (gradients_[index].compression.momentum != 0) {
    HVD_TRY(check_momentum(gradients_[index], sharing));
  }
  gradients_[index].sharing = sharing;
  return Status::ok();
}

Status GradientSet::start(std::size_t index, const void* values) {
  HVD_TRY(check_index(index));
  Entry& entry = gradients_[index];
  if (entry.is_submitted) HVD_TRY(check_idle(index));
  if (entry.gradient.tensor.dtype != DataType::kFloat32 || options_.clip_norm != 0) {
    return error(Code::kUnsupported,
                 "gradient '{}': differences of {} with clip norm {}; they need float32 and no "
                 "clipping: clip before the local step",
                 entry.gradient.name, name_of(entry.gradient.tensor.dtype), options_.clip_norm);
  }
  if (entry.compression.momentum != 0) {
    return error(
        Code::kUnsupported,
        "gradient '{}': differences with a momentum of {} in compression; leave that to the "
        "local step",
        entry.gradient.name, entry.compression.momentum);
  }
  if (is_on_gpu()) {
    return error(Code::kUnsupported,
                 "gradient '{}': differences of values in GPU memory; subtract them on the device, "
                 "and reduce the difference with hvd_submit()",
                 entry.gradient.name);
  }
  if (values == nullptr && entry.count > 0) {
    return error(Code::kInvalidArgument, "gradient '{}': the values are null", entry.gradient.name);
  }
  if (entry.memory == nullptr) entry.memory = std::make_shared<Memory>();
  const auto* const floats = static_cast<const float*>(values);
  entry.memory->start.assign(floats, floats + entry.count);
  entry.is_difference = true;
  return Status::ok();
}

bool GradientSet::has_local() const {
  return std::any_of(gradients_.begin(), gradients_.end(),
                     [](const Entry& entry) { return entry.sharing != Sharing::kReduced; });
}

void GradientSet::finish(int ranks) {
  finish_compression();
  for (Entry& entry : gradients_) {
    if (!entry.is_submitted || entry.data == nullptr) continue;
    if (entry.is_difference && entry.sharing == Sharing::kReduced) {
      auto* const values = static_cast<float*>(entry.data);
      const Memory& memory = *entry.memory;
      for (std::size_t i = 0; i < entry.count; ++i) {
        values[i] = memory.start[i] + memory.difference[i];
      }
    } else if (entry.sharing == Sharing::kLocalScaled) {
      scale_in_place(entry.gradient.tensor.dtype, entry.data, entry.count, 1.0 / ranks);
    }
  }
}

GradientSet::SquaredNorm GradientSet::squared_norm() const {
  SquaredNorm norm;
  for (const Entry& entry : gradients_) {
    if (!entry.is_submitted || entry.data == nullptr) continue;
    double& sum = entry.sharing == Sharing::kReduced ? norm.reduced : norm.local;
    sum += hvd::squared_norm(entry.gradient.tensor.dtype, entry.data, entry.count);
  }
  return norm;
}

void GradientSet::scale(double factor) {
  for (const Entry& entry : gradients_) {
    if (!entry.is_submitted || entry.data == nullptr) continue;
    scale_in_place(entry.gradient.tensor.dtype, entry.data, entry.count, factor);
  }
}

void GradientSet::begin_step() {
  for (Entry& entry : gradients_) {
    entry.passes = 0;
    entry.data = nullptr;
    entry.is_submitted = false;
    entry.is_difference = false;
  }
  submitted_ = 0;
  pending_bytes_ = 0;
  is_whole_sent_ = false;
}

Status GradientSet::set_passes_per_step(int passes) {
  Options changed = options_;
  changed.passes_per_step = passes;
  HVD_TRY(check(changed));
  options_ = changed;
  return Status::ok();
}

Status GradientSet::set_loss_scale(double scale) {
  // Beyond this range a factor of float32 would be zero, subnormal or infinite.
  if (!(scale >= 0x1p-100 && scale <= 0x1p100)) {
    return error(Code::kInvalidArgument,
                 "loss scale: {}, must be above 0 and finite, between 1e-30 and 1e30", scale);
  }
  const bool has_begun = std::any_of(gradients_.begin(), gradients_.end(),
                                     [](const Entry& entry) { return entry.passes > 0; });
  if (has_begun && scale != loss_scale_) {
    return error(Code::kInvalidArgument,
                 "loss scale: {} in a step that has begun with {}; change it between steps, before "
                 "the first gradient is ready",
                 scale, loss_scale_);
  }
  loss_scale_ = scale;
  return Status::ok();
}

Status GradientSet::set_clip_norm(double limit) {
  Options changed = options_;
  changed.clip_norm = limit;
  HVD_TRY(check(changed));
  options_ = changed;
  return Status::ok();
}

}  // namespace hvd
