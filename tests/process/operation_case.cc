// SPDX-License-Identifier: Apache-2.0
#include "operation_case.h"

#include <cmath>
#include <utility>

#include "element.h"

namespace hvd_test {

RunningCase::RunningCase(OperationCase planned) : case_(std::move(planned)) {
  const std::size_t bytes = case_.count * size_of(case_.dtype);
  input_.resize(bytes);
  for (std::size_t i = 0; i < case_.count * components_of(case_.dtype); ++i) {
    write_component(case_.dtype, input_.data(), i, case_.given(i));
  }
  if (case_.has_output && !case_.in_place) output_.resize(bytes);
  const auto rows = static_cast<std::int64_t>(case_.count);
  hvd_tensor tensor{};
  tensor.input = input_.data();
  if (case_.has_output) tensor.output = case_.in_place ? input_.data() : output_.data();
  tensor.dtype = case_.dtype;
  tensor.dimensions = 1;
  tensor.shape = &rows;
  tensor.splits = case_.splits.empty() ? nullptr : case_.splits.data();
  tensor.split_count = case_.splits.size();
  hvd_request request = case_.request;
  request.name = case_.name.c_str();
  request.tensors = &tensor;
  request.tensor_count = 1;
  hvd::check(hvd_submit(&request, &handle_));
}

std::string RunningCase::finish() {
  hvd::check(hvd_wait(handle_, 30));
  std::string wrong;
  if (case_.has_output) {
    if (case_.wanted_count > 0) {
      wrong = difference(case_.in_place ? input_.data() : output_.data(), case_.count);
    }
  } else {
    hvd_gather gather{};
    hvd::check(hvd_gathered(handle_, 0, &gather));
    wrong = difference(static_cast<const std::byte*>(gather.data),
                       static_cast<std::size_t>(gather.shape[0]));
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
