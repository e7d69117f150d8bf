// SPDX-License-Identifier: Apache-2.0
// Trains a digit classifier on several ranks with nothing but the C++ interface of libhvd:
//
//     hvdrun -np 4 digits
//
// What makes it distributed is marked with (1) to (5).
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "digits_data.h"
#include "hvd/hvd.hpp"
#include "network.h"

namespace {

using Seconds = std::chrono::duration<double>;

constexpr const char* kHelp =
    "usage: hvdrun -np 4 digits [options]\n"
    "  --epochs N     passes over the training set (25)\n"
    "  --batch N      images per rank and step (16)\n"
    "  --rate X       learning rate of one rank; grows with the ranks (0.05)\n"
    "  --optimizer S  sgd, lars, lamb, or adasum: sgd on each rank, then Adasum (sgd)\n"
    "  --compression S  none, fp16, bf16, fp8-e4m3, fp8-e5m2, top-k, power-sgd (none)\n"
    "  --clip-norm X  largest global norm of the averaged gradients; 0: any (0)\n"
    "  --expect X     exit with 1 when the final test accuracy is below (0.96)\n"
    "  --data FILE    the digits (" DIGITS_CSV ")\n";

struct Options {
  int epochs = 25;
  int batch = 16;
  double rate = 0.05;
  double expect = 0.96;
  double clip_norm = 0;
  std::string optimizer = "sgd";
  std::string compression = "none";
  std::string data = DIGITS_CSV;
};

double number(const std::string& flag, const std::string& text, double lowest) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value >= lowest) || value > 1e6) {
    std::fprintf(stderr, "digits: %s is '%s', not a number of at least %g\n", flag.c_str(),
                 text.c_str(), lowest);
    std::exit(2);
  }
  return value;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--help" || flag == "-h") {
      std::fputs(kHelp, stdout);
      std::exit(0);
    }
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--epochs") {
      options.epochs = static_cast<int>(number(flag, value, 1));
    } else if (flag == "--batch") {
      options.batch = static_cast<int>(number(flag, value, 1));
    } else if (flag == "--rate") {
      options.rate = number(flag, value, 0);
    } else if (flag == "--optimizer") {
      options.optimizer = value;
    } else if (flag == "--compression") {
      options.compression = value;
    } else if (flag == "--clip-norm") {
      options.clip_norm = number(flag, value, 0);
    } else if (flag == "--expect") {
      options.expect = number(flag, value, 0);
    } else if (flag == "--data") {
      options.data = value;
    } else {
      std::fprintf(stderr, "digits: unknown option %s\n%s", flag.c_str(), kHelp);
      std::exit(2);
    }
  }
  return options;
}

[[noreturn]] void unknown(const char* flag, const std::string& value) {
  std::fprintf(stderr, "digits: %s '%s' is not known\n%s", flag, value.c_str(), kHelp);
  std::exit(2);
}

hvd::Rule rule_of(const Options& options) {
  const double rate = options.rate;
  if (options.optimizer == "lars") {
    return hvd::Lars{.learning_rate = rate, .momentum = 0.9, .coefficient = 0.02};
  }
  if (options.optimizer == "lamb") return hvd::Lamb{.learning_rate = rate};
  if (options.optimizer == "sgd" || options.optimizer == "adasum") {
    return hvd::Sgd{.learning_rate = rate, .momentum = 0.9};
  }
  unknown("--optimizer", options.optimizer);
}

hvd_compression_method method_of(const Options& options) {
  constexpr std::pair<const char*, hvd_compression_method> kMethods[] = {
      {"none", HVD_COMPRESS_NONE},
      {"fp16", HVD_COMPRESS_FLOAT16},
      {"bf16", HVD_COMPRESS_BFLOAT16},
      {"fp8-e4m3", HVD_COMPRESS_FLOAT8_E4M3},
      {"fp8-e5m2", HVD_COMPRESS_FLOAT8_E5M2},
      {"top-k", HVD_COMPRESS_TOP_K},
      {"power-sgd", HVD_COMPRESS_POWER_SGD},
  };
  for (const auto& [name, method] : kMethods) {
    if (options.compression == name) return method;
  }
  unknown("--compression", options.compression);
}

hvd::OptimizerOptions settings_of(const Options& options) {
  hvd::OptimizerOptions settings;
  settings.clip_norm = options.clip_norm;
  settings.compression.method = method_of(options);
  if (options.optimizer == "adasum") settings.difference_op = HVD_ADASUM;
  return settings;
}

/// What the batch of all ranks allows the rate to grow by: not for Adasum, whose sum adapts.
double rate_factor(const Options& options, int ranks) {
  if (options.optimizer == "adasum") return hvd_rate_factor(HVD_RATE_CONSTANT, ranks);
  return hvd_rate_factor(options.optimizer == "lamb" ? HVD_RATE_SQUARE_ROOT : HVD_RATE_LINEAR,
                         ranks);
}

/// Bytes that this rank has given to collectives.
std::uint64_t bytes_given() {
  hvd_counters counters{};
  counters.struct_size = sizeof counters;
  hvd::check(hvd_statistics(&counters));
  return counters.bytes;
}

/// Share of the test set that the network gets right; each rank looks at its part.
double test_accuracy(const hvd::Context& job, const digits::Network& network,
                     const digits::Set& test) {
  double right = 0;
  for (auto i = static_cast<std::size_t>(job.rank()); i < test.size();
       i += static_cast<std::size_t>(job.size())) {
    right += network.classify(test.image(i)) == test.labels[i] ? 1 : 0;
  }
  hvd::allreduce("accuracy", std::span(&right, 1), HVD_SUM);
  return right / static_cast<double>(test.size());
}

class Training {
 public:
  Training(const hvd::Context& job, const Options& options)
      : job_(job),
        options_(options),
        split_(digits::load(options.data)),
        network_(128, static_cast<std::uint32_t>(job.rank())),
        optimizer_(parameters(), rule_of(options), settings_of(options)) {
    hvd::broadcast(optimizer_.parameters(), 0);  // (2) all ranks start with rank 0's values
  }

  double run() {
    double accuracy = 0;
    for (int epoch = 1; epoch <= options_.epochs; ++epoch) accuracy = run_epoch(epoch);
    return accuracy;
  }

  /// Bytes that this rank gave to collectives in each step of the last epoch.
  std::uint64_t bytes_per_step() const { return bytes_per_step_; }

 private:
  std::vector<hvd::Parameter> parameters() {
    std::vector<hvd::Parameter> list;
    for (std::size_t i = 0; i < digits::Network::kBuffers; ++i) {
      list.push_back({digits::Network::kNames[i], network_.values(i), network_.gradients(i),
                      network_.shape(i)});
    }
    return list;
  }

  double run_epoch(int epoch) {
    const auto ranks = static_cast<std::size_t>(job_.size());
    const auto batch = static_cast<std::size_t>(options_.batch);
    const auto order = digits::shuffled(split_.train.size(), static_cast<std::uint32_t>(epoch));
    const std::size_t steps = order.size() / (batch * ranks);
    if (steps == 0) {
      throw std::runtime_error("--batch " + std::to_string(batch) + " on " + std::to_string(ranks) +
                               " ranks is more than the " + std::to_string(order.size()) +
                               " images of the training set");
    }
    const Seconds waited_before = optimizer_.waited();
    const std::uint64_t given_before = bytes_given();
    const auto begin = std::chrono::steady_clock::now();
    double loss = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      // (3) each rank takes its own part of the step's images
      const std::size_t first = (step * ranks + static_cast<std::size_t>(job_.rank())) * batch;
      const auto part = std::span(order).subspan(first, batch);
      // The usual remedy for the larger batch: a larger rate, reached over the first epoch.
      optimizer_.set_learning_rate(hvd_learning_rate(options_.rate,
                                                     rate_factor(options_, job_.size()),
                                                     static_cast<std::int64_t>(steps), steps_));
      ++steps_;
      loss += network_.backward(split_.train, part, [this](std::size_t buffer) {
        optimizer_.gradient_ready(buffer);  // (4) averaging starts while backward goes on
      });
      optimizer_.step();  // (5) waits for the averages, then updates
    }
    const Seconds took = std::chrono::steady_clock::now() - begin;
    const Seconds waited = optimizer_.waited() - waited_before;
    bytes_per_step_ = (bytes_given() - given_before) / steps;
    loss /= static_cast<double>(steps);
    hvd::allreduce("loss", std::span(&loss, 1), HVD_AVERAGE);
    const double accuracy = test_accuracy(job_, network_, split_.test);
    if (job_.rank() == 0) {
      std::printf("epoch %2d/%d  loss %.4f  accuracy %5.2f %%  %7.0f images/s  waiting %4.1f %%\n",
                  epoch, options_.epochs, loss, 100 * accuracy,
                  static_cast<double>(steps * batch * ranks) / took.count(),
                  100 * waited.count() / took.count());
      std::fflush(stdout);
    }
    return accuracy;
  }

  const hvd::Context& job_;
  const Options& options_;
  digits::Split split_;
  digits::Network network_;
  hvd::DistributedOptimizer optimizer_;
  std::int64_t steps_ = 0;
  std::uint64_t bytes_per_step_ = 0;
};

int train(const Options& options) {
  const hvd::Context job;  // (1) joins the job
  Training training(job, options);
  const double accuracy = training.run();
  const bool is_good = accuracy >= options.expect;
  if (job.rank() == 0) {
    std::printf(
        "\n%s\ndevices: CPU on every rank\ncompression %s: %llu bytes per rank and step\n"
        "final test accuracy %.2f %% (expected %.2f %%)%s\n",
        job.describe().c_str(), options.compression.c_str(),
        static_cast<unsigned long long>(training.bytes_per_step()), 100 * accuracy,
        100 * options.expect, is_good ? "" : ": TOO LOW");
  }
  return is_good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  try {
    return train(options);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "digits: %s\n", failure.what());
    return 1;
  }
}
