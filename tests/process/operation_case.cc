// SPDX-License-Identifier: Apache-2.0
#include "operation_case.h"

#include <cmath>
#include <utility>

#include "element.h"

namespace hvd_test {

CaseBytes::CaseBytes(std::vector<std::byte> bytes, TableMemory* memory)
    : bytes_(std::move(bytes)), memory_(memory) {
  if (memory == nullptr) return;
  device_ = memory->allocate(bytes_.size());
  memory->put(device_, bytes_.data(), bytes_.size());
}

CaseBytes::CaseBytes(CaseBytes&& other) noexcept
    : bytes_(std::move(other.bytes_)),
      memory_(other.memory_),
      device_(std::exchange(other.device_, nullptr)) {}

CaseBytes::~CaseBytes() {
  if (device_ != nullptr) memory_->free(device_);
}

const std::byte* CaseBytes::read() {
  if (memory_ != nullptr) memory_->get(bytes_.data(), device_, bytes_.size());
  return bytes_.data();
}

namespace {

std::vector<std::byte> given_bytes(const OperationCase& planned) {
  std::vector<std::byte> bytes(planned.count * size_of(planned.dtype));
  for (std::size_t i = 0; i < planned.count * components_of(planned.dtype); ++i) {
    write_component(planned.dtype, bytes.data(), i, planned.given(i));
  }
  return bytes;
}

std::vector<std::byte> room_for_result(const OperationCase& planned) {
  const bool is_apart = planned.has_output && !planned.in_place;
  return std::vector<std::byte>(is_apart ? planned.count * size_of(planned.dtype) : 0);
}

}  // namespace

RunningCase::RunningCase(OperationCase planned, TableMemory* memory)
    : case_(std::move(planned)),
      memory_(memory),
      input_(given_bytes(case_), memory),
      output_(room_for_result(case_), memory) {
  const auto rows = static_cast<std::int64_t>(case_.count);
  hvd_tensor tensor{};
  tensor.input = input_.place();
  if (case_.has_output) tensor.output = case_.in_place ? input_.place() : output_.place();
  tensor.dtype = case_.dtype;
  tensor.dimensions = 1;
  tensor.shape = &rows;
  tensor.splits = case_.splits.empty() ? nullptr : case_.splits.data();
  tensor.split_count = case_.splits.size();
  hvd_request request = case_.request;
  request.name = case_.name.c_str();
  request.tensors = &tensor;
  request.tensor_count = 1;
  if (memory_ != nullptr) memory_->name_place(request);
  hvd::check(hvd_submit(&request, &handle_));
}

std::string RunningCase::finish() {
  hvd::check(hvd_wait(handle_, 30));
  std::string wrong;
  if (case_.has_output) {
    if (case_.wanted_count > 0) {
      wrong = difference(case_.in_place ? input_.read() : output_.read(), case_.count);
    }
  } else {
    hvd_gather gather{};
    hvd::check(hvd_gathered(handle_, 0, &gather));
    const auto count = static_cast<std::size_t>(gather.shape[0]);
    const auto* result = static_cast<const std::byte*>(gather.data);
    std::vector<std::byte> copy;
    if (memory_ != nullptr) {
      copy.resize(count * size_of(case_.dtype));
      memory_->get(copy.data(), result, copy.size());
      result = copy.data();
    }
    wrong = difference(result, count);
  }
  hvd_release(handle_);
  return wrong;
}

std::string RunningCase::difference(const std::byte* result, std::size_t count) const {
  if (count != case_.wanted_count) {
    return case_.name + " has " + std::to_string(count) + " elements, not " +
           std::to_string(case_.wanted_count);
  }
  for (std::size_t i = 0; i < count * components_of(case_.dtype); ++i) {
    const double got = read_component(case_.dtype, result, i);
    const double wanted = case_.wanted(i);
    if (std::abs(got - wanted) <= case_.tolerance * (1 + std::abs(wanted))) continue;
    return case_.name + "[" + std::to_string(i) + "] is " + std::to_string(got) + ", not " +
           std::to_string(wanted);
  }
  return {};
}

}  // namespace hvd_test
