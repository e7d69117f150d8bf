// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "c/guard.h"
#include "c/process.h"
#include "c/request_translation.h"
#include "hvd/gradients.h"
#include "optim/gradient_reducer.h"

struct hvd_gradients {
  hvd::GradientReducer reducer;
  std::weak_ptr<hvd::Engine> engine{};  ///< Which the gradients of the step were submitted to.
};

namespace {

static_assert(HVD_COMPRESS_NONE == static_cast<int>(hvd::CompressionMethod::kNone));
static_assert(HVD_COMPRESS_FLOAT16 == static_cast<int>(hvd::CompressionMethod::kFloat16));
static_assert(HVD_COMPRESS_BFLOAT16 == static_cast<int>(hvd::CompressionMethod::kBfloat16));
static_assert(HVD_COMPRESS_FLOAT8_E4M3 == static_cast<int>(hvd::CompressionMethod::kFloat8E4m3));
static_assert(HVD_COMPRESS_FLOAT8_E5M2 == static_cast<int>(hvd::CompressionMethod::kFloat8E5m2));
static_assert(HVD_COMPRESS_TOP_K == static_cast<int>(hvd::CompressionMethod::kTopK));
static_assert(HVD_COMPRESS_POWER_SGD == static_cast<int>(hvd::CompressionMethod::kPowerSgd));
static_assert(HVD_REDUCED == static_cast<int>(hvd::GradientSet::Sharing::kReduced));
static_assert(HVD_LOCAL == static_cast<int>(hvd::GradientSet::Sharing::kLocal));
static_assert(HVD_LOCAL_SCALED == static_cast<int>(hvd::GradientSet::Sharing::kLocalScaled));

using hvd::Code;
using hvd::Compression;
using hvd::CompressionMethod;
using hvd::error;
using hvd::GradientSet;
using hvd::guarded;
using hvd::Status;

Status check_set(const hvd_gradients* gradients) {
  if (gradients != nullptr) return Status::ok();
  return error(Code::kInvalidArgument, "the set of gradients is null");
}

/// The engine that takes gradients now. What a step submitted to an earlier one, of a job that
/// this process has left, is over: the step begins anew.
hvd::Result<std::shared_ptr<hvd::Engine>> engine_of_step(hvd_gradients& gradients) {
  HVD_TRY_ASSIGN(auto engine, hvd::Process::instance().engine());
  if (gradients.engine.lock() != engine) {
    if (!gradients.reducer.is_idle()) gradients.reducer.abandon(nullptr);
    gradients.engine = engine;
  }
  return engine;
}

Status copy_indices(const std::vector<std::size_t>& from, uint32_t* indices, uint32_t capacity,
                    uint32_t* count) {
  if (count == nullptr || (indices == nullptr && capacity > 0)) {
    return error(Code::kInvalidArgument, "indices of gradients: a pointer is null");
  }
  *count = static_cast<uint32_t>(from.size());
  for (std::size_t i = 0; i < from.size() && i < capacity; ++i) {
    indices[i] = static_cast<uint32_t>(from[i]);
  }
  return Status::ok();
}

/// The caller's struct in the size of this library's: an older caller has fewer fields.
hvd::Result<hvd_gradients_options> whole_options(const hvd_gradients_options* given) {
  constexpr std::size_t kOldest = offsetof(hvd_gradients_options, predivide);
  hvd_gradients_options options = HVD_GRADIENTS_OPTIONS_INITIALIZER;
  if (given == nullptr) return options;
  if (given->struct_size < kOldest || given->struct_size > sizeof options) {
    return error(Code::kInvalidArgument,
                 "hvd_gradients_create: struct_size is {}, this library takes {} to {}; start from "
                 "HVD_GRADIENTS_OPTIONS_INITIALIZER",
                 given->struct_size, kOldest, sizeof options);
  }
  std::memcpy(&options, given, given->struct_size);
  return options;
}

hvd::Result<GradientSet::Options> translate(const hvd_gradients_options& given) {
  if (given.reduce_op < HVD_AVERAGE || given.reduce_op > HVD_BIT_XOR || given.passes_per_step < 0) {
    return error(Code::kInvalidArgument, "hvd_gradients_create: reduce_op {}, passes_per_step {}",
                 given.reduce_op, given.passes_per_step);
  }
  GradientSet::Options options;
  options.operation.op = static_cast<hvd::ReduceOp>(given.reduce_op);
  options.operation.prescale = given.prescale;
  options.operation.postscale = given.postscale;
  if (given.passes_per_step > 0) options.passes_per_step = given.passes_per_step;
  if (given.flush_bytes > 0) options.flush_bytes = given.flush_bytes;
  if (given.predivide != 0) options.predivide = given.predivide;
  options.clip_norm = given.clip_norm;
  options.mean_over_passes = given.mean_over_passes != 0;
  options.process_set = given.process_set;
  options.tracks_use = given.tracks_use != 0;
  if (given.device_kind < HVD_CPU || given.device_kind > HVD_ROCM || given.device_index < 0) {
    return error(Code::kInvalidArgument, "hvd_gradients_create: device_kind {}, device_index {}",
                 given.device_kind, given.device_index);
  }
  options.device = {static_cast<hvd::DeviceKind>(given.device_kind), given.device_index};
  HVD_TRY(GradientSet::check(options));
  return options;
}

hvd::Result<Compression> translate(const hvd_compression* from) {
  constexpr std::size_t kOldest = offsetof(hvd_compression, momentum);
  if (from->struct_size < kOldest || from->struct_size > sizeof(hvd_compression)) {
    return error(Code::kInvalidArgument,
                 "hvd_gradient_compress: struct_size is {}, this library takes {} to {}",
                 from->struct_size, kOldest, sizeof(hvd_compression));
  }
  hvd_compression given{};
  std::memcpy(&given, from, from->struct_size);
  if (given.method < 0 || given.method > std::numeric_limits<std::uint8_t>::max()) {
    return error(Code::kInvalidArgument, "method {} is not an hvd_compression_method",
                 given.method);
  }
  Compression compression{.method = static_cast<CompressionMethod>(given.method)};
  if (given.rank != 0) compression.rank = given.rank;
  if (given.ratio != 0) compression.ratio = given.ratio;
  if (given.smallest != 0) compression.smallest = given.smallest;
  compression.momentum = given.momentum;
  return compression;
}

/// One method for all; what it does not take travels whole.
Status compress_all(GradientSet& set, int method, const std::vector<hvd::DataType>& dtypes) {
  if (method == HVD_COMPRESS_NONE) return Status::ok();
  const hvd_compression chosen{sizeof(hvd_compression), method, 0, 0, 0, 0};
  HVD_TRY_ASSIGN(const auto compression, translate(&chosen));
  HVD_TRY(hvd::check_compression(compression));
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    const bool is_double = dtypes[i] == hvd::DataType::kFloat64 &&
                           hvd::wire_of(compression.method) != hvd::Wire::kSame;
    if (dtypes[i] != hvd::DataType::kFloat32 && !is_double) continue;
    HVD_TRY(set.compress(i, compression));
  }
  return Status::ok();
}

/// See hvd_gradients_destroy().
constexpr double kDestroyPatienceSeconds = 10;

/// Without the engine of the step nothing is in flight: it has failed all that was. Nor is anything
/// in a forked child, whose set is a copy: what its parent has in flight is not its concern.
void settle(hvd_gradients& gradients, const std::string& cause, double timeout_seconds) {
  hvd::GradientReducer& reducer = gradients.reducer;
  if (hvd::Process::instance().is_forked_child()) return reducer.abandon(nullptr);
  const auto engine = gradients.engine.lock();
  if (engine == nullptr || reducer.is_idle()) return reducer.abandon(nullptr);
  const bool at_once = timeout_seconds == 0 && engine->world().size > 1;
  if (at_once) engine->abort(cause);
  reducer.settle(*engine, at_once ? hvd::kForever : hvd::deadline_after(timeout_seconds), cause);
}

}  // namespace

hvd_status hvd_gradients_create(const hvd_gradients_options* options, const char* const* names,
                                const hvd_tensor* tensors, uint32_t count,
                                hvd_gradients** gradients) noexcept {
  return guarded([&]() -> Status {
    if (gradients == nullptr || (count > 0 && (names == nullptr || tensors == nullptr))) {
      return error(Code::kInvalidArgument, "hvd_gradients_create: a pointer is null");
    }
    HVD_TRY_ASSIGN(const auto given, whole_options(options));
    HVD_TRY_ASSIGN(const auto checked, translate(given));
    std::vector<GradientSet::Gradient> described;
    std::vector<hvd::DataType> dtypes;
    described.reserve(count);
    for (uint32_t i = 0; i < count; ++i) {
      if (names[i] == nullptr || *names[i] == '\0') {
        return error(Code::kInvalidArgument, "hvd_gradients_create: gradient {} has no name", i);
      }
      HVD_TRY_ASSIGN(auto tensor, hvd::translate_description(names[i], tensors[i]));
      dtypes.push_back(tensor.dtype);
      described.push_back({names[i], std::move(tensor)});
    }
    GradientSet set(std::move(described), checked);
    HVD_TRY(compress_all(set, given.compression, dtypes));
    // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): guarded() turns it into a status.
    *gradients = new hvd_gradients{.reducer = hvd::GradientReducer(std::move(set))};
    return Status::ok();
  });
}

hvd_status hvd_gradient_ready(hvd_gradients* gradients, uint32_t index, void* data,
                              int last_pass) noexcept {
  return hvd_gradient_ready_on(gradients, index, data, last_pass, nullptr);
}

hvd_status hvd_gradient_ready_on(hvd_gradients* gradients, uint32_t index, void* data,
                                 int last_pass, void* stream) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    HVD_TRY_ASSIGN(const auto engine, engine_of_step(*gradients));
    return gradients->reducer.ready(*engine, {index, data, last_pass != 0, stream});
  });
}

hvd_status hvd_gradient_elsewhere(hvd_gradients* gradients, uint32_t index) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    HVD_TRY_ASSIGN(const auto engine, engine_of_step(*gradients));
    return gradients->reducer.mark_elsewhere(*engine, index);
  });
}

hvd_status hvd_gradients_exchange(hvd_gradients* gradients, int is_final, double timeout_seconds,
                                  uint32_t* needed, uint32_t capacity, uint32_t* count,
                                  int* is_over) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    if (is_over == nullptr) return error(Code::kInvalidArgument, "is_over is null");
    if (!gradients->reducer.set().options().tracks_use) {
      return error(Code::kInvalidArgument,
                   "hvd_gradients_exchange: the set does not track use; set "
                   "hvd_gradients_options.tracks_use to 1");
    }
    HVD_TRY_ASSIGN(const auto engine, engine_of_step(*gradients));
    HVD_TRY_ASSIGN(
        const auto round,
        gradients->reducer.exchange(*engine, is_final != 0, hvd::deadline_after(timeout_seconds)));
    *is_over = round.is_over ? 1 : 0;
    return copy_indices(round.needed, needed, capacity, count);
  });
}

hvd_status hvd_gradients_wait_part(hvd_gradients* gradients, double timeout_seconds) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    HVD_TRY_ASSIGN(const auto engine, engine_of_step(*gradients));
    return gradients->reducer.wait(*engine, hvd::deadline_after(timeout_seconds), false);
  });
}

hvd_status hvd_gradients_wait_part_stream(hvd_gradients* gradients, void* stream,
                                          double timeout_seconds) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    HVD_TRY_ASSIGN(const auto engine, engine_of_step(*gradients));
    return gradients->reducer.wait_stream(*engine, stream, hvd::deadline_after(timeout_seconds),
                                          false);
  });
}

hvd_status hvd_gradient_describe(hvd_gradients* gradients, uint32_t index,
                                 const hvd_tensor* tensor) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    if (tensor == nullptr) return error(Code::kInvalidArgument, "the description is null");
    HVD_TRY_ASSIGN(auto description, hvd::translate_description("gradient", *tensor));
    return gradients->reducer.set().describe(index, std::move(description));
  });
}

hvd_status hvd_gradient_compress(hvd_gradients* gradients, uint32_t index,
                                 const hvd_compression* compression) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    if (compression == nullptr) return error(Code::kInvalidArgument, "the compression is null");
    HVD_TRY_ASSIGN(const auto chosen, translate(compression));
    return gradients->reducer.set().compress(index, chosen);
  });
}

hvd_status hvd_gradient_share(hvd_gradients* gradients, uint32_t index, int sharing) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    if (sharing < HVD_REDUCED || sharing > HVD_LOCAL_SCALED) {
      return error(Code::kInvalidArgument, "{} is not an hvd_sharing", sharing);
    }
    return gradients->reducer.set().share(index, static_cast<GradientSet::Sharing>(sharing));
  });
}

hvd_status hvd_gradient_start(hvd_gradients* gradients, uint32_t index,
                              const void* values) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    return gradients->reducer.set().start(index, values);
  });
}

hvd_status hvd_gradients_missing(const hvd_gradients* gradients, uint32_t* indices,
                                 uint32_t capacity, uint32_t* count) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    return copy_indices(gradients->reducer.set().missing(), indices, capacity, count);
  });
}

hvd_status hvd_gradients_wait(hvd_gradients* gradients, double timeout_seconds) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    const auto engine = engine_of_step(*gradients);
    if (engine.is_ok()) {
      return gradients->reducer.wait(*engine.value(), hvd::deadline_after(timeout_seconds));
    }
    gradients->reducer.abandon(nullptr);
    return engine.status();
  });
}

hvd_status hvd_gradients_wait_stream(hvd_gradients* gradients, void* stream,
                                     double timeout_seconds) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    const auto engine = engine_of_step(*gradients);
    if (engine.is_ok()) {
      return gradients->reducer.wait_stream(*engine.value(), stream,
                                            hvd::deadline_after(timeout_seconds));
    }
    gradients->reducer.abandon(nullptr);
    return engine.status();
  });
}

hvd_status hvd_gradients_set_passes(hvd_gradients* gradients, int passes) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    return gradients->reducer.set().set_passes_per_step(passes);
  });
}

hvd_status hvd_gradients_set_clip_norm(hvd_gradients* gradients, double clip_norm) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    return gradients->reducer.set().set_clip_norm(clip_norm);
  });
}

hvd_status hvd_gradients_set_loss_scale(hvd_gradients* gradients, double scale) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    return gradients->reducer.set().set_loss_scale(scale);
  });
}

hvd_status hvd_gradients_norm(const hvd_gradients* gradients, double* norm) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    if (norm == nullptr) return error(Code::kInvalidArgument, "hvd_gradients_norm: norm is null");
    *norm = gradients->reducer.last_norm();
    return Status::ok();
  });
}

hvd_status hvd_gradients_save(const hvd_gradients* gradients, void* buffer, size_t capacity,
                              size_t* size) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    if (size == nullptr || (buffer == nullptr && capacity > 0)) {
      return error(Code::kInvalidArgument, "hvd_gradients_save: a pointer is null");
    }
    const hvd::Bytes state = gradients->reducer.set().save();
    *size = state.size();
    if (buffer != nullptr && capacity >= state.size())
      std::memcpy(buffer, state.data(), state.size());
    return Status::ok();
  });
}

hvd_status hvd_gradients_load(hvd_gradients* gradients, const void* state, size_t size) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    if (state == nullptr) return error(Code::kInvalidArgument, "hvd_gradients_load: state is null");
    return gradients->reducer.set().load(std::span(static_cast<const std::byte*>(state), size));
  });
}

hvd_status hvd_gradients_abandon(hvd_gradients* gradients, const char* cause,
                                 double timeout_seconds) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY(check_set(gradients));
    settle(*gradients, cause == nullptr ? "it gave no cause" : cause, timeout_seconds);
    return Status::ok();
  });
}

void hvd_gradients_destroy(hvd_gradients* gradients) noexcept {
  const std::unique_ptr<hvd_gradients> owned(gradients);
  if (owned == nullptr) return;
  static_cast<void>(guarded([&] {
    settle(*owned, "it destroyed a set of gradients in the middle of a step",
           kDestroyPatienceSeconds);
    return Status::ok();
  }));
}
