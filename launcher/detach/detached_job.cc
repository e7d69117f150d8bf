// SPDX-License-Identifier: Apache-2.0
#include "launcher/detach/detached_job.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/format.h"
#include "base/process_state.h"
#include "base/text_file.h"
#include "base/unique_fd.h"
#include "base/write_all.h"
#include "bootstrap/local_host.h"
#include "launcher/console/shell_word.h"

namespace hvd {
namespace {

using OrderedJson = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::size_t kKeptEnded = 20;  ///< Jobs whose output is kept after their end.
constexpr mode_t kPrivateFolder = 0700;

/// Written beside, and renamed: it is there whole or not at all.
Status write_whole(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  const UniqueFd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.is_open()) return Status::system("open " + fresh, errno);
  if (const int why = write_all(file.get(), text); why != 0) {
    return Status::system("write " + fresh, why);
  }
  if (::rename(fresh.c_str(), path.c_str()) != 0) return Status::system("rename " + fresh, errno);
  return Status::ok();
}

std::optional<int> number_of_text(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  int value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<int> job_numbers(const std::string& jobs) {
  std::vector<int> numbers;
  std::error_code failure;
  for (fs::directory_iterator at(jobs, failure), end; !failure && at != end;
       at.increment(failure)) {
    if (const auto number = number_of_text(at->path().filename().string()))
      numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::optional<int> read_exit_code(const std::string& folder) {
  const auto text = read_text_file(folder + "/exit");
  return text ? number_of_text(*text) : std::nullopt;
}

void remove_old(const std::string& jobs) {
  std::vector<DetachedJob> ended = read_detached_jobs(jobs);
  std::erase_if(ended, [](DetachedJob& job) {
    const DetachedState state = look_at_job(job);
    return state != DetachedState::kEnded && state != DetachedState::kKilled;
  });
  const std::size_t count = ended.size() > kKeptEnded ? ended.size() - kKeptEnded : 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::error_code ignored;
    fs::remove_all(ended[i].folder, ignored);
  }
}

std::string began_text(std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm local{};
  std::array<char, 32> text{};
  if (::localtime_r(&time, &local) == nullptr) return "";
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
  return {text.data(), size};
}

std::string command_text(const DetachedJob& job) {
  std::string text;
  for (const std::string& word : job.command) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

}  // namespace

Result<std::string> detached_jobs_folder(const Environment& environment) {
  const auto state = environment.get("XDG_STATE_HOME");
  const auto home = environment.get("HOME");
  if (state && state->starts_with("/")) return *state + "/hvdrun/jobs";
  if (home && home->starts_with("/")) return *home + "/.local/state/hvdrun/jobs";
  return error(Code::kInvalidArgument,
               "jobs in the background are kept below HOME, which is not set: set it, or "
               "XDG_STATE_HOME, to a folder that is yours");
}

Result<DetachedJob> make_detached_job(const std::string& jobs) {
  std::error_code failure;
  fs::create_directories(jobs, failure);
  if (failure) return Status::system("mkdir " + jobs, failure.value());
  remove_old(jobs);
  const std::vector<int> numbers = job_numbers(jobs);
  // Another hvdrun may make a folder at the same moment: the next number is tried, then.
  for (int number = numbers.empty() ? 1 : numbers.back() + 1;; ++number) {
    DetachedJob job;
    job.number = number;
    job.folder = format_text("{}/{}", jobs, number);
    if (::mkdir(job.folder.c_str(), kPrivateFolder) == 0) return job;
    if (errno != EEXIST) return Status::system("mkdir " + job.folder, errno);
  }
}

Status write_detached_job(const DetachedJob& job) {
  const OrderedJson json{{"host", job.host},           {"pid", job.pid},
                         {"start", job.start},         {"began", job.began},
                         {"directory", job.directory}, {"command", job.command}};
  // What is no UTF-8 in an argument is replaced.
  return write_whole(job.folder + "/job.json",
                     json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

Status write_exit_code(const DetachedJob& job, int code) {
  return write_whole(job.folder + "/exit", format_text("{}\n", code));
}

Result<DetachedJob> parse_detached_job(std::string_view text) {
  const auto json = OrderedJson::parse(text, nullptr, false);
  const auto is_of = [&](const char* name, auto test) {
    return json.contains(name) && (json[name].*test)();
  };
  using Json = OrderedJson;
  const bool is_whole = json.is_object() && is_of("host", &Json::is_string) &&
                        is_of("pid", &Json::is_number_integer) &&
                        is_of("start", &Json::is_number_integer) &&
                        is_of("began", &Json::is_number_integer) &&
                        is_of("directory", &Json::is_string) && is_of("command", &Json::is_array) &&
                        std::all_of(json["command"].begin(), json["command"].end(),
                                    [](const Json& word) { return word.is_string(); });
  if (!is_whole) return error(Code::kInvalidArgument, "job.json is not one that hvdrun wrote");
  DetachedJob job;
  job.host = json["host"].get<std::string>();
  job.pid = json["pid"].get<pid_t>();
  job.start = json["start"].get<std::uint64_t>();
  job.began = json["began"].get<std::int64_t>();
  job.directory = json["directory"].get<std::string>();
  job.command = json["command"].get<std::vector<std::string>>();
  return job;
}

std::vector<DetachedJob> read_detached_jobs(const std::string& jobs) {
  std::vector<DetachedJob> found;
  for (const int number : job_numbers(jobs)) {
    const std::string folder = format_text("{}/{}", jobs, number);
    const auto text = read_text_file(folder + "/job.json");
    auto job = text ? parse_detached_job(*text)
                    : Result<DetachedJob>(error(Code::kUnsupported, "it starts"));
    if (!job.is_ok()) continue;
    job.value().number = number;
    job.value().folder = folder;
    job.value().exit_code = read_exit_code(folder);
    found.push_back(std::move(job).value());
  }
  return found;
}

DetachedState state_of(const DetachedJob& job, std::string_view host, bool is_alive) {
  if (job.exit_code) return DetachedState::kEnded;
  if (job.host != host) return DetachedState::kElsewhere;
  return is_alive ? DetachedState::kRuns : DetachedState::kKilled;
}

DetachedState look_at_job(DetachedJob& job) {
  const auto found = stat_of(job.pid);
  const bool is_alive = found && found->start == job.start && !found->is_zombie();
  // It may have ended since it was read.
  if (!job.exit_code && !is_alive) job.exit_code = read_exit_code(job.folder);
  return state_of(job, local_host_name(), is_alive);
}

std::string describe_state(const DetachedJob& job, DetachedState state) {
  switch (state) {
    case DetachedState::kRuns:
      return "running";
    case DetachedState::kEnded:
      return format_text("ended with exit code {}", job.exit_code.value_or(0));
    case DetachedState::kKilled:
      return "ended: its hvdrun was killed, or the machine was started again";
    case DetachedState::kElsewhere:
      return format_text("on host {}, if it still runs", job.host);
  }
  return "";
}

std::string describe_jobs(std::vector<DetachedJob> jobs) {
  std::string text;
  for (DetachedJob& job : jobs) {
    const DetachedState state = look_at_job(job);
    text += format_text("{:>4}  {}  {}  {}\n", job.number, began_text(job.began),
                        describe_state(job, state), command_text(job));
  }
  return text;
}

std::string jobs_json(std::vector<DetachedJob> jobs) {
  OrderedJson list = OrderedJson::array();
  for (DetachedJob& job : jobs) {
    constexpr std::array<std::string_view, 4> kNames{"running", "ended", "killed", "elsewhere"};
    const auto state = static_cast<std::size_t>(look_at_job(job));
    list.push_back({{"job", job.number},
                    {"state", kNames[state]},
                    {"exit_code", job.exit_code ? OrderedJson(*job.exit_code) : OrderedJson()},
                    {"host", job.host},
                    {"pid", job.pid},
                    {"began", job.began},
                    {"directory", job.directory},
                    {"command", job.command},
                    {"output", job.output()}});
  }
  return list.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace hvd
