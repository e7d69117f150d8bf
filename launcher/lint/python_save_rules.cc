// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>

#include "base/format.h"
#include "launcher/lint/python_rules.h"

namespace hvd {
namespace {

/// The part of a path before its last: "self.model" of "self.model.save".
std::string_view object_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

bool is_model_name(std::string_view object) {
  std::string name(object.substr(object.rfind('.') + 1));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return name.find("model") != std::string::npos || name == "net" || name == "network";
}

/// Where a call writes a file: the place of its name among the arguments; absent: it writes none.
std::optional<std::size_t> place_of_file(const PythonCall& call) {
  constexpr std::array<std::string_view, 3> kOfModel{"save", "save_weights", "save_pretrained"};
  if (is_of_hvd(call.path)) return std::nullopt;
  if (call.path == "torch.save" || call.path.ends_with("models.save_model") ||
      call.path == "tensorflow.saved_model.save") {
    return 1;
  }
  if (call.name == "ModelCheckpoint" && call.path.find("keras") != std::string::npos) return 0;
  const bool saves = std::find(kOfModel.begin(), kOfModel.end(), call.name) != kOfModel.end();
  if (saves && call.is_named && is_model_name(object_of(call.path))) return 0;
  return std::nullopt;
}

std::string_view keyword_of_file(const PythonCall& call) {
  if (call.path == "torch.save") return "f";
  return call.name == "save_pretrained" ? "save_directory" : "filepath";
}

}  // namespace

std::vector<Finding> check_python_saves(const PythonFacts& facts) {
  std::vector<Finding> findings;
  for (const PythonCall& call : facts.script.calls) {
    const auto place = place_of_file(call);
    if (!place) continue;
    const PythonArgument* file = find_argument(call, keyword_of_file(call), place);
    if (file != nullptr && facts.guards.is_made_from_rank(call.line_index, file->value)) continue;
    const Reach reach = facts.reach.at(call.line_index, call.begin);
    if (reach == Reach::kSome) continue;
    Finding finding{.rule = "saved-by-all",
                    .severity = Severity::kError,
                    .line = call.line,
                    .variable = call.path,
                    .why =
                        "every rank writes the same file: they overwrite each other, and a "
                        "reader may find it half written",
                    .fix = "put it under if hvd.rank() == 0:"};
    if (reach == Reach::kUnknown) {
      finding.severity = Severity::kNote;
      finding.why =
          "nothing in the text says who calls this: whether rank 0 alone writes the file "
          "cannot be judged";
      finding.fix = "see that it is called under if hvd.rank() == 0:";
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace hvd
