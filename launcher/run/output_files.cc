// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/output_files.h"

#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "base/descriptor_limit.h"

namespace hvd {
namespace {

std::string path_of(const std::string& folder, int rank, std::string_view suffix) {
  return format_text("{}/rank-{}.{}", folder, rank, suffix);
}

constexpr mode_t kFolderMode = 0755;
constexpr std::chrono::seconds kSilence{10};
constexpr std::size_t kFewFiles = 8;      ///< That may be open whatever the limit is.
constexpr std::size_t kFilesAtOnce = 64;  ///< By which the room for files grows.

/// Of the entries of the folder whose names are numbers; 0: none is.
int highest_number(const std::string& folder) {
  int highest = 0;
  std::error_code failure;
  for (std::filesystem::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string name = at->path().filename().string();
    int number = 0;
    const auto [stop, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (problem == std::errc() && stop == name.data() + name.size()) {
      highest = std::max(highest, number);
    }
  }
  return highest;
}

/// For people: where there are no symbolic links, or something else is called "latest", the number
/// has to do.
void link_latest(const std::string& folder, const std::string& name) {
  const std::string latest = folder + "/latest";
  struct stat found {};
  if (::lstat(latest.c_str(), &found) == 0 && !S_ISLNK(found.st_mode)) return;
  const std::string fresh = latest + "." + name;
  if (::symlink(name.c_str(), fresh.c_str()) != 0) return;
  if (::rename(fresh.c_str(), latest.c_str()) != 0) (void)::unlink(fresh.c_str());
}

/// Makes DIR/N and turns `folder` into it.
Status make_folder(std::string& folder) {
  if (::mkdir(folder.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    return Status::system("--output-dir: mkdir " + folder, errno);
  }
  // Another job may make a folder there at the same moment: the next number is tried, then.
  for (int number = highest_number(folder) + 1;; ++number) {
    const std::string name = std::to_string(number);
    const std::string path = format_text("{}/{}", folder, name);
    if (::mkdir(path.c_str(), kFolderMode) == 0) {
      link_latest(folder, name);
      folder = path;
      return Status::ok();
    }
    if (errno != EEXIST) return Status::system("--output-dir: mkdir " + path, errno);
  }
}

}  // namespace

/// What the thread of the start works on; it may live longer than we do.
struct OutputFiles::Start {
  std::string folder;
  std::vector<int> ranks;
  UniqueFd done{::eventfd(0, EFD_CLOEXEC)};
  Status status = Status::ok();
  Files files;

  Status work() {
    HVD_TRY(make_folder(folder));
    for (const int rank : ranks) {
      for (const std::string_view suffix : {"out", "err"}) {
        const std::string path = path_of(folder, rank, suffix);
        const auto file = std::make_shared<SinkTarget>(path);
        int why = file->open();
        if (why == 0) why = file->close();
        if (why != 0) return Status::system("--output-dir: open " + path, why);
        files[path].target = file;
      }
    }
    return Status::ok();
  }
};

Status OutputFiles::start(const std::vector<int>& ranks, const std::function<bool(int)>& wait) {
  if (!is_wanted()) return Status::ok();
  const auto start = std::make_shared<Start>();
  if (!start->done.is_open()) return Status::system("eventfd", errno);
  start->folder = folder_;
  start->ranks = ranks;
  std::thread thread([start] {
    start->status = start->work();
    (void)::eventfd_write(start->done.get(), 1);
  });
  if (!wait(start->done.get())) {
    thread.detach();
    return error(Code::kAborted, "--output-dir: {} was waited for until a signal came", folder_);
  }
  thread.join();
  folder_ = start->folder;
  files_ = std::move(start->files);
  return start->status;
}

/// Makes room for the file, first by a higher limit of descriptors, then by closing another.
void OutputFiles::use(File& file) {
  if (file.is_open) {
    open_.splice(open_.begin(), open_, file.place);
    return;
  }
  // The thread may not have opened any of them yet.
  if (open_.size() >= room_ && reserve_descriptors(open_.size() + kFilesAtOnce).is_ok()) {
    room_ = open_.size() + kFilesAtOnce;
  }
  if (open_.size() >= std::max(room_, kFewFiles)) {
    File& last = *open_.back();
    open_.pop_back();
    last.is_open = false;
    sink_.close(last.target);
  }
  file.place = open_.insert(open_.begin(), &file);
  file.is_open = true;
}

void OutputFiles::add(int rank, std::string_view suffix, std::string_view bytes) {
  if (!is_wanted()) return;
  const std::string path = path_of(folder_, rank, suffix);
  File& file = files_[path];
  if (file.target == nullptr) file.target = std::make_shared<SinkTarget>(path);
  use(file);
  sink_.add(file.target, std::string(bytes));
}

void OutputFiles::finish() {
  for (const File* file : open_) sink_.close(file->target);
  open_.clear();
  files_.clear();
}

std::string OutputFiles::take_complaint(Clock::time_point now) {
  if (!is_wanted()) return "";
  const OutputSink::Failure failure = sink_.take_failure();
  if (failure.error_number != 0 && !std::exchange(has_complained_, true)) {
    return format_text("--output-dir: {}: {}; the job goes on, and what is not written is lost",
                       failure.target->path, std::generic_category().message(failure.error_number));
  }
  const std::size_t finished = sink_.finished();
  if (sink_.is_empty()) {
    silent_since_.reset();
  } else if (!silent_since_ || finished != finished_) {
    silent_since_ = now;
  }
  finished_ = finished;
  if (has_told_of_silence_ || !silent_since_ || now - *silent_since_ < kSilence) return "";
  has_told_of_silence_ = true;
  return format_text(
      "--output-dir: {} has taken nothing for {} s (does its file system hang?); ranks that write "
      "more than 1 MiB wait for it",
      folder_, kSilence.count());
}

Deadline OutputFiles::next() const {
  return has_told_of_silence_ || !silent_since_ ? kForever
                                                : Deadline::at(*silent_since_ + kSilence);
}

}  // namespace hvd
