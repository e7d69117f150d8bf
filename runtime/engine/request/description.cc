// SPDX-License-Identifier: Apache-2.0
#include "engine/request/description.h"

namespace hvd {
namespace {

using KindNumber = std::uint8_t;

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
  if (d.device == DeviceKind::kCpu) return "it in CPU memory";
  return d.device == DeviceKind::kCuda ? "it on a CUDA GPU" : "it on a ROCm GPU";
}
std::string priority_value(const Description& d, std::size_t) {
  return format_text("priority {}", d.priority);
}
std::string dtype_value(const Description& d, std::size_t i) {
  return std::string(name_of(d.tensors[i].dtype));
}
std::string shape_value(const Description& d, std::size_t i) {
  const std::string text = shape_text(d.tensors[i].shape);
  return kind_of(d.operation).has_free_rows ? "rows of shape " + text : text;
}
std::string layout_value(const Description& d, std::size_t i) {
  return format_text("layout tag {:x}", d.tensors[i].layout);
}

constexpr Attribute kWholeAttributes[] = {
    {"the kind of operation", kind_value},
    {"the operation", operation_value},
    {"the number of tensors in the group", count_value},
    {"where the tensor lies", device_value},
    {"the priority", priority_value},
};
constexpr Attribute kTensorAttributes[] = {
    {"the type", dtype_value},
    {"the shape", shape_value},
    {"the memory layout (strides) or the compression", layout_value},
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

/// Parameters of an operation, as they travel.
void put_operation(ByteWriter& writer, const Operation& operation) {
  writer.put(static_cast<KindNumber>(operation.index()));
  std::visit(
      [&](const auto& one) {
        if constexpr (requires { one.root; }) writer.put(static_cast<std::int32_t>(one.root));
        if constexpr (requires { one.op; }) {
          writer.put(one.op);
          writer.put(one.prescale);
          writer.put(one.postscale);
        }
        if constexpr (requires { one.wire; }) writer.put(one.wire);
      },
      operation);
}

/// Reads what put_operation() wrote.
Result<Operation> get_operation(ByteReader& reader) {
  HVD_TRY_ASSIGN(const auto kind, reader.get<KindNumber>());
  auto operation = operation_of(kind);
  if (!operation) return invalid("kind");
  const auto get_parameters = [&](auto& one) -> Status {
    if constexpr (requires { one.root; }) {
      HVD_TRY_ASSIGN(one.root, reader.get<std::int32_t>());
    }
    if constexpr (requires { one.op; }) {
      HVD_TRY_ASSIGN(one.op, reader.get<ReduceOp>());
      HVD_TRY_ASSIGN(one.prescale, reader.get<double>());
      HVD_TRY_ASSIGN(one.postscale, reader.get<double>());
      if (one.op > ReduceOp::kBitXor) return invalid("reduction");
    }
    if constexpr (requires { one.wire; }) {
      HVD_TRY_ASSIGN(one.wire, reader.get<Wire>());
      if (one.wire > Wire::kBfloat16) return invalid("wire type");
    }
    return Status::ok();
  };
  HVD_TRY(std::visit(get_parameters, *operation));
  return *operation;
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
  Description description{
      request.process_set, request.operation, request.device.kind, request.priority, {}};
  const bool free_rows = kind_of(request.operation).has_free_rows;
  description.tensors.reserve(request.tensors.size());
  for (const hvd::Tensor& tensor : request.tensors) {
    Description::Tensor described{tensor.dtype, tensor.layout, tensor.shape};
    if (free_rows && !described.shape.empty()) described.shape.erase(described.shape.begin());
    description.tensors.push_back(std::move(described));
  }
  return description;
}

void encode(ByteWriter& writer, const Description& description) {
  writer.put(static_cast<std::int32_t>(description.process_set));
  put_operation(writer, description.operation);
  writer.put(description.device);
  writer.put(static_cast<std::int32_t>(description.priority));
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
  HVD_TRY_ASSIGN(description.operation, get_operation(reader));
  HVD_TRY_ASSIGN(description.device, reader.get<DeviceKind>());
  HVD_TRY_ASSIGN(description.priority, reader.get<std::int32_t>());
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

}  // namespace hvd
