// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "c/guard.h"
#include "c/process.h"
#include "c/request_translation.h"
#include "hvd/hvd.h"
#include "optim/gradient_set.h"
#include "optim/learning_rate.h"

/// A set, and the reductions of its step that are on their way.
struct hvd_gradients {
  hvd::GradientSet set;
  std::vector<hvd_handle> submitted;
  std::size_t waited = 0;  ///< Of `submitted`: those whose outcome is known.
  hvd::Status failure;     ///< The first failure of the step.
};

namespace {

using hvd::Code;
using hvd::Deadline;
using hvd::error;
using hvd::GradientSet;
using hvd::guarded;
using hvd::Status;

Status check_set(const hvd_gradients* gradients) {
  if (gradients != nullptr) return Status::ok();
  return error(Code::kInvalidArgument, "the set of gradients is null");
}

hvd::Result<GradientSet::Options> checked_options(const hvd_gradients_options* given) {
  GradientSet::Options options;
  if (given == nullptr) return options;
  if (given->struct_size != sizeof(hvd_gradients_options)) {
    return error(Code::kInvalidArgument,
                 "hvd_gradients_create: struct_size is {}; start from "
                 "HVD_GRADIENTS_OPTIONS_INITIALIZER",
                 given->struct_size);
  }
  if (given->reduce_op < HVD_AVERAGE || given->reduce_op > HVD_PRODUCT ||
      given->passes_per_step < 0) {
    return error(Code::kInvalidArgument, "hvd_gradients_create: reduce_op {}, passes_per_step {}",
                 given->reduce_op, given->passes_per_step);
  }
  options.operation = {static_cast<hvd::ReduceOp>(given->reduce_op), given->prescale,
                       given->postscale};
  if (given->passes_per_step > 0) options.passes_per_step = given->passes_per_step;
  if (given->flush_bytes > 0) options.flush_bytes = given->flush_bytes;
  return options;
}

/// Forgets the step: its handles too, whatever became of them.
void end_step(hvd_gradients& gradients, hvd::Engine* engine) {
  if (engine != nullptr) {
    for (const hvd_handle handle : gradients.submitted) engine->release(handle);
  }
  gradients.submitted.clear();
  gradients.waited = 0;
  gradients.failure = Status::ok();
  gradients.set.begin_step();
}

Status wait_all(hvd_gradients& gradients, Deadline deadline) {
  const auto engine = hvd::Process::instance().engine();
  if (!engine.is_ok()) {
    end_step(gradients, nullptr);
    return engine.status();
  }
  while (gradients.waited < gradients.submitted.size()) {
    Status status = engine.value()->wait(gradients.submitted[gradients.waited], deadline);
    if (status.code() == Code::kTimeout) {
      // An operation may itself fail with kTimeout; in flight is what poll() says.
      const auto done = engine.value()->poll(gradients.submitted[gradients.waited]);
      if (done.is_ok() && !done.value()) return status;
    }
    if (!status.is_ok() && gradients.failure.is_ok()) gradients.failure = std::move(status);
    ++gradients.waited;
  }
  Status outcome = std::move(gradients.failure);
  end_step(gradients, engine.value().get());
  // HVD_TIMEOUT from here means "wait again"; the step is over.
  if (outcome.code() == Code::kTimeout) outcome = Status(Code::kAborted, outcome.message());
  return outcome;
}

}  // namespace

hvd_status hvd_gradients_create(const hvd_gradients_options* options, const char* const* names,
                                const hvd_tensor* tensors, uint32_t count,
                                hvd_gradients** gradients) noexcept {
  return guarded([&]() -> Status {
    if (gradients == nullptr || (count > 0 && (names == nullptr || tensors == nullptr))) {
      return error(Code::kInvalidArgument, "hvd_gradients_create: a pointer is null");
    }
    HVD_TRY_ASSIGN(const auto checked, checked_options(options));
    std::vector<GradientSet::Gradient> described;
    described.reserve(count);
    for (uint32_t i = 0; i < count; ++i) {
      if (names[i] == nullptr || *names[i] == '\0') {
        return error(Code::kInvalidArgument, "hvd_gradients_create: gradient {} has no name", i);
      }
      HVD_TRY_ASSIGN(auto tensor, hvd::translate_description(names[i], tensors[i]));
      described.push_back({names[i], std::move(tensor)});
    }
    // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): guarded() turns it into a status.
    *gradients = new hvd_gradients{GradientSet(std::move(described), checked), {}, 0, Status::ok()};
    return Status::ok();
  });
}

hvd_status hvd_gradient_ready(hvd_gradients* gradients, uint32_t index, void* data,
                              int last_pass) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    HVD_TRY_ASSIGN(const auto engine, hvd::Process::instance().engine());
    HVD_TRY_ASSIGN(auto request, gradients->set.ready(index, data, last_pass != 0));
    if (!request) return Status::ok();
    HVD_TRY_ASSIGN(const auto handle, engine->submit(*std::move(request)));
    gradients->submitted.push_back(handle);
    return Status::ok();
  });
}

hvd_status hvd_gradient_describe(hvd_gradients* gradients, uint32_t index,
                                 const hvd_tensor* tensor) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    if (tensor == nullptr) return error(Code::kInvalidArgument, "the description is null");
    HVD_TRY_ASSIGN(auto description, hvd::translate_description("gradient", *tensor));
    return gradients->set.describe(index, std::move(description));
  });
}

hvd_status hvd_gradients_missing(const hvd_gradients* gradients, uint32_t* indices,
                                 uint32_t capacity, uint32_t* count) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    if (count == nullptr || (indices == nullptr && capacity > 0)) {
      return error(Code::kInvalidArgument, "hvd_gradients_missing: a pointer is null");
    }
    const auto missing = gradients->set.missing();
    *count = static_cast<uint32_t>(missing.size());
    for (std::size_t i = 0; i < missing.size() && i < capacity; ++i) {
      indices[i] = static_cast<uint32_t>(missing[i]);
    }
    return Status::ok();
  });
}

hvd_status hvd_gradients_wait(hvd_gradients* gradients, double timeout_seconds) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    return wait_all(*gradients, hvd::deadline_after(timeout_seconds));
  });
}

hvd_status hvd_gradients_set_passes(hvd_gradients* gradients, int passes) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    return gradients->set.set_passes_per_step(passes);
  });
}

void hvd_gradients_destroy(hvd_gradients* gradients) noexcept {
  const std::unique_ptr<hvd_gradients> owned(gradients);
  if (owned == nullptr || owned->submitted.empty()) return;
  static_cast<void>(guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, hvd::Process::instance().engine());
    end_step(*owned, engine.get());
    return Status::ok();
  }));
}

double hvd_learning_rate(double base, double factor, int64_t warmup_steps, int64_t step) noexcept {
  double rate = std::numeric_limits<double>::quiet_NaN();
  static_cast<void>(guarded([&]() -> Status {
    HVD_TRY_ASSIGN(rate, hvd::learning_rate_at(
                             {.base = base, .factor = factor, .warmup_steps = warmup_steps}, step));
    return Status::ok();
  }));
  return rate;
}
