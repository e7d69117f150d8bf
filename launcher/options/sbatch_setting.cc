// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/sbatch_setting.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "launcher/options/sbatch_option.h"

namespace hvd {
namespace {

struct TextField {
  std::string_view name;
  std::string JobOptions::*field;
};

constexpr TextField kTexts[] = {
    {"account", &JobOptions::account},
    {"array", &JobOptions::array},
    {"constraint", &JobOptions::constraint},
    {"job-name", &JobOptions::name},
    {"mem", &JobOptions::mem},
    {"output", &JobOptions::output},
    {"partition", &JobOptions::partition},
    {"qos", &JobOptions::qos},
    {"signal", &JobOptions::signal},
    {"switches", &JobOptions::switches},
    {"time", &JobOptions::time},
};

struct CountField {
  std::string_view name;
  std::optional<int> JobOptions::*field;
};

constexpr CountField kCounts[] = {
    {"cpus-per-task", &JobOptions::cpus_per_task},
    {"gpus", &JobOptions::gpus},
    {"gpus-per-node", &JobOptions::gpus_per_node},
    {"nodes", &JobOptions::nodes},
    {"ntasks", &JobOptions::ntasks},
    {"ntasks-per-node", &JobOptions::ntasks_per_node},
};

std::string typed_as(const SbatchSetting& setting) {
  return "--" + setting.name + (setting.value.empty() ? "" : "=" + setting.value);
}

Status contradiction(const SbatchSetting& setting, const std::string& other) {
  return error(Code::kInvalidArgument, "{} contradicts --{}={}: type one of them",
               typed_as(setting), setting.name, other);
}

Status take_text(const SbatchSetting& setting, std::string& field) {
  if (!field.empty() && field != setting.value) return contradiction(setting, field);
  field = setting.value;
  return Status::ok();
}

Status take_count(const SbatchSetting& setting, std::optional<int>& field) {
  constexpr int kMost = 1 << 20;
  int count = 0;
  const char* const end = setting.value.data() + setting.value.size();
  const auto [rest, failure] = std::from_chars(setting.value.data(), end, count);
  if (failure != std::errc() || rest != end || count < 1 || count > kMost) {
    return error(Code::kInvalidArgument, "--{}: '{}' is not a whole number from 1 to {}",
                 setting.name, setting.value, kMost);
  }
  if (field && *field != count) return contradiction(setting, std::to_string(*field));
  field = count;
  return Status::ok();
}

/// "4" or "a100:4".
Status take_gpus(const SbatchSetting& setting, std::optional<int>& field, JobOptions& options) {
  const std::size_t colon = setting.value.rfind(':');
  if (colon == std::string::npos) return take_count(setting, field);
  const SbatchSetting type{"gpus (type)", setting.value.substr(0, colon)};
  HVD_TRY(take_text(type, options.gpu_type));
  return take_count({setting.name, setting.value.substr(colon + 1)}, field);
}

/// The GPUs of "gpu:a100:4,nvme:1" are counted; the rest is handed on.
Status take_gres(const SbatchSetting& setting, JobOptions& options) {
  std::string others;
  for (std::size_t begin = 0; begin <= setting.value.size();) {
    const std::size_t end = std::min(setting.value.find(',', begin), setting.value.size());
    std::string part = setting.value.substr(begin, end - begin);
    begin = end + 1;
    if (part == "gpu") part = "gpu:1";
    if (!part.starts_with("gpu:")) {
      others += (others.empty() ? "" : ",") + part;
      continue;
    }
    HVD_TRY(take_gpus({"gpus-per-node", part.substr(4)}, options.gpus_per_node, options));
  }
  if (!others.empty()) options.sbatch.push_back({setting.name, others});
  return Status::ok();
}

/// False: no field of its own.
bool take_flag(const SbatchSetting& setting, JobOptions& options) {
  if (!setting.value.empty()) return false;
  const bool has_shape = options.action != JobAction::kHeader;
  const bool submits = options.action == JobAction::kSubmit;
  if (setting.name == "exclusive") {
    options.exclusive = true;
  } else if (setting.name == "requeue" && has_shape) {
    options.requeue = true;
  } else if (setting.name == "wait" && submits) {
    options.follow = true;
  } else if (setting.name == "parsable" && submits) {
    options.parsable = true;
  } else {
    return false;
  }
  return true;
}

Status take(const SbatchSetting& setting, JobOptions& options) {
  for (const TextField& text : kTexts) {
    if (text.name == setting.name) return take_text(setting, options.*text.field);
  }
  for (const CountField& count : kCounts) {
    if (count.name != setting.name) continue;
    const bool has_type = setting.name.starts_with("gpus");
    return has_type ? take_gpus(setting, options.*count.field, options)
                    : take_count(setting, options.*count.field);
  }
  if (setting.name == "gres") return take_gres(setting, options);
  if (take_flag(setting, options)) return Status::ok();
  std::erase_if(options.sbatch,
                [&](const SbatchSetting& other) { return other.name == setting.name; });
  options.sbatch.push_back(setting);  // of one option the last counts, as with sbatch
  return Status::ok();
}

Status check_value(const SbatchSetting& setting) {
  const SbatchOption* option = find_sbatch_option(setting.name);
  if (option->argument == OptionArgument::kRequired && setting.value.empty()) {
    return error(Code::kInvalidArgument, "--{0} needs a value: type --{0}=VALUE", setting.name);
  }
  if (option->argument == OptionArgument::kNone && !setting.value.empty()) {
    return error(Code::kInvalidArgument, "--{0} takes no value, and has '{1}': type --{0}",
                 setting.name, setting.value);
  }
  return Status::ok();
}

/// Says --ntasks in the words of nodes and GPUs: one rank on each GPU where nothing else is said.
Status spread_tasks(JobOptions& options) {
  if (!options.ntasks) return Status::ok();
  const int tasks = *options.ntasks;
  if (!options.nodes && options.ntasks_per_node) {
    if (tasks % *options.ntasks_per_node == 0) {
      options.nodes = tasks / *options.ntasks_per_node;
      return Status::ok();
    }
  } else if (!options.nodes) {
    if (!options.gpus) options.gpus = tasks;
    if (*options.gpus == tasks) return Status::ok();
  } else if (tasks % *options.nodes == 0) {
    const int each = tasks / *options.nodes;
    if (options.ntasks_per_node.value_or(each) == each) {
      options.ntasks_per_node = each;
      return Status::ok();
    }
  }
  return error(Code::kInvalidArgument,
               "--ntasks {} does not go with the other sizes: type --nodes N --ntasks-per-node M "
               "in its place",
               tasks);
}

}  // namespace

Result<SbatchSetting> parse_sbatch_setting(const std::string& text) {
  const std::size_t equals = std::min(text.find('='), text.size());
  std::string typed = text.substr(0, equals);
  typed.erase(0, std::min(typed.find_first_not_of('-'), typed.size()));
  const SbatchOption* option = typed.size() == 1 ? find_sbatch_letter(typed.front()) : nullptr;
  if (option == nullptr) option = find_sbatch_option(typed);
  if (option == nullptr) {
    const std::string_view meant = nearest_sbatch_option(typed);
    return error(Code::kInvalidArgument, "--sbatch '{}': sbatch has no option --{}{}{}{}", text,
                 typed, meant.empty() ? "" : "\nhint: did you mean --sbatch ", meant,
                 meant.empty() ? "" : "?");
  }
  if (option->use == SbatchUse::kProgram) {
    return error(Code::kInvalidArgument,
                 "--sbatch {}: it belongs on sbatch's own command line, not into a job: leave it "
                 "out, and type the program after --",
                 option->name);
  }
  return SbatchSetting{std::string(option->name),
                       equals < text.size() ? text.substr(equals + 1) : ""};
}

Status take_sbatch_settings(const std::vector<SbatchSetting>& settings, JobOptions& options) {
  for (const SbatchSetting& setting : settings) {
    HVD_TRY(check_value(setting));
    HVD_TRY(take(setting, options));
  }
  const bool stays = std::any_of(options.sbatch.begin(), options.sbatch.end(),
                                 [](const SbatchSetting& one) { return one.name == "no-requeue"; });
  if (options.requeue && stays) {
    return error(Code::kInvalidArgument, "--requeue contradicts --no-requeue: type one of them");
  }
  return spread_tasks(options);
}

}  // namespace hvd
