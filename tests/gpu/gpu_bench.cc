// SPDX-License-Identifier: Apache-2.0
// What hvd costs on GPUs, beside plain NCCL; started by hvdrun, in place of a framework:
//
//     gpu_bench steps LIST [STEPS]        a list of gradients: right values, then times
//     gpu_bench allreduce [MOST_BYTES]    1 KB to 1 GB beside ncclAllReduce, in turns
//     gpu_bench costs                     what calls and threads take of the host, by themselves
//
// Rank 0 prints rows "table | case | ours | theirs | ratio"; the rank that took longest counts.
// Exit code 77 where there is no GPU. With the library gpu_waits as HVD_CUDA_LIBRARY, steps tells
// which threads have waited for the device.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gpu/plain_nccl.h"
#include "gpu/rank_gpu.h"
#include "hvd/gpu_gradients.hpp"
#include "hvd/hvd.hpp"

namespace {

using hvd_test::PlainNccl;
using hvd_test::RankGpu;

double now_us() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(since).count();
}

/// The median of the rank where it is the greatest.
double slowest(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  std::vector<double> median = {times[times.size() / 2]};
  hvd::allreduce<double>("median", median, HVD_MAX);
  return median[0];
}

/// Microseconds of `work` until the device is done with it.
template <typename Work>
double time_us(RankGpu& gpu, const Work& work) {
  gpu.finish();
  hvd::barrier();
  const double begin = now_us();
  work();
  gpu.finish();
  return now_us() - begin;
}

struct Medians {
  double ours = 0;
  double theirs = 0;
};

/// Both in turns, so that whatever slows the machine down meets both. As often as fits into
/// `kMostUs` by how long they took to warm up, which all ranks agree on.
template <typename Ours, typename Theirs>
Medians compare(RankGpu& gpu, const Ours& ours, const Theirs& theirs) {
  constexpr double kMostUs = 3e6;
  constexpr int kLeastTurns = 3;
  constexpr int kMostTurns = 100;
  double both = 0;
  for (int turn = 0; turn < 2; ++turn) both = time_us(gpu, ours) + time_us(gpu, theirs);
  const int turns =
      std::clamp(static_cast<int>(kMostUs / slowest({both})), kLeastTurns, kMostTurns);
  std::vector<double> of_ours;
  std::vector<double> of_theirs;
  for (int turn = 0; turn < turns; ++turn) {
    of_ours.push_back(time_us(gpu, ours));
    of_theirs.push_back(time_us(gpu, theirs));
  }
  return {slowest(std::move(of_ours)), slowest(std::move(of_theirs))};
}

void print_row(const std::string& table, const std::string& what, double ours, double theirs = 0) {
  if (hvd_rank() != 0) return;
  std::printf("%s | %s | %.1f | ", table.c_str(), what.c_str(), ours);
  if (theirs > 0) {
    std::printf("%.1f | %.2f\n", theirs, ours / theirs);
  } else {
    std::printf(" | \n");
  }
  std::fflush(stdout);
}

/// Gradients of a model: memory, values, and what their averages are.
class Model {
 public:
  Model(RankGpu& gpu, const std::string& list) : gpu_(gpu) {
    std::ifstream file(list);
    for (std::size_t count = 0; file >> count;) {
      const std::string name = "gradient." + std::to_string(buffers_.size());
      auto* data = static_cast<float*>(gpu.allocate(count * sizeof(float)));
      buffers_.push_back({name, data, count});
      most_ = std::max(most_, count);
    }
    if (buffers_.empty()) throw std::runtime_error(list + ": no list of counts");
  }
  const std::vector<hvd::GpuBuffer>& buffers() const { return buffers_; }

  void fill(int step) {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const std::vector<float> values(buffers_[i].count, value(hvd_rank(), step, i));
      gpu_.put(buffers_[i].data, values.data(), values.size() * sizeof(float));
    }
  }
  /// Throws where an element is not the average.
  void check(int step) {
    std::vector<float> values(most_);
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const auto end = values.begin() + static_cast<std::ptrdiff_t>(buffers_[i].count);
      gpu_.get(values.data(), buffers_[i].data, buffers_[i].count * sizeof(float));
      const float wanted = static_cast<float>(hvd_size() - 1) / 2 + value(0, step, i);
      const auto wrong = std::find_if(values.begin(), end, [&](float got) {
        return !(std::abs(got - wanted) <= 1e-5F * wanted);
      });
      if (wrong == end) continue;
      throw std::runtime_error(buffers_[i].name + " of step " + std::to_string(step) + " has " +
                               std::to_string(*wrong) + ", not " + std::to_string(wanted));
    }
  }

 private:
  static float value(int rank, int step, std::size_t i) {
    return static_cast<float>(rank + step + 1) + static_cast<float>(i % 7);
  }
  RankGpu& gpu_;
  std::vector<hvd::GpuBuffer> buffers_;
  std::size_t most_ = 0;
};

/// Of the library gpu_waits; null where another one is the driver.
unsigned long (*find_waits())(int) {
  const char* const driver = std::getenv("HVD_CUDA_LIBRARY");
  void* const library = driver == nullptr ? nullptr : ::dlopen(driver, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  return reinterpret_cast<unsigned long (*)(int)>(::dlsym(library, "gpu_waits"));
}

void run_step(hvd::GpuGradients& gradients, std::size_t count, RankGpu& gpu) {
  for (std::size_t i = 0; i < count; ++i) gradients.ready(i, gpu.stream());
  gradients.wait(gpu.stream());
}

void count_waits(hvd::GpuGradients& gradients, std::size_t count, RankGpu& gpu, int steps) {
  auto* const waits = find_waits();
  if (waits == nullptr) return;
  gpu.finish();
  hvd::barrier();
  const unsigned long mine = waits(0);
  const unsigned long all = waits(1);
  for (int step = 0; step < steps; ++step) run_step(gradients, count, gpu);
  const unsigned long mine_now = waits(0);
  const unsigned long all_now = waits(1);
  gpu.finish();
  const std::string of_steps = " in " + std::to_string(steps) + " steps";
  print_row("waits", "of the program's thread" + of_steps, static_cast<double>(mine_now - mine));
  print_row("waits", "of threads that only wait" + of_steps,
            static_cast<double>(all_now - all - (mine_now - mine)));
  print_row("waits", "threads that have waited so far, except for the program's",
            static_cast<double>(waits(2)));
}

void steps(RankGpu& gpu, const std::string& list, int steps) {
  Model model(gpu, list);
  const std::size_t count = model.buffers().size();
  {
    hvd::GpuGradients gradients(model.buffers(), gpu.place().device);
    for (int step = 0; step < 8; ++step) {  // buckets freeze, and graphs are captured, on the way
      model.fill(step);
      run_step(gradients, count, gpu);
      model.check(step);
    }
    std::vector<double> submit;
    std::vector<double> wait;
    std::vector<double> done;
    for (int step = 0; step < steps; ++step) {
      gpu.finish();
      hvd::barrier();
      const double begin = now_us();
      for (std::size_t i = 0; i < count; ++i) gradients.ready(i, gpu.stream());
      const double submitted = now_us();
      gradients.wait(gpu.stream());
      const double waited = now_us();
      gpu.finish();
      submit.push_back(submitted - begin);
      wait.push_back(waited - submitted);
      done.push_back(now_us() - begin);
    }
    const std::string what = std::to_string(count) + " gradients, us";
    print_row("steps", "host time to submit " + what, slowest(submit));
    print_row("steps", "host time until wait returns, " + what, slowest(wait));
    print_row("steps", "until the device is done, " + what, slowest(done));
    count_waits(gradients, count, gpu, steps);
    model.fill(steps);
    run_step(gradients, count, gpu);
    model.check(steps);
  }
  if (hvd_rank() == 0) std::printf("steps are right\n");
}

void allreduce(RankGpu& gpu, std::size_t most_bytes) {
  PlainNccl plain;
  const std::size_t most = most_bytes / sizeof(float);
  auto* const input = static_cast<float*>(gpu.allocate(most_bytes));
  auto* const output = static_cast<float*>(gpu.allocate(most_bytes));
  auto* const plain_output = static_cast<float*>(gpu.allocate(most_bytes));
  std::vector<float> values(most);
  for (std::size_t i = 0; i < most; ++i) values[i] = static_cast<float>(i % 1'021);
  gpu.put(input, values.data(), most_bytes);
  for (std::size_t bytes = 1024; bytes <= most_bytes; bytes *= 4) {
    const std::size_t count = bytes / sizeof(float);
    const Medians us = compare(
        gpu,
        [&] {
          hvd::allreduce_async<float>("bench", {input, count}, {output, count}, gpu.place(),
                                      HVD_SUM)
              .wait_stream(gpu.stream());
        },
        [&] { plain.allreduce(input, plain_output, count, gpu.stream()); });
    for (const float* const result : {output, plain_output}) {
      gpu.get(values.data(), result, bytes);
      const float wanted = static_cast<float>(hvd_size()) * static_cast<float>((count - 1) % 1'021);
      if (values[count - 1] != wanted) throw std::runtime_error("the sum is wrong");
    }
    print_row("allreduce", std::to_string(bytes) + " bytes, us", us.ours, us.theirs);
  }
}

/// Nanoseconds of one of `calls` in a row; the middle one of some rows.
template <typename Call>
double cost_ns(RankGpu& gpu, const Call& call, int calls = 64) {
  std::vector<double> rows;
  for (int row = 0; row < 21; ++row) {
    gpu.finish();
    const double begin = now_us();
    for (int i = 0; i < calls; ++i) call();
    rows.push_back(1e3 * (now_us() - begin) / calls);
  }
  gpu.finish();
  return slowest(std::move(rows));
}

/// A thread that sleeps until it is asked, and answers.
class Answerer {
 public:
  Answerer() : thread_([this] { run(); }) {}
  ~Answerer() {
    ask(2);
    thread_.join();
  }
  void ask(int what = 1) {
    {
      const std::lock_guard lock(mutex_);
      asked_ = what;
    }
    changed_.notify_one();
    while (asked_.load() == 1) {
    }
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return asked_ != 0; });
      if (asked_ == 2) return;
      asked_ = 0;
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> asked_{0};
  std::thread thread_;
};

/// Steps of one operation of 1 KB, on the host: medians of the slowest rank.
class Stages {
 public:
  explicit Stages(RankGpu& gpu) : gpu_(gpu) {}
  template <typename... Stage>
  void measure(const std::vector<std::string>& names, const Stage&... stages) {
    std::vector<std::vector<double>> times(names.size());
    for (int turn = 0; turn < 150; ++turn) {
      gpu_.finish();
      hvd::barrier();
      const double begin = now_us();
      std::size_t i = 0;
      const auto one = [&](const auto& stage) {
        stage();
        if (turn >= 50) times[i].push_back(now_us() - begin);
        ++i;
      };
      (one(stages), ...);
    }
    for (std::size_t i = 0; i < names.size(); ++i) print_row("costs", names[i], slowest(times[i]));
  }

 private:
  RankGpu& gpu_;
};

void costs(RankGpu& gpu) {
  for (const auto& [what, call] : gpu.calls()) {
    print_row("costs", what + ", ns", cost_ns(gpu, call));
  }
  print_row("costs", "a thread begins and ends, ns",
            cost_ns(gpu, [] { std::thread([] {}).join(); }));
  {
    Answerer answerer;
    print_row("costs", "a thread that sleeps is woken, and answers, ns",
              cost_ns(
                  gpu, [&] { answerer.ask(); }, 1));
  }
  constexpr std::size_t kCount = 256;
  auto* const input = static_cast<float*>(gpu.allocate(kCount * sizeof(float)));
  auto* const output = static_cast<float*>(gpu.allocate(kCount * sizeof(float)));
  Stages stages(gpu);
  const auto finish = [&] { gpu.finish(); };
  for (const bool blocks : {true, false}) {
    PlainNccl plain(blocks);
    const std::string who = blocks ? "ncclAllReduce" : "ncclAllReduce, non-blocking";
    stages.measure(
        {who + ", 1 KB, returns, us", who + ", is settled, us", who + ", is done, us"},
        [&] { plain.allreduce(input, output, kCount, gpu.stream()); },
        [&] {
          while (!plain.is_settled()) {
          }
        },
        finish);
  }
  hvd::Pending pending(0);
  stages.measure(
      {"ours, 1 KB, is submitted, us", "ours, is in the stream, us", "ours, is done, us"},
      [&] {
        pending = hvd::allreduce_async<float>("bench", {input, kCount}, {output, kCount},
                                              gpu.place(), HVD_SUM);
      },
      [&] { pending.wait_stream(gpu.stream()); }, finish);
}

int run(const hvd::Context& job, RankGpu& gpu, const std::vector<std::string>& arguments) {
  if (job.rank() == 0) std::printf("%s, %d ranks\n", gpu.name().c_str(), job.size());
  if (arguments[0] == "steps" && arguments.size() > 1) {
    steps(gpu, arguments[1], arguments.size() > 2 ? std::stoi(arguments[2]) : 60);
  } else if (arguments[0] == "allreduce") {
    allreduce(gpu, arguments.size() > 1 ? std::stoul(arguments[1]) : std::size_t{1} << 30);
  } else if (arguments[0] == "costs") {
    costs(gpu);
  } else {
    return 2;
  }
  if (job.rank() == 0) std::printf("%s", job.describe().c_str());
  hvd::barrier();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return hvd_test::run_on_gpu([&](const hvd::Context& job, RankGpu& gpu) {
    return run(job, gpu, {argv + 1, argv + argc});
  });
}
