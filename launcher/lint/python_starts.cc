// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/python_starts.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/lint/python_bindings.h"
#include "launcher/lint/python_blocks.h"
#include "launcher/lint/python_values.h"
#include "launcher/lint/word_table.h"

namespace hvd {
namespace {

/// A name that stands for equal weights on all ranks, or for sending them.
bool is_start_name(std::string_view name) {
  constexpr std::array<std::string_view, 7> kOfValues{
      "broadcast",         "broadcast_object", "broadcast_optimizer_state", "broadcast_to",
      "broadcast_tensors", "broadcast_shapes", "broadcast_arrays"};
  constexpr std::array<std::string_view, 6> kOthers{
      "TorchState", "KerasState", "TensorFlowKerasState", "TensorFlowState", "constant_", "fill_"};
  if (is_listed(kOthers, name)) return true;
  return name.find("roadcast") != std::string_view::npos && !is_listed(kOfValues, name);
}

/// Whether a word stands for weights: "params", "model", "state_dict".
bool has_weights_in_it(std::string_view word) {
  for (const char* part : {"param", "weight", "variable", "state", "model"}) {
    if (word.find(part) != std::string_view::npos) return true;
  }
  return false;
}

bool names_weights(const PythonLine& line, TokenRange range) {
  for (std::size_t at = range.begin; at < range.end; ++at) {
    if (has_weights_in_it(line.tokens[at].text)) return true;
  }
  return false;
}

/// A name that gives the weights of a model, and nothing else.
bool gives_weights(const PythonLine& line, std::size_t at) {
  constexpr std::array<std::string_view, 8> kNames{
      "parameters", "named_parameters", "state_dict",          "get_weights",
      "weights",    "variables",        "trainable_variables", "params"};
  return is_name(line.tokens[at]) && is_listed(kNames, line.tokens[at].text);
}

bool is_broadcast(const PythonLine& line, std::size_t at) {
  return line.tokens[at].text == "broadcast_object" || line.tokens[at].text == "broadcast";
}

/// "hvd.torch.elastic.run" of "@hvd.elastic.run"; empty: the line is not a decorator.
std::string decorator_of(const PythonScript& script, const PythonLine& line) {
  if (line.tokens.size() < 2 || !is_operator(line.tokens[0], "@")) return "";
  const auto import = script.imports.find(line.tokens[1].text);
  std::string path = import == script.imports.end() ? line.tokens[1].text : import->second;
  for (std::size_t at = 2; at < line.tokens.size(); ++at) {
    if (step_of_depth(line.tokens[at]) > 0) break;
    path += line.tokens[at].text;
  }
  return path;
}

/// Looks for what makes the ranks of one file of a program start alike.
class StartFinder {
 public:
  explicit StartFinder(const PythonScript& script)
      : script_(script),
        places_(places_of_lines(script)),
        bindings_(bindings_of(script, places_)),
        // The analyzer does not see that constructor, which is in another file.
        // NOLINTNEXTLINE(clang-analyzer-optin.cplusplus.UninitializedObject)
        values_(script, places_, bindings_) {}

  bool sends_weights() const {
    if (std::any_of(script_.names.begin(), script_.names.end(), is_start_name)) return true;
    return any_call([&](const PythonCall& call) {
      return broadcasts_weights(call) || takes_over_broadcast(call) || wraps_model(call) ||
             loads_whole_model(call);
    });
  }

  /// checkpoints.resume(model, optimizer)
  bool resumes() const {
    return any_call([](const PythonCall& call) {
      const bool is_method = call.path != call.name || !call.is_named;
      return call.name == "resume" && is_method && !call.arguments.empty();
    });
  }

  bool makes_checkpoints() const {
    return any_call(
        [](const PythonCall& call) { return call.name == "Checkpoints" && is_of_hvd(call.path); });
  }

  /// Whether elastic training begins here, which sends the state of rank 0 to all.
  bool is_elastic() const {
    const auto is_run = [](std::string_view path) {
      return is_of_hvd(path) && path.ends_with("elastic.run");
    };
    return any_call([&](const PythonCall& call) {
             const bool is_sync = call.name == "sync" && names_state(call.path);
             return is_sync || is_run(call.path);
           }) ||
           std::any_of(script_.lines.begin(), script_.lines.end(),
                       [&](const PythonLine& line) { return is_run(decorator_of(script_, line)); });
  }

  bool makes_state() const { return any_call(makes_object_state); }

  bool makes_state_of_weights() const {
    return any_call([&](const PythonCall& call) {
      const TokenRange inner{call.open + 1, end_of_brackets(line_of(call), call.open)};
      return makes_object_state(call) && names_weights(line_of(call), inner);
    });
  }

 private:
  template <typename Predicate>
  bool any_call(Predicate predicate) const {
    return std::any_of(script_.calls.begin(), script_.calls.end(), predicate);
  }

  const PythonLine& line_of(const PythonCall& call) const { return script_.lines[call.line_index]; }

  static bool makes_object_state(const PythonCall& call) { return call.name == "ObjectState"; }

  static bool names_state(std::string_view path) {
    return path.find("state") != std::string_view::npos ||
           path.find("State") != std::string_view::npos;
  }

  /// broadcast_object(model.state_dict()) does; that of an epoch's number does not.
  bool broadcasts_weights(const PythonCall& call) const {
    if (call.name != "broadcast" && call.name != "broadcast_object") return false;
    if (call.arguments.empty()) return false;
    const PythonLine& line = line_of(call);
    const TokenRange what = call.arguments.front().value;
    if (names_weights(line, what) || values_.any(call.line_index, what, gives_weights)) return true;
    // [hvd.broadcast(w, 0) for w in weights], tree_map(lambda p: hvd.broadcast(p, 0), params)
    const bool goes_over =
        std::any_of(line.tokens.begin(), line.tokens.end(), [](const PythonToken& token) {
          return is_name(token) && (token.text == "lambda" || token.text == "for");
        });
    if (goes_over && names_weights(line, {0, line.tokens.size()})) return true;
    return is_unknown_parameter(call, what);
  }

  /// What callers give it, no line of the file says: tree_map(send, params).
  bool is_unknown_parameter(const PythonCall& call, TokenRange what) const {
    const std::size_t function = places_[call.line_index].function;
    if (function == kNoLine || what.end != what.begin + 1) return false;
    const std::string& name = line_of(call).tokens[what.begin].text;
    const PythonLine& header = script_.lines[function];
    const bool is_parameter =
        std::any_of(header.tokens.begin(), header.tokens.end(),
                    [&](const PythonToken& token) { return token.text == name; });
    return is_parameter && values_.of(call.line_index, name).empty();
  }

  /// model.load_state_dict(state) of a state that was broadcast.
  bool takes_over_broadcast(const PythonCall& call) const {
    constexpr std::array<std::string_view, 4> kNames{"load_state_dict", "set_weights",
                                                     "from_state_dict", "from_bytes"};
    if (!is_listed(kNames, call.name) || call.path.find("opt") != std::string::npos) return false;
    return std::any_of(call.arguments.begin(), call.arguments.end(),
                       [&](const PythonArgument& one) {
                         return values_.any(call.line_index, one.value, is_broadcast);
                       });
  }

  bool has_value(const PythonCall& call, std::string_view keyword, std::string_view value) const {
    const PythonArgument* argument = find_argument(call, keyword);
    return argument != nullptr && line_of(call).tokens[argument->value.begin].text == value;
  }

  /// DistributedDataParallel sends the weights of rank 0 when it is made.
  bool wraps_model(const PythonCall& call) const {
    const bool is_ddp = call.path.ends_with("DistributedDataParallel") || call.path == "DDP";
    if (is_ddp) return !has_value(call, "init_sync", "False");
    return call.name == "FullyShardedDataParallel" && has_value(call, "sync_module_states", "True");
  }

  /// hvd.load_model() that all ranks reach: each reads the same file. Under a condition the model
  /// may be a new one.
  bool loads_whole_model(const PythonCall& call) const {
    if (call.name != "load_model" || !is_of_hvd(call.path)) return false;
    const PythonLine& line = line_of(call);
    const auto is_if = [](const PythonToken& token) {
      return is_name(token) && token.text == "if";
    };
    if (std::any_of(line.tokens.begin(), line.tokens.end(), is_if)) return false;
    for (std::size_t at = places_[call.line_index].header; at != kNoLine; at = places_[at].header) {
      for (const char* word : {"if", "elif", "else", "try", "except"}) {
        const bool is_main = script_.lines[at].tokens.back().text == ":" &&
                             script_.lines[at].tokens.size() == 5 &&
                             script_.lines[at].tokens[1].text == "__name__";
        if (begins_with(script_.lines[at], word) && !is_main) return false;
      }
    }
    return true;
  }

  const PythonScript& script_;
  std::vector<BlockPlace> places_;
  std::vector<PythonBinding> bindings_;
  PythonValues values_;
};

}  // namespace

bool starts_ranks_alike(const PythonProgram& program) {
  bool resumes = false;
  bool has_checkpoints = false;
  bool is_elastic = false;
  bool has_state = false;
  bool has_state_of_weights = false;
  std::vector<const PythonScript*> files{&program.script};
  for (const PythonScript& module : program.modules) files.push_back(&module);
  for (const PythonScript* file : files) {
    const StartFinder finder(*file);
    if (finder.sends_weights()) return true;
    resumes = resumes || finder.resumes();
    has_checkpoints = has_checkpoints || finder.makes_checkpoints();
    is_elastic = is_elastic || finder.is_elastic();
    has_state = has_state || finder.makes_state();
    has_state_of_weights = has_state_of_weights || finder.makes_state_of_weights();
  }
  if (resumes && has_checkpoints) return true;
  return is_elastic && (has_state_of_weights || !has_state);
}

}  // namespace hvd
