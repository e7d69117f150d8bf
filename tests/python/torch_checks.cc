// SPDX-License-Identifier: Apache-2.0
// Run by N ranks: tensors of libtorch that are exchanged, resized, written to or dropped while
// their reduction is under way, and a training step that an exception ends.
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <string>

#include "hvd/torch.hpp"

namespace {

// Large enough that a buffer is mapped by itself: a late write into a freed one is seen.
constexpr std::int64_t kWidth = 1'024;

int failures = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::printf("FAILED: %s\n", what.c_str());
  ++failures;
}

torch::nn::Linear make_model() {
  torch::nn::Linear model(torch::nn::LinearOptions(kWidth, kWidth));
  hvd::torch::broadcast_parameters(*model, 0);
  return model;
}

/// The gradient of every weight is rank + 1, its average 1 + (size - 1) / 2.
void backward(torch::nn::Linear& model) {
  model->forward(at::ones({1, kWidth})).sum().mul(hvd_rank() + 1).backward();
}

void expect_average(const torch::nn::Linear& model, const std::string& what) {
  const double average = 0.5 * (hvd_size() + 1);
  expect(model->weight.grad().eq(average).all().item<bool>(), what + ": not the average");
}

struct Change {
  std::string name;
  std::function<void(at::Tensor&)> make;  ///< Of the gradient.
};

const Change kChanges[] = {
    {"set_data", [](at::Tensor& gradient) { gradient.set_data(gradient * 2); }},
    {"exchanged", [](at::Tensor& gradient) { gradient = gradient - gradient.mean(); }},
    {"written to", [](at::Tensor& gradient) { gradient.mul_(0.5); }},
    {"dropped", [](at::Tensor& gradient) { gradient = at::Tensor(); }},
};

void check_changes() {
  for (const Change& change : kChanges) {
    torch::nn::Linear model = make_model();
    hvd::torch::GradientReducer reducer(*model);
    backward(model);
    change.make(model->weight.mutable_grad());
    try {
      reducer.synchronize();
      expect(false, change.name + ": nothing was said");
    } catch (const hvd::Error& failure) {
      const std::string text = failure.what();
      expect(failure.status() == HVD_INVALID_ARGUMENT &&
                 text.find("the gradient of 'weight'") != std::string::npos,
             change.name + ": " + text);
    }
    model->zero_grad();
    backward(model);
    reducer.synchronize();
    expect_average(model, "after " + change.name);
  }
}

void check_resizing() {
  torch::nn::Linear model = make_model();
  hvd::torch::GradientReducer reducer(*model);
  for (int step = 0; step < 2; ++step) {
    model->zero_grad();
    backward(model);
    at::Tensor same_storage = model->weight.grad().detach();
    try {
      same_storage.resize_({4 * kWidth, kWidth});
      expect(false, "a gradient was resized while it was under way");
    } catch (const c10::Error&) {
    }
    reducer.synchronize();
    expect_average(model, "not resized");
  }
  model->weight.grad().resize_({2 * kWidth, kWidth});
  expect(model->weight.grad().size(0) == 2 * kWidth, "no resize after the step");
}

void check_async() {
  at::Tensor tensor = at::ones({kWidth, kWidth});
  auto pending = hvd::torch::allreduce_async_({tensor}, {.op = HVD_SUM});
  const at::Tensor before = tensor.detach();
  tensor.set_data(at::zeros({kWidth, kWidth}));
  try {
    pending.wait();
    expect(false, "the sum went nowhere, and nothing was said");
  } catch (const hvd::Error& failure) {
    expect(failure.status() == HVD_INVALID_ARGUMENT, failure.what());
  }
  expect(before.eq(hvd_size()).all().item<bool>(), "the storage was not kept");
}

/// Last, because it ends the job: rank 1 leaves a step, and its model with it.
void check_exception() {
  try {
    torch::nn::Linear model = make_model();
    hvd::torch::GradientReducer reducer(*model);
    backward(model);
    if (hvd_rank() == 1) throw std::runtime_error("injected");
    reducer.synchronize();
    hvd::barrier();
    expect(false, "rank 1 was lost, and nobody was told");
  } catch (const hvd::Error& failure) {
    const std::string text = failure.what();
    expect(failure.status() == HVD_PEER_LOST &&
               text.find("an exception left a training step") != std::string::npos,
           text);
  } catch (const std::runtime_error&) {
  }
}

}  // namespace

int main() {
  try {
    const hvd::Context job;
    check_changes();
    check_resizing();
    check_async();
    check_exception();
    return failures == 0 ? 0 : 1;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "torch_checks: %s\n", failure.what());
    return 1;
  }
}
