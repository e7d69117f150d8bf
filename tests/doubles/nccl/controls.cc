// SPDX-License-Identifier: Apache-2.0
#include "doubles/nccl/controls.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>

#include "base/mutex.h"
#include "doubles/nccl/double_nccl.h"
#include "doubles/nccl/ras_server.h"

namespace double_nccl {
namespace {

/// An order for the nth event from now that fits.
struct Order {
  std::string function;  ///< "": for an operation in a stream.
  int rank = -1;
  int nth = 1;
  Fate fate;
};

struct Controls {
  hvd::Mutex mutex;
  hvd::CondVar released;
  std::vector<Order> orders HVD_GUARDED_BY(mutex);
  std::vector<Order> blocks HVD_GUARDED_BY(mutex);
  std::uint64_t releases HVD_GUARDED_BY(mutex) = 0;
  std::map<std::string, int> calls HVD_GUARDED_BY(mutex);
  std::map<int, int> operations HVD_GUARDED_BY(mutex);
  std::minstd_rand generator HVD_GUARDED_BY(mutex);
  unsigned most_delay_us HVD_GUARDED_BY(mutex) = 0;
  int version HVD_GUARDED_BY(mutex) = NCCL_VERSION_CODE;
  int progress_polls HVD_GUARDED_BY(mutex) = 1;
  bool deaths_are_silent HVD_GUARDED_BY(mutex) = false;
  bool one_at_a_time HVD_GUARDED_BY(mutex) = false;
  ncclResult_t death_code HVD_GUARDED_BY(mutex) = ncclRemoteError;
  int complaints HVD_GUARDED_BY(mutex) = 0;
  std::string last_complaint HVD_GUARDED_BY(mutex);
  std::string last_error HVD_GUARDED_BY(mutex);
};

std::vector<std::string> parts_of(const char* variable) {
  const char* text = std::getenv(variable);
  std::vector<std::string> parts;
  for (std::string rest = text == nullptr ? "" : text; !rest.empty();) {
    const auto colon = rest.find(':');
    parts.push_back(rest.substr(0, colon));
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
  return parts;
}

int number_of(const std::string& text) {
  return static_cast<int>(std::strtol(text.c_str(), nullptr, 10));
}

void read_environment(Controls& controls) {
  const hvd::Lock lock(controls.mutex);
  if (const auto fail = parts_of("HVD_DOUBLE_NCCL_FAIL"); fail.size() >= 3) {
    const int rank = fail.size() > 3 ? number_of(fail[3]) : -1;
    const auto code = static_cast<ncclResult_t>(number_of(fail[2]));
    controls.orders.push_back({fail[0], rank, number_of(fail[1]), {.async_error = code}});
  }
  if (const auto block = parts_of("HVD_DOUBLE_NCCL_BLOCK"); block.size() >= 3) {
    const int rank = block.size() > 3 ? number_of(block[3]) : -1;
    controls.blocks.push_back(
        {block[0], rank, number_of(block[1]), {.block_ms = number_of(block[2])}});
  }
  if (const auto hang = parts_of("HVD_DOUBLE_NCCL_HANG"); hang.size() == 2) {
    controls.orders.push_back({"", number_of(hang[0]), number_of(hang[1]), {.hangs = true}});
  }
  if (const auto error = parts_of("HVD_DOUBLE_NCCL_ASYNC_ERROR"); error.size() == 3) {
    const auto code = static_cast<ncclResult_t>(number_of(error[2]));
    controls.orders.push_back(
        {"", number_of(error[0]), number_of(error[1]), {.async_error = code}});
  }
  if (const auto delay = parts_of("HVD_DOUBLE_NCCL_DELAY"); delay.size() == 2) {
    controls.generator.seed(static_cast<unsigned>(number_of(delay[0])));
    controls.most_delay_us = static_cast<unsigned>(number_of(delay[1]));
  }
  if (const auto version = parts_of("HVD_DOUBLE_NCCL_VERSION"); version.size() == 1) {
    controls.version = number_of(version[0]);
  }
  if (const auto polls = parts_of("HVD_DOUBLE_NCCL_PROGRESS_POLLS"); polls.size() == 1) {
    controls.progress_polls = number_of(polls[0]);
  }
  if (const auto code = parts_of("HVD_DOUBLE_NCCL_DEATH_CODE"); code.size() == 1) {
    controls.death_code = static_cast<ncclResult_t>(number_of(code[0]));
  }
  controls.deaths_are_silent = std::getenv("HVD_DOUBLE_NCCL_SILENT_DEATHS") != nullptr;
  controls.one_at_a_time = std::getenv("HVD_DOUBLE_NCCL_ONE_AT_A_TIME") != nullptr;
}

/// Never destroyed: threads of stars and streams use it until the process ends.
Controls& controls() {
  static Controls* const made = [] {
    auto* fresh = new Controls;
    read_environment(*fresh);
    const char* address = std::getenv("NCCL_RAS_ADDR");
    if (std::getenv("HVD_DOUBLE_NCCL_RAS") != nullptr) {
      serve_ras(address == nullptr ? "localhost:28028" : address);
    }
    return fresh;
  }();
  return *made;
}

/// Takes the order that is due now for `function` of `rank`, if there is one.
std::optional<Fate> take_order(std::vector<Order>& orders, const std::string& function, int rank) {
  for (auto order = orders.begin(); order != orders.end(); ++order) {
    if (order->function != function || (order->rank != -1 && order->rank != rank)) continue;
    if (--order->nth > 0) continue;
    const Fate fate = order->fate;
    orders.erase(order);
    return fate;
  }
  return std::nullopt;
}

void add_order(Order order) {
  Controls& all = controls();
  const hvd::Lock lock(all.mutex);
  all.orders.push_back(std::move(order));
}

/// NCCL's copy of CUDA's runtime ends at the exit of the program, by a handler that is registered
/// as the library is loaded.
std::atomic<bool> has_ended{false};
const int end_is_registered = std::atexit([] { has_ended.store(true); });

}  // namespace

std::optional<ncclResult_t> enter(const char* function, int rank) {
  if (has_ended.load()) {
    if (std::getenv("HVD_DOUBLE_TELL_LATE") != nullptr) {
      std::fprintf(stderr, "double of NCCL: %s after its end\n", function);
    }
    return ncclUnhandledCudaError;
  }
  Controls& all = controls();
  const hvd::Lock lock(all.mutex);
  ++all.calls[function];
  if (const auto block = take_order(all.blocks, function, rank)) {
    const auto deadline = block->block_ms == 0
                              ? hvd::kForever
                              : hvd::Deadline::after(std::chrono::milliseconds(block->block_ms));
    const std::uint64_t before = all.releases;
    while (all.releases == before && all.released.wait_until(all.mutex, deadline)) {
    }
  }
  const auto fate = take_order(all.orders, function, rank);
  if (!fate) return std::nullopt;
  all.last_error = std::string(function) + ": ordered by the test";
  return fate->async_error;
}

Fate next_fate(int rank) {
  Controls& all = controls();
  const hvd::Lock lock(all.mutex);
  ++all.operations[rank];
  Fate fate = take_order(all.orders, "", rank).value_or(Fate{});
  if (all.most_delay_us > 0) {
    fate.delay_us = static_cast<std::uint32_t>(all.generator() % all.most_delay_us);
  }
  return fate;
}

int version() {
  Controls& all = controls();
  const hvd::Lock lock(all.mutex);
  return all.version;
}

bool are_deaths_silent() {
  Controls& all = controls();
  const hvd::Lock lock(all.mutex);
  return all.deaths_are_silent;
}

ncclResult_t death_code() {
  Controls& all = controls();
  const hvd::Lock lock(all.mutex);
  return all.death_code;
}

bool is_one_at_a_time() {
  Controls& all = controls();
  const hvd::Lock lock(all.mutex);
  return all.one_at_a_time;
}

int progress_polls() {
  Controls& all = controls();
  const hvd::Lock lock(all.mutex);
  return all.progress_polls;
}

void complain(const std::string& text) {
  Controls& all = controls();
  {
    const hvd::Lock lock(all.mutex);
    ++all.complaints;
    all.last_complaint = text;
    all.last_error = text;
  }
  std::fprintf(stderr, "NCCL double: %s\n", text.c_str());
}

void set_last_error(const std::string& text) {
  Controls& all = controls();
  const hvd::Lock lock(all.mutex);
  all.last_error = text;
}

const char* last_error() {
  static thread_local std::string copy;
  Controls& all = controls();
  const hvd::Lock lock(all.mutex);
  copy = all.last_error;
  return copy.c_str();
}

}  // namespace double_nccl

using double_nccl::controls;

void double_nccl_reset() {
  auto& all = controls();
  const hvd::Lock lock(all.mutex);
  all.orders.clear();
  all.blocks.clear();
  ++all.releases;
  all.released.notify_all();
  all.calls.clear();
  all.operations.clear();
  all.most_delay_us = 0;
  all.version = NCCL_VERSION_CODE;
  all.progress_polls = 1;
  all.deaths_are_silent = false;
  all.one_at_a_time = false;
  all.death_code = ncclRemoteError;
  all.complaints = 0;
  all.last_complaint.clear();
  all.last_error.clear();
}

int double_nccl_calls(const char* function) {
  auto& all = controls();
  const hvd::Lock lock(all.mutex);
  const auto found = all.calls.find(function);
  return found == all.calls.end() ? 0 : found->second;
}

int double_nccl_operations(int rank) {
  auto& all = controls();
  const hvd::Lock lock(all.mutex);
  int sum = 0;
  for (const auto& [whose, count] : all.operations) sum += rank == -1 || rank == whose ? count : 0;
  return sum;
}

int double_nccl_complaints() {
  auto& all = controls();
  const hvd::Lock lock(all.mutex);
  return all.complaints;
}

const char* double_nccl_last_complaint() {
  static thread_local std::string copy;
  auto& all = controls();
  const hvd::Lock lock(all.mutex);
  copy = all.last_complaint;
  return copy.c_str();
}

void double_nccl_fail(const char* function, int nth, int code, int rank) {
  double_nccl::add_order({function, rank, nth, {.async_error = static_cast<ncclResult_t>(code)}});
}

void double_nccl_block(const char* function, int nth, int milliseconds, int rank) {
  auto& all = controls();
  const hvd::Lock lock(all.mutex);
  all.blocks.push_back({function, rank, nth, {.block_ms = milliseconds}});
}

void double_nccl_release() {
  auto& all = controls();
  const hvd::Lock lock(all.mutex);
  ++all.releases;
  all.released.notify_all();
}

void double_nccl_hang(int rank, int nth) {
  double_nccl::add_order({"", rank, nth, {.hangs = true}});
}

void double_nccl_async_error(int rank, int nth, int code) {
  double_nccl::add_order({"", rank, nth, {.async_error = static_cast<ncclResult_t>(code)}});
}

void double_nccl_delay(unsigned seed, unsigned most_us) {
  auto& all = controls();
  const hvd::Lock lock(all.mutex);
  all.generator.seed(seed);
  all.most_delay_us = most_us;
}

void double_nccl_set_version(int version) {
  auto& all = controls();
  const hvd::Lock lock(all.mutex);
  all.version = version;
}

void double_nccl_silent_deaths(int silent) {
  auto& all = controls();
  const hvd::Lock lock(all.mutex);
  all.deaths_are_silent = silent != 0;
}

void double_nccl_death_code(int code) {
  auto& all = controls();
  const hvd::Lock lock(all.mutex);
  all.death_code = static_cast<ncclResult_t>(code);
}

void double_nccl_one_at_a_time(int one) {
  auto& all = controls();
  const hvd::Lock lock(all.mutex);
  all.one_at_a_time = one != 0;
}

void double_nccl_progress_polls(int polls) {
  auto& all = controls();
  const hvd::Lock lock(all.mutex);
  all.progress_polls = polls;
}
