// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/slurm_record.h"

#include <algorithm>
#include <charconv>

namespace hvd {
namespace {

std::vector<std::string_view> pieces_of(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) pieces.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

}  // namespace

std::vector<std::string_view> lines_of(std::string_view text) { return pieces_of(text, '\n'); }

std::vector<std::string> comma_words(std::string_view list) {
  const std::vector<std::string_view> pieces = pieces_of(list, ',');
  return {pieces.begin(), pieces.end()};
}

std::string record_field(std::string_view line, std::string_view name) {
  const std::string key = std::string(name) + "=";
  std::size_t at = 0;
  while ((at = line.find(key, at)) != std::string_view::npos) {
    if (at == 0 || line[at - 1] == ' ') break;
    ++at;
  }
  if (at == std::string_view::npos) return "";
  line.remove_prefix(at + key.size());
  const std::string value(line.substr(0, line.find(' ')));
  const bool says_nothing =
      value == "(null)" || value == "None" || value == "N/A" || value == "Unknown";
  return says_nothing ? "" : value;
}

std::string record_path(std::string_view line, std::string_view name) {
  const std::string key = " " + std::string(name) + "=";
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return "";
  line.remove_prefix(at + key.size());
  std::size_t end = line.size();
  for (std::size_t blank = line.find(' '); blank != std::string_view::npos;
       blank = line.find(' ', blank + 1)) {
    const std::size_t word = line.find_first_of(" =", blank + 1);
    if (word != std::string_view::npos && line[word] == '=') {
      end = blank;
      break;
    }
  }
  return std::string(line.substr(0, end));
}

std::optional<long long> record_number(std::string_view text) {
  long long value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  if (!is_whole || value < 0) return std::nullopt;
  return value;
}

}  // namespace hvd
