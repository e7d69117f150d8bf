// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "collective/data_type.h"
#include "collective/operation.h"
#include "collective/rank_set.h"
#include "device/device.h"
#include "engine/request/request.h"

namespace hvd {

/// All that ranks must agree on before a request runs: everything except the memory.
/// Compared once per name and epoch; afterwards one bit stands for it.
struct Description {
  struct Tensor {
    DataType dtype = DataType::kFloat32;
    std::uint64_t layout = 0;
    std::vector<std::int64_t> shape;  ///< Without the first dimension where that may differ.
    bool operator==(const Tensor&) const = default;
  };

  int process_set = 0;
  Operation operation;
  DeviceKind device = DeviceKind::kCpu;
  int priority = 0;
  std::vector<Tensor> tensors;
  bool operator==(const Description&) const = default;

  /// Bytes of all tensors (of one row where the first dimension may differ).
  std::size_t bytes() const;
  /// True when there is a tensor and all share one element type.
  bool has_single_dtype() const;
};

Description describe_request(const Request& request);

void encode(ByteWriter& writer, const Description& description);
Result<Description> decode_description(ByteReader& reader);

/// The description that one group of ranks announced for a name.
struct Offer {
  Description description;
  RankSet ranks;
};

/// The sentence for ranks that disagree: tensor, the first attribute that differs, ranks and both
/// values. `offers` holds at least two descriptions.
std::string disagreement(const std::string& name, const std::vector<Offer>& offers);

}  // namespace hvd
