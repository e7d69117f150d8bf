// SPDX-License-Identifier: Apache-2.0
// Trains a digit classifier of libtorch on several ranks:
//
//     hvdrun -np 4 torch_digits
//
// What makes it distributed is marked with (1) to (5).
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "digits_data.h"
#include "hvd/torch.hpp"

namespace {

struct Options {
  int epochs = 15;
  int batch = 16;
  double rate = 0.03;
  double expect = 0.96;
  std::string data = DIGITS_CSV;
};

constexpr const char* kHelp =
    "usage: hvdrun -np 4 torch_digits [--epochs N] [--batch N] [--rate X] [--expect X] "
    "[--data FILE]\n";

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--epochs") {
      options.epochs = std::atoi(value.c_str());
    } else if (flag == "--batch") {
      options.batch = std::atoi(value.c_str());
    } else if (flag == "--rate") {
      options.rate = std::atof(value.c_str());
    } else if (flag == "--expect") {
      options.expect = std::atof(value.c_str());
    } else if (flag == "--data") {
      options.data = value;
    } else {
      std::fputs(kHelp, flag == "--help" ? stdout : stderr);
      std::exit(flag == "--help" ? 0 : 2);
    }
  }
  if (options.epochs < 1 || options.batch < 1) {
    std::fputs("torch_digits: --epochs and --batch must be 1 or more\n", stderr);
    std::exit(2);
  }
  return options;
}

/// Images and digits as tensors.
struct Tensors {
  explicit Tensors(const digits::Set& set)
      : images(torch::tensor(set.pixels).view({-1, digits::kPixels})),
        labels(torch::tensor(std::vector<std::int64_t>(set.labels.begin(), set.labels.end()))) {}

  torch::Tensor images;
  torch::Tensor labels;
};

torch::nn::Sequential network() {
  return torch::nn::Sequential(torch::nn::Linear(64, 128), torch::nn::ReLU(),
                               torch::nn::Linear(128, 64), torch::nn::ReLU(),
                               torch::nn::Linear(64, 10));
}

double accuracy(torch::nn::Sequential& model, const Tensors& test) {
  const torch::NoGradGuard guard;
  return model->forward(test.images)
      .argmax(1)
      .eq(test.labels)
      .to(torch::kFloat)
      .mean()
      .item<double>();
}

int train(const Options& options) {
  const hvd::Context job;  // (1) joins the job
  torch::set_num_threads(1);
  torch::manual_seed(static_cast<std::uint64_t>(job.rank()));
  const digits::Split split = digits::load(options.data);
  const Tensors training(split.train);
  const Tensors test(split.test);
  torch::nn::Sequential model = network();
  hvd::torch::broadcast_parameters(*model, 0);  // (2) all ranks start with rank 0's values
  hvd::torch::GradientReducer reducer(*model);  // (3) gradients become averages
  torch::optim::SGD optimizer(model->parameters(),
                              torch::optim::SGDOptions(options.rate * job.size()).momentum(0.9));

  const std::int64_t step_images = std::int64_t{options.batch} * job.size();
  double reached = 0;
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    const auto order = digits::shuffled(split.train.size(), static_cast<std::uint32_t>(epoch));
    const auto rows = torch::tensor(std::vector<std::int64_t>(order.begin(), order.end()));
    torch::Tensor total = torch::zeros({});
    const std::int64_t steps = rows.size(0) / step_images;
    for (std::int64_t step = 0; step < steps; ++step) {
      // (4) each rank takes its own part of the step's images
      const auto part =
          rows.narrow(0, step * step_images + job.rank() * options.batch, options.batch);
      optimizer.zero_grad();
      const auto loss = torch::nn::functional::cross_entropy(
          model->forward(training.images.index_select(0, part)),
          training.labels.index_select(0, part));
      loss.backward();
      reducer.synchronize();  // (5) waits for the averages
      optimizer.step();
      total += loss.detach();
    }
    const auto mean = hvd::torch::allreduce(total / static_cast<double>(steps));
    reached = accuracy(model, test);
    if (job.rank() == 0) {
      std::printf("epoch %2d/%d  loss %.4f  accuracy %5.2f %%\n", epoch, options.epochs,
                  mean.item<double>(), 100 * reached);
    }
  }
  const auto all = hvd::torch::allgather(torch::tensor({reached}));
  const bool is_good = all.min().item<double>() >= options.expect;
  if (job.rank() == 0) {
    std::printf("final test accuracy %.2f %% on %d ranks (expected %.2f %%)%s\n", 100 * reached,
                job.size(), 100 * options.expect, is_good ? "" : ": TOO LOW");
  }
  return is_good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  try {
    return train(options);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "torch_digits: %s\n", failure.what());
    return 1;
  }
}
