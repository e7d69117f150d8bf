// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/launch_chain.h"

#include <charconv>

#include "launcher/lint/script_body.h"
#include "launcher/run/program_path.h"
#include "launcher/run/python_command.h"

namespace hvd {
namespace {

bool is_script(std::string_view word) { return word.ends_with(".py"); }

/// "-m torch.distributed.run" and its older name.
bool is_torchrun_module(std::string_view name) {
  return name == "torch.distributed.run" || name == "torch.distributed.launch";
}

/// Whether a word may be the value of the option before it: "--engine deepspeed".
bool is_value(const LaunchLine& launch, std::size_t i) {
  const std::string& before = launch.words[i - 1].text;
  return i > launched_at(launch) && before.starts_with('-') && before != "--" && before != "-m" &&
         before.find('=') == std::string::npos;
}

/// The launcher that the words after `launch`'s own options begin; absent: they begin none.
std::optional<LaunchLine> inner_launch(const LaunchLine& launch) {
  for (std::size_t i = launched_at(launch); i < launch.words.size(); ++i) {
    const ShellWord& word = launch.words[i];
    const bool is_module = launch.words[i - 1].text == "-m";
    const bool is_torchrun = is_module && is_torchrun_module(word.text);
    if (is_script(word.text) || (is_module && !is_torchrun)) return std::nullopt;
    if (!is_torchrun && (!is_launcher(word.text) || is_value(launch, i))) continue;
    LaunchLine inner{.line = launch.line,
                     .program = is_torchrun ? "torchrun" : std::string(program_name(word.text)),
                     .words = {},
                     .after_program = word.at.end};
    inner.words.assign(launch.words.begin() + static_cast<std::ptrdiff_t>(i), launch.words.end());
    return inner;
  }
  return std::nullopt;
}

}  // namespace

std::vector<LaunchLine> launch_chain(const LaunchLine& launch) {
  constexpr std::size_t kLongest = 8;
  std::vector<LaunchLine> chain{without_run(launch)};
  while (chain.size() < kLongest) {
    std::optional<LaunchLine> inner = inner_launch(chain.back());
    if (!inner) break;
    chain.push_back(without_run(*inner));
  }
  return chain;
}

std::optional<std::string> launched_script(const LaunchLine& launch) {
  std::vector<std::string> words;
  for (const ShellWord& word : launch.words) words.push_back(word.text);
  const std::optional<PythonTarget> target = python_target(words);
  if (!target || target->is_module) return std::nullopt;
  const ShellWord& word = launch.words[target->at];
  if (word.is_expanded || !is_script(word.text)) return std::nullopt;
  return word.text;
}

LaunchLine without_run(const LaunchLine& launch) {
  LaunchLine plain = launch;
  const std::string_view command = plain.program == "hvdrun" ? "run" : "launch";  // accelerate's
  if (plain.words.size() > 1 && plain.words[1].text == command) {
    plain.words.erase(plain.words.begin() + 1);
  }
  return plain;
}

std::optional<std::string> rank_count(const LaunchLine& launch) {
  for (const char* name : {"-np", "--np", "--num-proc"}) {
    if (auto count = launch_option(launch, name, 0)) return count;
  }
  // "-n4" is hvdrun's; mpirun has options of several letters after one dash, as -nolocal.
  const auto count = launch_option(launch, "-n", launch.program == "hvdrun" ? 'n' : '\0');
  return count ? count : launch_option(launch, "--n", 0);
}

std::optional<int> plain_number(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  int number = 0;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < 0) return std::nullopt;
  return number;
}

}  // namespace hvd
