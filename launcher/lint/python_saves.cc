// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/python_saves.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "launcher/lint/rank_name.h"
#include "launcher/lint/word_table.h"

namespace hvd {
namespace {

/// A function that writes a file.
struct SaveRow {
  std::string_view path;
  std::size_t place;  ///< Of the file among the arguments.
  std::string_view keyword;
  bool is_of_model;  ///< Else it writes anything.
};

constexpr std::array<SaveRow, 17> kSaveRows{{
    {"torch.save", 1, "f", true},
    {"torch.jit.save", 1, "f", true},
    {"torch.onnx.export", 2, "f", true},
    {"tensorflow.saved_model.save", 1, "export_dir", true},
    {"safetensors.torch.save_file", 1, "filename", true},
    {"safetensors.torch.save_model", 1, "filename", true},
    {"safetensors.numpy.save_file", 1, "filename", true},
    {"safetensors.flax.save_file", 1, "filename", true},
    {"pickle.dump", 1, "file", false},
    {"cloudpickle.dump", 1, "file", false},
    {"dill.dump", 1, "file", false},
    {"joblib.dump", 1, "filename", false},
    {"numpy.save", 0, "file", false},
    {"numpy.savez", 0, "file", false},
    {"numpy.savez_compressed", 0, "file", false},
    {"jax.numpy.save", 0, "file", false},
    {"jax.numpy.savez", 0, "file", false},
}};

/// The part of a path before its last: "self.model" of "self.model.save".
std::string_view object_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

std::string_view last_of(std::string_view path) { return path.substr(path.rfind('.') + 1); }

/// "model", "self.net", "best_model": an object whose save() writes a model.
bool is_model_name(std::string_view object) {
  const std::string_view name = last_of(object);
  const std::vector<std::string> words = words_of_name(name);
  if (words.size() == 1 && (words[0] == "net" || words[0] == "network")) return true;
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word.find("model") != std::string::npos;
  });
}

/// A name for a model or its parameters: not "model_dir".
bool is_weights_name(std::string_view name) {
  constexpr std::array<std::string_view, 9> kWords{
      "model", "net", "network", "params", "param", "parameters", "weights", "weight", "variables"};
  constexpr std::array<std::string_view, 15> kAbout{
      "name", "dir",    "path", "file", "id",      "count",  "size",   "loss",
      "type", "config", "args", "cfg",  "version", "output", "outputs"};
  const std::vector<std::string> words = words_of_name(name);
  if (words.empty() || is_listed(kAbout, words.back())) return false;
  if (words == std::vector<std::string>{"state", "dict"}) return true;
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return is_listed(kWords, word); });
}

/// Whether the token at `at` hands on a model itself, or its weights: "model", "net.state_dict()",
/// and not "model(x)" or "evaluate(model)".
bool hands_on_weights(const PythonLine& line, std::size_t at) {
  constexpr std::array<std::string_view, 6> kGiving{"state_dict", "get_weights",      "parameters",
                                                    "get_params", "named_parameters", "variables"};
  constexpr std::array<std::string_view, 22> kHandingOn{"dumps",
                                                        "dump",
                                                        "to_bytes",
                                                        "msgpack_serialize",
                                                        "dict",
                                                        "list",
                                                        "tuple",
                                                        "deepcopy",
                                                        "device_get",
                                                        "to_state_dict",
                                                        "asarray",
                                                        "array",
                                                        "tree_map",
                                                        "map",
                                                        "unreplicate",
                                                        "Checkpoint",
                                                        "write",
                                                        "savez",
                                                        "savez_compressed",
                                                        "save",
                                                        "writelines",
                                                        "CheckpointManager"};
  if (!is_name(line.tokens[at]) || !is_weights_name(line.tokens[at].text)) return false;
  std::size_t last = at;
  while (last + 2 < line.tokens.size() && is_operator(line.tokens[last + 1], ".") &&
         is_name(line.tokens[last + 2])) {
    last += 2;
  }
  const bool is_called = last + 1 < line.tokens.size() && is_operator(line.tokens[last + 1], "(");
  if (is_called && !is_listed(kGiving, line.tokens[last].text)) return false;
  int depth = 0;
  for (std::size_t i = at; i-- > 0;) {  // what the bracket around it belongs to
    depth += step_of_depth(line.tokens[i]);
    if (depth <= 0) continue;
    depth = 0;
    if (i == 0 || !is_operator(line.tokens[i], "(") || !is_name(line.tokens[i - 1])) continue;
    if (!is_listed(kHandingOn, line.tokens[i - 1].text)) return false;
  }
  return true;
}

/// Finds the calls that write files.
class SaveFinder {
 public:
  SaveFinder(const PythonScript& script, const PythonValues& values)
      : script_(script), values_(values) {}

  std::vector<PythonSave> find() {
    for (const PythonCall& call : script_.calls) {
      if (is_of_hvd(call.path)) continue;
      auto save = by_row(call);
      if (!save) save = of_model(call);
      if (!save) save = of_checkpoint(call);
      if (!save) save = of_open(call);
      if (save) saves_.push_back(*save);
    }
    return std::move(saves_);
  }

 private:
  PythonSave save_of(const PythonCall& call, std::string_view keyword, std::size_t place) const {
    PythonSave save{.call = &call, .file_line = call.line_index};
    const PythonArgument* file = find_argument(call, keyword, place);
    if (file != nullptr) save.file = file->value;
    return save;
  }

  static const SaveRow* row_of(const PythonCall& call) {
    for (const SaveRow& row : kSaveRows) {
      if (call.path == row.path) return &row;
    }
    return nullptr;
  }

  std::optional<PythonSave> by_row(const PythonCall& call) const {
    const SaveRow* row = row_of(call);
    if (row == nullptr) return std::nullopt;
    PythonSave save = save_of(call, row->keyword, row->place);
    if (row->is_of_model) return save;
    save.is_model =
        std::any_of(call.arguments.begin(), call.arguments.end(), [&](const PythonArgument& one) {
          const bool is_file = save.file && save.file->begin == one.value.begin;
          return !is_file && values_.any(call.line_index, one.value, hands_on_weights);
        });
    return save;
  }

  /// model.save(...) and its like.
  std::optional<PythonSave> of_model(const PythonCall& call) const {
    constexpr std::array<std::string_view, 4> kOfModel{"save", "save_weights", "save_pretrained",
                                                       "export"};
    if (call.path.ends_with("models.save_model")) return save_of(call, "filepath", 1);
    if (call.name == "ModelCheckpoint" && call.path.find("keras") != std::string::npos) {
      return save_of(call, "filepath", 0);
    }
    if (!is_listed(kOfModel, call.name) || !call.is_named || !is_model_name(object_of(call.path))) {
      return std::nullopt;
    }
    return save_of(call, call.name == "save_pretrained" ? "save_directory" : "filepath", 0);
  }

  /// tf.train.Checkpoint(...).save(...), also of a name that was given one.
  std::optional<PythonSave> of_checkpoint(const PythonCall& call) const {
    if (call.name != "save" && call.name != "write") return std::nullopt;
    const PythonCall* maker = maker_of(call);
    if (maker == nullptr) return std::nullopt;
    const bool is_manager = maker->name == "CheckpointManager";
    PythonSave save = save_of(is_manager ? *maker : call, is_manager ? "directory" : "file_prefix",
                              is_manager ? 1 : 0);
    save.call = &call;
    const TokenRange made{maker->open + 1, end_of_brackets(line_of(*maker), maker->open)};
    save.is_model = values_.any(maker->line_index, made, hands_on_weights);
    return save;
  }

  const PythonLine& line_of(const PythonCall& call) const { return script_.lines[call.line_index]; }

  static bool makes_checkpoint(const PythonCall& call) {
    return call.path.ends_with("train.Checkpoint") ||
           call.path.ends_with("train.CheckpointManager");
  }

  /// The call that made the object whose method `call` is; null: it is not seen.
  const PythonCall* maker_of(const PythonCall& call) const {
    if (!call.is_named) {
      return call_in(call.line_index, {0, call.begin}, [&](const PythonCall& one) {
        return makes_checkpoint(one) && end_of_brackets(line_of(one), one.open) + 1 == call.begin;
      });
    }
    const std::string_view object = object_of(call.path);
    if (object.empty()) return nullptr;
    for (const PythonBinding* one : values_.of(call.line_index, std::string(last_of(object)))) {
      if (const PythonCall* maker = call_in(one->line_index, one->value, makes_checkpoint)) {
        return maker;
      }
    }
    return nullptr;
  }

  /// The first call of that kind in a range; null: there is none.
  template <typename Kind>
  const PythonCall* call_in(std::size_t line_index, TokenRange range, Kind kind) const {
    auto one = std::lower_bound(
        script_.calls.begin(), script_.calls.end(), line_index,
        [](const PythonCall& call, std::size_t index) { return call.line_index < index; });
    for (; one != script_.calls.end() && one->line_index == line_index; ++one) {
      if (one->begin >= range.begin && one->begin < range.end && kind(*one)) return &*one;
    }
    return nullptr;
  }

  /// open(..., "wb"), unless a call of kSaveRows writes to it.
  std::optional<PythonSave> of_open(const PythonCall& call) const {
    if (call.path != "open" && call.path != "io.open" && call.path != "gzip.open") {
      return std::nullopt;
    }
    const PythonLine& line = line_of(call);
    const PythonArgument* mode = find_argument(call, "mode", 1);
    if (mode == nullptr || mode->value.end != mode->value.begin + 1) return std::nullopt;
    const PythonToken& word = line.tokens[mode->value.begin];
    const bool writes = word.kind == PythonTokenKind::kString &&
                        word.text.find_first_of("wx") != std::string::npos &&
                        word.text.find('b') != std::string::npos;
    if (!writes) return std::nullopt;
    PythonSave save = save_of(call, "file", 0);
    save.is_model = false;
    return look_at_uses(call, save) ? std::optional(save) : std::nullopt;
  }

  /// Whether no other call is to be judged for that file; finds out whether a model goes into it.
  bool look_at_uses(const PythonCall& call, PythonSave& save) const {
    constexpr std::size_t kMostLines = 100;
    const PythonLine& line = line_of(call);
    const auto is_row = [](const PythonCall& one) { return row_of(one) != nullptr; };
    if (call_in(call.line_index, {0, call.begin}, is_row) != nullptr) return false;
    const std::size_t end = end_of_brackets(line, call.open);
    save.is_model = writes_weights(call.line_index, {end, line.tokens.size()});
    const std::string handle = handle_of(line, end);
    if (handle.empty()) return true;
    const int indent = line.indent + (begins_with(line, "with") ? 1 : 0);
    for (std::size_t i = call.line_index + 1;
         i < std::min(script_.lines.size(), call.line_index + kMostLines); ++i) {
      const PythonLine& next = script_.lines[i];
      if (next.indent < indent) break;
      const bool names = std::any_of(
          next.tokens.begin(), next.tokens.end(),
          [&](const PythonToken& token) { return is_name(token) && token.text == handle; });
      if (!names) continue;
      if (call_in(i, {0, next.tokens.size()}, is_row) != nullptr) return false;
      save.is_model = save.is_model || writes_weights(i, {0, next.tokens.size()});
    }
    return true;
  }

  bool writes_weights(std::size_t line_index, TokenRange range) const {
    return values_.any(line_index, range, hands_on_weights);
  }

  /// The name of an opened file: "with open(...) as f", "f = open(...)".
  static std::string handle_of(const PythonLine& line, std::size_t end) {
    if (end + 1 < line.tokens.size() && line.tokens[end].text == "as") {
      return line.tokens[end + 1].text;
    }
    const auto equals = assignment_of(line);
    return equals ? line.tokens[*equals - 1].text : "";
  }

  const PythonScript& script_;
  const PythonValues& values_;
  std::vector<PythonSave> saves_;
};

/// Names for what holds a path; "file" and "f" may be a buffer.
bool is_path_name(std::string_view name) {
  constexpr std::array<std::string_view, 8> kWords{"path",   "filename",  "filepath", "fname",
                                                   "folder", "directory", "dir",      "Path"};
  const std::vector<std::string> words = words_of_name(name);
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return is_listed(kWords, word); });
}

}  // namespace

std::vector<PythonSave> saves_of(const PythonScript& script, const PythonValues& values) {
  return SaveFinder(script, values).find();
}

bool is_of_process(const PythonValues& values, std::size_t line_index, TokenRange file) {
  constexpr std::array<std::string_view, 12> kPrivate{"BytesIO",
                                                      "StringIO",
                                                      "NamedTemporaryFile",
                                                      "TemporaryFile",
                                                      "SpooledTemporaryFile",
                                                      "TemporaryDirectory",
                                                      "mkstemp",
                                                      "mkdtemp",
                                                      "mktemp",
                                                      "getpid",
                                                      "uuid4",
                                                      "uuid1"};
  return values.any(line_index, file, [&](const PythonLine& line, std::size_t at) {
    return is_name(line.tokens[at]) && is_listed(kPrivate, line.tokens[at].text);
  });
}

bool is_like_path(const PythonScript& script, const PythonValues& values, std::size_t line_index,
                  TokenRange file) {
  const PythonLine& own = script.lines[line_index];
  if (file.end != file.begin + 1 || !is_name(own.tokens[file.begin])) return true;
  return values.any(line_index, file, [](const PythonLine& line, std::size_t at) {
    const PythonToken& token = line.tokens[at];
    if (token.kind == PythonTokenKind::kString) return true;
    if (!is_name(token)) return false;
    if (is_path_name(token.text)) return true;
    constexpr std::array<std::string_view, 8> kSettings{"args", "cfg",   "config",  "opt",
                                                        "opts", "FLAGS", "hparams", "argv"};
    return is_listed(kSettings, token.text);
  });
}

}  // namespace hvd
