// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/qos_text.h"

#include <algorithm>

#include "launcher/cluster/slurm_record.h"
#include "launcher/site/time_limit.h"

namespace hvd {
namespace {

constexpr std::size_t kColumns = 5;

/// Also the empty ones, to the last.
std::vector<std::string> columns_of(std::string_view line) {
  std::vector<std::string> columns;
  while (true) {
    const std::size_t bar = std::min(line.find('|'), line.size());
    columns.emplace_back(line.substr(0, bar));
    if (bar == line.size()) return columns;
    line.remove_prefix(bar + 1);
  }
}

/// N of "cpu=40,gres/gpu=N,node=2".
std::optional<int> resource(std::string_view list, std::string_view name) {
  for (const std::string& word : comma_words(list)) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos && word.substr(0, equals) == name) {
      return record_count(std::string_view(word).substr(equals + 1));
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<LiveQos> parse_qos(std::string_view text) {
  std::vector<LiveQos> all;
  for (const std::string_view line : lines_of(text)) {
    const std::vector<std::string> columns = columns_of(line);
    if (columns.size() != kColumns || columns[0].empty()) continue;
    LiveQos qos;
    qos.name = columns[0];
    if (const auto limit = parse_time_limit(columns[1]); limit.is_ok()) {
      qos.max_time = limit.value();
    }
    qos.max_nodes = resource(columns[2], "node");
    qos.max_gpus = resource(columns[2], "gres/gpu");
    qos.max_jobs = record_count(columns[3]);
    const std::vector<std::string> flags = comma_words(columns[4]);
    const auto has = [&flags](std::string_view flag) {
      return std::find(flags.begin(), flags.end(), flag) != flags.end();
    };
    qos.goes_first = has("OverPartQOS");
    qos.passes_max_time = has("PartitionTimeLimit");
    qos.passes_max_nodes = has("PartitionMaxNodes");
    qos.passes_min_nodes = has("PartitionMinNodes");
    all.push_back(std::move(qos));
  }
  return all;
}

}  // namespace hvd
