// SPDX-License-Identifier: Apache-2.0
#include "engine/request/description.h"

namespace hvd {
namespace {

using Kind = std::uint8_t;

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
  return has_free_rows(d.operation) ? "rows of shape " + text : text;
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

/// Parameters of an operation, as they travel. One overload for each kind with parameters.
struct OperationWriter {
  ByteWriter& w;

  void put_reduction(ReduceOp op, double prescale, double postscale) {
    w.put(op);
    w.put(prescale);
    w.put(postscale);
  }
  void put_root(int root) { w.put(static_cast<std::int32_t>(root)); }
  void operator()(const Allreduce& o) {
    put_reduction(o.op, o.prescale, o.postscale);
    w.put(o.wire);
  }
  void operator()(const Reducescatter& o) { put_reduction(o.op, o.prescale, o.postscale); }
  void operator()(const Reduce& o) {
    put_root(o.root);
    put_reduction(o.op, o.prescale, o.postscale);
  }
  void operator()(const Broadcast& o) { put_root(o.root); }
  void operator()(const Gather& o) { put_root(o.root); }
  void operator()(const Scatter& o) { put_root(o.root); }
  template <typename WithoutParameters>
  void operator()(const WithoutParameters& /*operation*/) {}
};

/// Reads what OperationWriter wrote; one overload for each kind with parameters.
struct OperationReader {
  ByteReader& r;

  Status get_reduction(ReduceOp& op, double& prescale, double& postscale) {
    HVD_TRY_ASSIGN(op, r.get<ReduceOp>());
    HVD_TRY_ASSIGN(prescale, r.get<double>());
    HVD_TRY_ASSIGN(postscale, r.get<double>());
    return op > ReduceOp::kBitXor ? invalid("reduction") : Status::ok();
  }
  Status get_root(int& root) {
    HVD_TRY_ASSIGN(root, r.get<std::int32_t>());
    return Status::ok();
  }
  Status operator()(Allreduce& o) {
    HVD_TRY(get_reduction(o.op, o.prescale, o.postscale));
    HVD_TRY_ASSIGN(o.wire, r.get<Wire>());
    return o.wire > Wire::kBfloat16 ? invalid("wire type") : Status::ok();
  }
  Status operator()(Reducescatter& o) { return get_reduction(o.op, o.prescale, o.postscale); }
  Status operator()(Reduce& o) {
    HVD_TRY(get_root(o.root));
    return get_reduction(o.op, o.prescale, o.postscale);
  }
  Status operator()(Broadcast& o) { return get_root(o.root); }
  Status operator()(Gather& o) { return get_root(o.root); }
  Status operator()(Scatter& o) { return get_root(o.root); }
  template <typename WithoutParameters>
  Status operator()(WithoutParameters& /*operation*/) {
    return Status::ok();
  }
};

/// The operation of a kind, parameters unset; false when there is no such kind.
template <std::size_t kIndex = 0>
bool emplace_kind(Operation& operation, Kind kind) {
  if constexpr (kIndex == std::variant_size_v<Operation>) {
    return false;
  } else {
    if (kind != kIndex) return emplace_kind<kIndex + 1>(operation, kind);
    operation.emplace<kIndex>();
    return true;
  }
}

Result<Operation> decode_operation(ByteReader& reader) {
  HVD_TRY_ASSIGN(const auto kind, reader.get<Kind>());
  Operation operation;
  if (!emplace_kind(operation, kind)) return invalid("kind");
  HVD_TRY(std::visit(OperationReader{reader}, operation));
  return operation;
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
  const bool free_rows = has_free_rows(request.operation);
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
  writer.put(static_cast<Kind>(description.operation.index()));
  std::visit(OperationWriter{writer}, description.operation);
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
  HVD_TRY_ASSIGN(description.operation, decode_operation(reader));
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
