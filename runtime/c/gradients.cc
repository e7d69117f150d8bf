// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "c/guard.h"
#include "c/process.h"
#include "c/request_translation.h"
#include "hvd/gradients.h"
#include "optim/gradient_reducer.h"

struct hvd_gradients {
  hvd::GradientReducer reducer;
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
  if (given.device_kind < HVD_CPU || given.device_kind > HVD_ROCM || given.device_index < 0) {
    return error(Code::kInvalidArgument, "hvd_gradients_create: device_kind {}, device_index {}",
                 given.device_kind, given.device_index);
  }
  options.device = {static_cast<hvd::DeviceKind>(given.device_kind), given.device_index};
  HVD_TRY(GradientSet::check(options));
  return options;
}

hvd::Result<Compression> translate(const hvd_compression& given) {
  if (given.struct_size != sizeof(hvd_compression)) {
    return error(Code::kInvalidArgument,
                 "hvd_gradient_compress: struct_size is {}, this library's hvd_compression has {}",
                 given.struct_size, sizeof(hvd_compression));
  }
  if (given.method < 0 || given.method > std::numeric_limits<std::uint8_t>::max()) {
    return error(Code::kInvalidArgument, "method {} is not an hvd_compression_method",
                 given.method);
  }
  Compression compression{.method = static_cast<CompressionMethod>(given.method)};
  if (given.rank != 0) compression.rank = given.rank;
  if (given.ratio != 0) compression.ratio = given.ratio;
  if (given.smallest != 0) compression.smallest = given.smallest;
  return compression;
}

/// One method for all; what it does not take travels whole.
Status compress_all(GradientSet& set, int method, const std::vector<hvd::DataType>& dtypes) {
  if (method == HVD_COMPRESS_NONE) return Status::ok();
  HVD_TRY_ASSIGN(const auto compression,
                 translate(hvd_compression{sizeof(hvd_compression), method, 0, 0, 0}));
  HVD_TRY(hvd::check_compression(compression));
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    const bool is_double = dtypes[i] == hvd::DataType::kFloat64 &&
                           hvd::wire_of(compression.method) != hvd::Wire::kSame;
    if (dtypes[i] != hvd::DataType::kFloat32 && !is_double) continue;
    HVD_TRY(set.compress(i, compression));
  }
  return Status::ok();
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
    *gradients = new hvd_gradients{hvd::GradientReducer(std::move(set))};
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
    HVD_TRY_ASSIGN(const auto engine, hvd::Process::instance().engine());
    return gradients->reducer.ready(*engine, {index, data, last_pass != 0, stream});
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
    HVD_TRY_ASSIGN(const auto chosen, translate(*compression));
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
    if (count == nullptr || (indices == nullptr && capacity > 0)) {
      return error(Code::kInvalidArgument, "hvd_gradients_missing: a pointer is null");
    }
    const auto missing = gradients->reducer.set().missing();
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
    const auto engine = hvd::Process::instance().engine();
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
    const auto engine = hvd::Process::instance().engine();
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

void hvd_gradients_destroy(hvd_gradients* gradients) noexcept {
  const std::unique_ptr<hvd_gradients> owned(gradients);
  if (owned == nullptr || owned->reducer.is_idle()) return;
  static_cast<void>(guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, hvd::Process::instance().engine());
    owned->reducer.abandon(engine.get());
    return Status::ok();
  }));
}
