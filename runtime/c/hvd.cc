// SPDX-License-Identifier: Apache-2.0
#include "hvd/hvd.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "base/environment.h"
#include "c/build_info.h"
#include "c/guard.h"
#include "c/process.h"
#include "c/request_translation.h"
#include "c/settings.h"

namespace {

using hvd::Code;
using hvd::guarded;
using hvd::null_argument;
using hvd::Process;
using hvd::Status;

/// A number about the job, or -1; in a forked child too.
template <typename Read>
int number(Read&& read) noexcept {
  int value = -1;
  static_cast<void>(guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, Process::instance().identity());
    value = read(engine->world());
    return Status::ok();
  }));
  return value;
}

/// How many nodes before `end` have a rank with my local rank.
int nodes_with_my_local_rank(const hvd::Communicator& world, int end) {
  return static_cast<int>(std::count_if(
      world.nodes.begin(), world.nodes.begin() + end,
      [&](const auto& ranks) { return static_cast<int>(ranks.size()) > world.local_rank; }));
}

Status submit(const hvd_request& given, hvd_handle* handle) {
  HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
  HVD_TRY_ASSIGN(auto request, hvd::translate(given));
  HVD_TRY_ASSIGN(*handle, engine->submit(std::move(request)));
  return Status::ok();
}

}  // namespace

hvd_status hvd_init(const hvd_init_options* options) noexcept {
  return guarded([&]() -> Status {
    const hvd::Environment environment = hvd::Environment::of_process();
    HVD_TRY_ASSIGN(const auto settings, hvd::settings_from(environment, options));
    return Process::instance().start(environment, settings);
  });
}

hvd_status hvd_shutdown(double timeout_seconds) noexcept {
  return guarded([&] { return Process::instance().stop(hvd::deadline_after(timeout_seconds)); });
}

hvd_status hvd_set_farewell(const char* cause) noexcept {
  return guarded([&] {
    Process::instance().set_farewell(cause == nullptr ? "" : cause);
    return Status::ok();
  });
}

hvd_status hvd_abort(const char* cause) noexcept {
  return guarded([&]() -> Status {
    Process::instance().abort(cause == nullptr ? "it gave no cause" : cause);
    return Status::ok();
  });
}

int hvd_is_initialized() noexcept { return Process::instance().is_running() ? 1 : 0; }

int hvd_came_late() noexcept { return Process::instance().came_late() ? 1 : 0; }

int hvd_has_newcomers() noexcept { return Process::instance().has_newcomers() ? 1 : 0; }

int hvd_rank() noexcept {
  return number([](const auto& world) { return world.rank; });
}

int hvd_size() noexcept {
  return number([](const auto& world) { return world.size; });
}

int hvd_local_rank() noexcept {
  return number([](const auto& world) {
    return world.given_local_rank >= 0 ? world.given_local_rank : world.local_rank;
  });
}

int hvd_local_size() noexcept {
  return number([](const auto& world) { return world.local_size(); });
}

int hvd_cross_rank() noexcept {
  return number([](const auto& world) { return nodes_with_my_local_rank(world, world.node); });
}

int hvd_cross_size() noexcept {
  return number(
      [](const auto& world) { return nodes_with_my_local_rank(world, world.node_count()); });
}

int hvd_is_homogeneous() noexcept {
  return number([](const auto& world) {
    const auto size = world.nodes.front().size();
    return std::all_of(world.nodes.begin(), world.nodes.end(),
                       [&](const auto& ranks) { return ranks.size() == size; })
               ? 1
               : 0;
  });
}

hvd_status hvd_alloc(size_t bytes, void** memory) noexcept {
  return guarded([&]() -> Status {
    if (memory == nullptr) return null_argument("hvd_alloc", "memory");
    HVD_TRY_ASSIGN(*memory, Process::instance().allocate(bytes));
    return Status::ok();
  });
}

hvd_status hvd_free(void* memory) noexcept {
  return guarded([&]() -> Status {
    return memory == nullptr ? Status::ok() : Process::instance().deallocate(memory);
  });
}

hvd_status hvd_submit(const hvd_request* request, hvd_handle* handle) noexcept {
  return guarded([&]() -> Status {
    if (request == nullptr) return null_argument("hvd_submit", "request");
    if (handle == nullptr) return null_argument("hvd_submit", "handle");
    return submit(*request, handle);
  });
}

hvd_status hvd_flush() noexcept {
  return guarded([]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    engine->flush();
    return Status::ok();
  });
}

hvd_status hvd_poll(hvd_handle handle, int* done) noexcept {
  return guarded([&]() -> Status {
    if (done == nullptr) return null_argument("hvd_poll", "done");
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    HVD_TRY_ASSIGN(const bool is_done, engine->poll(handle));
    *done = is_done ? 1 : 0;
    return Status::ok();
  });
}

hvd_status hvd_wait(hvd_handle handle, double timeout_seconds) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    return engine->wait(handle, hvd::deadline_after(timeout_seconds));
  });
}

hvd_status hvd_wait_stream(hvd_handle handle, void* stream, double timeout_seconds) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    return engine->wait_stream(handle, stream, hvd::deadline_after(timeout_seconds));
  });
}

hvd_status hvd_gathered(hvd_handle handle, uint32_t index, hvd_gather* result) noexcept {
  return guarded([&]() -> Status {
    if (result == nullptr) return null_argument("hvd_gathered", "result");
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    HVD_TRY_ASSIGN(const hvd::GatherResult* gathered, engine->gathered(handle, index));
    result->data = gathered->begin();
    result->shape = gathered->shape.data();
    result->rows = gathered->rows.data();
    result->dimensions = static_cast<int32_t>(gathered->shape.size());
    result->ranks = static_cast<int32_t>(gathered->rows.size());
    return Status::ok();
  });
}

hvd_status hvd_release(hvd_handle handle) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    engine->release(handle);
    return Status::ok();
  });
}

const char* hvd_last_error() noexcept { return hvd::last_error().c_str(); }

const char* hvd_status_name(hvd_status status) noexcept {
  return hvd::code_name(static_cast<Code>(status)).data();
}

const char* hvd_describe() noexcept {
  thread_local std::string text;
  const hvd_status status = guarded([]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    text = engine->describe();
    return Status::ok();
  });
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.InnerPointer): nothing changes it after the assignment.
  return status == HVD_OK ? text.c_str() : nullptr;
}

const char* hvd_version() noexcept { return HVD_VERSION; }

const char* hvd_build_info() noexcept {
  // Without memory for one sentence the process is lost anyway.
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new)
  static const std::string* const text = new std::string(hvd::build_info());
  return text->c_str();
}

hvd_status hvd_statistics(hvd_counters* statistics) noexcept {
  return guarded([&]() -> Status {
    if (statistics == nullptr) return null_argument("hvd_statistics", "statistics");
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    const hvd::Engine::Statistics now = engine->statistics();
    const hvd_counters all{
        .struct_size = std::min(statistics->struct_size, sizeof(hvd_counters)),
        .batches = now.batches,
        .requests = now.requests,
        .bytes = now.bytes,
        .waited_seconds = std::chrono::duration<double>(now.waited).count(),
    };
    std::memcpy(statistics, &all, all.struct_size);
    return Status::ok();
  });
}

hvd_status hvd_timeline_start(const char* path, int mark_batches) noexcept {
  return guarded([&]() -> Status {
    if (path == nullptr) return null_argument("hvd_timeline_start", "path");
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    return engine->start_timeline({path, mark_batches != 0});
  });
}

hvd_status hvd_timeline_stop() noexcept {
  return guarded([]() -> Status {
    if (!Process::instance().is_running()) return Status::ok();
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    return engine->stop_timeline();
  });
}
