// SPDX-License-Identifier: Apache-2.0
#include "collective/select.h"

#include <utility>

#include "base/format.h"

namespace hvd {
namespace {

std::string declined_text(std::span<const BackendAnswer> answers) {
  std::string text;
  for (const BackendAnswer& answer : answers) {
    if (answer.status.is_ok()) continue;
    if (!text.empty()) text += "; ";
    text += format_text("{}: {}", answer.name, answer.status.message());
  }
  return text;
}

Selection select_wanted(std::span<const BackendAnswer> answers, std::string_view wanted) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].name != wanted) continue;
    if (answers[i].status.is_ok())
      return {i, format_text("{}, as HVD_BACKEND asks: {}", wanted, answers[i].reach)};
    return {std::nullopt,
            format_text("HVD_BACKEND={} asks for a backend that declined: {}; unset it", wanted,
                        answers[i].status.message())};
  }
  return {std::nullopt, format_text("HVD_BACKEND={} names no backend of this build", wanted)};
}

}  // namespace

Selection select_backend(std::span<const BackendAnswer> answers, std::string_view wanted) {
  if (!wanted.empty()) return select_wanted(answers, wanted);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].status.is_ok()) continue;
    std::string reason = format_text("{}: {}", answers[i].name, answers[i].reach);
    const std::string declined = declined_text(answers);
    if (!declined.empty()) reason += format_text(" (declined: {})", declined);
    return {i, std::move(reason)};
  }
  if (answers.empty()) return {std::nullopt, "this build has no backend"};
  return {std::nullopt, format_text("every backend declined: {}", declined_text(answers))};
}

}  // namespace hvd
