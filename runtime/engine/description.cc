// SPDX-License-Identifier: Apache-2.0
#include "engine/description.h"

namespace hvd {
namespace {

enum class Kind : std::uint8_t { kAllreduce = 0, kAllgather = 1, kBroadcast = 2, kBarrier = 3 };

constexpr std::size_t kMaxDimensions = 64;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += format_text("{}{}", i == 0 ? "" : ", ", shape[i]);
  }
  return text + "]";
}

/// One attribute that ranks may disagree about.
struct Attribute {
  std::string_view what;
  std::string (*value)(const Description&, std::size_t tensor);
};

std::string kind_value(const Description& d, std::size_t) {
  return std::string(kind_name(d.operation));
}
std::string operation_value(const Description& d, std::size_t) { return describe(d.operation); }
std::string count_value(const Description& d, std::size_t) {
  return format_text("{}", d.tensors.size());
}
std::string device_value(const Description& d, std::size_t) {
  return d.device == DeviceKind::kCpu ? "CPU" : "GPU";
}
std::string dtype_value(const Description& d, std::size_t i) {
  return std::string(name_of(d.tensors[i].dtype));
}
std::string shape_value(const Description& d, std::size_t i) {
  const bool gather = std::holds_alternative<Allgather>(d.operation);
  const std::string text = shape_text(d.tensors[i].shape);
  return gather ? "rows of shape " + text : text;
}
std::string layout_value(const Description& d, std::size_t i) {
  return format_text("layout tag {:x}", d.tensors[i].layout);
}

constexpr Attribute kWholeAttributes[] = {
    {"the kind of operation", kind_value},
    {"the operation", operation_value},
    {"the number of tensors in the group", count_value},
    {"the device", device_value},
};
constexpr Attribute kTensorAttributes[] = {
    {"the type", dtype_value},
    {"the shape", shape_value},
    {"the memory layout (strides)", layout_value},
};

bool differs(const std::vector<Offer>& offers, const Attribute& attribute, std::size_t tensor) {
  const std::string first = attribute.value(offers.front().description, tensor);
  for (const Offer& offer : offers) {
    if (attribute.value(offer.description, tensor) != first) return true;
  }
  return false;
}

std::string sentence(const std::string& name, const std::vector<Offer>& offers,
                     const Attribute& attribute, std::size_t tensor) {
  std::string text = format_text("tensor '{}'", name);
  if (offers.front().description.tensors.size() > 1) text += format_text(" (number {})", tensor);
  text += format_text(": ranks disagree about {}: ", attribute.what);
  for (std::size_t i = 0; i < offers.size(); ++i) {
    const Offer& offer = offers[i];
    text += format_text("{}{} {} {}", i == 0 ? "" : ", ", describe_ranks(offer.ranks),
                        offer.ranks.count() == 1 ? "has" : "have",
                        attribute.value(offer.description, tensor));
  }
  return text + "; pass the same on every rank";
}

Status invalid(std::string_view what) {
  return error(Code::kInternal, "control message holds an invalid {}", what);
}

Result<Operation> decode_operation(ByteReader& reader) {
  HVD_TRY_ASSIGN(const auto kind, reader.get<Kind>());
  switch (kind) {
    case Kind::kAllreduce: {
      Allreduce operation;
      HVD_TRY_ASSIGN(operation.op, reader.get<ReduceOp>());
      HVD_TRY_ASSIGN(operation.prescale, reader.get<double>());
      HVD_TRY_ASSIGN(operation.postscale, reader.get<double>());
      if (operation.op > ReduceOp::kProduct) return invalid("reduction");
      return Operation(operation);
    }
    case Kind::kAllgather:
      return Operation(Allgather{});
    case Kind::kBroadcast: {
      Broadcast operation;
      HVD_TRY_ASSIGN(operation.root, reader.get<std::int32_t>());
      return Operation(operation);
    }
    case Kind::kBarrier:
      return Operation(Barrier{});
  }
  return invalid("kind");
}

}  // namespace

std::size_t Description::bytes() const {
  std::size_t total = 0;
  for (const Tensor& tensor : tensors) {
    std::size_t count = 1;
    for (const auto dimension : tensor.shape) count *= static_cast<std::size_t>(dimension);
    total += count * size_of(tensor.dtype);
  }
  return total;
}

bool Description::has_single_dtype() const {
  for (const Tensor& tensor : tensors) {
    if (tensor.dtype != tensors.front().dtype) return false;
  }
  return !tensors.empty();
}

Description describe_request(const Request& request) {
  Description description{request.process_set, request.operation, request.device.kind, {}};
  const bool gather = std::holds_alternative<Allgather>(request.operation);
  description.tensors.reserve(request.tensors.size());
  for (const hvd::Tensor& tensor : request.tensors) {
    Description::Tensor described{tensor.dtype, tensor.layout, tensor.shape};
    if (gather && !described.shape.empty()) described.shape.erase(described.shape.begin());
    description.tensors.push_back(std::move(described));
  }
  return description;
}

void encode(ByteWriter& writer, const Description& description) {
  writer.put(static_cast<std::int32_t>(description.process_set));
  writer.put(static_cast<Kind>(description.operation.index()));
  if (const auto* allreduce = std::get_if<Allreduce>(&description.operation)) {
    writer.put(allreduce->op);
    writer.put(allreduce->prescale);
    writer.put(allreduce->postscale);
  } else if (const auto* broadcast = std::get_if<Broadcast>(&description.operation)) {
    writer.put(static_cast<std::int32_t>(broadcast->root));
  }
  writer.put(description.device);
  writer.put(static_cast<std::uint32_t>(description.tensors.size()));
  for (const auto& tensor : description.tensors) {
    writer.put(tensor.dtype);
    writer.put(tensor.layout);
    writer.put_vector(tensor.shape);
  }
}

Result<Description> decode_description(ByteReader& reader) {
  Description description;
  HVD_TRY_ASSIGN(description.process_set, reader.get<std::int32_t>());
  HVD_TRY_ASSIGN(description.operation, decode_operation(reader));
  HVD_TRY_ASSIGN(description.device, reader.get<DeviceKind>());
  HVD_TRY_ASSIGN(const auto count, reader.get<std::uint32_t>());
  for (std::uint32_t i = 0; i < count; ++i) {
    Description::Tensor tensor;
    HVD_TRY_ASSIGN(tensor.dtype, reader.get<DataType>());
    if (static_cast<int>(tensor.dtype) >= kDataTypeCount) return invalid("element type");
    HVD_TRY_ASSIGN(tensor.layout, reader.get<std::uint64_t>());
    HVD_TRY_ASSIGN(tensor.shape, reader.get_vector<std::int64_t>());
    if (tensor.shape.size() > kMaxDimensions) return invalid("shape");
    description.tensors.push_back(std::move(tensor));
  }
  return description;
}

std::string disagreement(const std::string& name, const std::vector<Offer>& offers) {
  for (const Attribute& attribute : kWholeAttributes) {
    if (differs(offers, attribute, 0)) return sentence(name, offers, attribute, 0);
  }
  for (std::size_t i = 0; i < offers.front().description.tensors.size(); ++i) {
    for (const Attribute& attribute : kTensorAttributes) {
      if (differs(offers, attribute, i)) return sentence(name, offers, attribute, i);
    }
  }
  return format_text("tensor '{}': ranks disagree about the process set", name);
}

std::string describe_ranks(const RankSet& set) {
  const std::vector<int> ranks = set.ranks();
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    text += i == 0 ? "" : ", ";
    text += end == i ? format_text("{}", ranks[i]) : format_text("{}-{}", ranks[i], ranks[end]);
    i = end + 1;
  }
  return text;
}

}  // namespace hvd
