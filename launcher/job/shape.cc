// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/shape.h"

namespace hvd {

JobShape choose_shape(const JobOptions& request, const JobSize& size, bool whole_nodes) {
  if (request.requeue) return JobShape::kRequeue;
  if (!request.container.empty()) return JobShape::kContainer;
  if (!request.array.empty()) return JobShape::kArray;
  if (size.gpus_per_node == 0) return JobShape::kCpu;
  return request.exclusive || whole_nodes ? JobShape::kGpuExclusive : JobShape::kGpu;
}

std::string_view shape_name(JobShape shape) {
  switch (shape) {
    case JobShape::kRequeue:
      return "requeue";
    case JobShape::kContainer:
      return "container";
    case JobShape::kArray:
      return "array";
    case JobShape::kGpuExclusive:
      return "gpu-exclusive";
    case JobShape::kGpu:
      return "gpu";
    case JobShape::kCpu:
      break;
  }
  return "cpu";
}

}  // namespace hvd
