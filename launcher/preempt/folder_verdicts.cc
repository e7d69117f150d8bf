// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/format.h"
#include "launcher/preempt/verdicts.h"

namespace hvd {
namespace {

constexpr double kNanosecond = 1e-9;
constexpr std::size_t kShownNames = 3;
constexpr const char* kSaveRemedy =
    "save a checkpoint when hvd.should_stop() is True, before the program ends";

std::string size_text(std::int64_t bytes) {
  if (bytes < 1000) return format_text("{} bytes", bytes);
  if (bytes < 1'000'000) return format_text("{:.1f} KB", static_cast<double>(bytes) / 1e3);
  if (bytes < 1'000'000'000) return format_text("{:.1f} MB", static_cast<double>(bytes) / 1e6);
  return format_text("{:.1f} GB", static_cast<double>(bytes) / 1e9);
}

/// Between the signal and the last write of the file; the clock of a file system may be another.
SecondsSeen after_signal(const FileSeen& file, const Trial& trial) {
  return SecondsSeen(static_cast<double>(file.changed_ns - trial.signalled_at_ns) * kNanosecond);
}

std::string first_names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShownNames); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kShownNames) text += format_text(" and {} more", names.size() - kShownNames);
  return text;
}

PreemptLine checkpoint_line(PreemptVerdict verdict, std::string text, std::string remedy = "") {
  return {std::string(kFirstRun), "checkpoint", verdict, std::move(text), std::move(remedy)};
}

PreemptLine judge_nothing_written(const PreemptSeen& seen) {
  const FolderSeen& folder = seen.folder;
  if (!folder.is_told) {
    return checkpoint_line(
        PreemptVerdict::kUnknown,
        "no file below the working directory was written after the signal",
        "--folder DIR, where the checkpoints are elsewhere; else " + std::string(kSaveRemedy));
  }
  // Another node may have written what this one does not see yet, or not at all.
  const PreemptVerdict verdict =
      seen.first.is_by_srun ? PreemptVerdict::kUnknown : PreemptVerdict::kFailed;
  const std::string newest = newest_file(folder.after_first);
  if (newest.empty()) {
    return checkpoint_line(verdict, format_text("there is no file in {}", folder.folder),
                           kSaveRemedy);
  }
  const SecondsSeen age = -after_signal(folder.after_first.files.at(newest), seen.first);
  return checkpoint_line(verdict,
                         format_text("nothing was written in {} after the signal: the newest file, "
                                     "{}, is {} older, and the work since is lost",
                                     folder.folder, newest, in_seconds(age)),
                         kSaveRemedy);
}

PreemptLine judge_checkpoint(const PreemptSeen& seen, const std::vector<std::string>& whole) {
  const FolderSeen& folder = seen.folder;
  if (whole.empty()) return judge_nothing_written(seen);
  const std::string& newest = whole.back();
  const FileSeen& file = folder.after_first.files.at(newest);
  const std::string text =
      format_text("{} ({}) was written {} after the signal", newest, size_text(file.size),
                  in_seconds(std::max(SecondsSeen(0), after_signal(file, seen.first))));
  if (folder.is_told) return checkpoint_line(PreemptVerdict::kOk, text);
  return checkpoint_line(PreemptVerdict::kUnknown,
                         format_text("{}, the newest of {} below the working directory; whether it "
                                     "is a checkpoint is not known",
                                     text, whole.size()),
                         "--folder DIR says where the checkpoints are");
}

PreemptLine resume_line(PreemptVerdict verdict, std::string text, std::string remedy = "") {
  return {std::string(kSecondRun), "resume", verdict, std::move(text), std::move(remedy)};
}

std::string numbers_of(const NumberedName& kind) {
  std::string text;
  for (const std::uint64_t number : kind.numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return text;
}

/// What the numbers in the names say: -1 it began anew, 1 it went on, 0 nothing. `text`: of them.
int compare_numbers(const FolderSeen& folder, const std::string& newest, std::string& text) {
  const std::vector<std::string> later = written_between(folder.after_first, folder.after_second);
  std::vector<std::string> earlier;
  for (const auto& [path, file] : folder.after_first.files) earlier.push_back(path);
  const std::string kind = numbered_name(newest).name;
  const auto before = highest_numbered(earlier, kind);
  const auto after = highest_numbered(later, kind);
  if (!before || !after || before->numbers == after->numbers) return 0;
  text = format_text("the first run left {} {}, the second wrote {}", kind, numbers_of(*before),
                     numbers_of(*after));
  return after->numbers > before->numbers ? 1 : -1;
}

/// The newest checkpoint that the second run found.
std::string newest_whole(const FolderLook& look) {
  FolderLook whole;
  for (const auto& [path, file] : look.files) {
    if (!looks_unfinished(path, file)) whole.files[path] = file;
  }
  return newest_file(whole);
}

PreemptLine judge_told_resume(const PreemptSeen& seen) {
  const FolderSeen& folder = seen.folder;
  const std::string newest = newest_whole(folder.after_first);
  if (newest.empty()) {
    return resume_line(PreemptVerdict::kUnknown, "the first run left no checkpoint to go on from",
                       seen.kill ? "a longer --after, in which one is written" : kSaveRemedy);
  }
  std::string numbers;
  const int went = compare_numbers(folder, newest, numbers);
  if (went < 0) {
    return resume_line(PreemptVerdict::kFailed, "it began anew: " + numbers,
                       "load the newest checkpoint before the first step: checkpoints.resume()");
  }
  const bool is_seen = folder.read && !seen.second->is_by_srun;
  if (folder.read && !folder.read->empty()) {
    return resume_line(PreemptVerdict::kOk, format_text("{} was read{}{}", *folder.read->rbegin(),
                                                        numbers.empty() ? "" : "; ", numbers));
  }
  if (is_seen) {
    return resume_line(PreemptVerdict::kFailed,
                       format_text("no file in {} was read: it began anew", folder.folder),
                       "load the newest checkpoint before the first step: checkpoints.resume()");
  }
  if (went > 0) return resume_line(PreemptVerdict::kOk, numbers);
  return resume_line(PreemptVerdict::kUnknown,
                     "whether a checkpoint was read is not seen from this node, and no name of a "
                     "file says it");
}

}  // namespace

std::vector<PreemptLine> judge_files(const PreemptSeen& seen) {
  if (seen.kill) return {};
  const FolderSeen& folder = seen.folder;
  if (folder.at_signal.is_cut || folder.after_first.is_cut) {
    return {
        checkpoint_line(PreemptVerdict::kUnknown,
                        format_text("there are too many files below {} to look at", folder.folder),
                        "--folder DIR names a smaller one")};
  }
  std::vector<std::string> whole;
  for (const std::string& path : written_between(folder.at_signal, folder.after_first)) {
    if (!looks_unfinished(path, folder.after_first.files.at(path))) whole.push_back(path);
  }
  std::vector<PreemptLine> lines{judge_checkpoint(seen, whole)};
  std::vector<std::string> unfinished;
  for (const std::string& path : written_between(folder.before, folder.after_first)) {
    if (looks_unfinished(path, folder.after_first.files.at(path))) unfinished.push_back(path);
  }
  if (!folder.is_told) return lines;
  const bool is_clean = unfinished.empty();
  lines.push_back({std::string(kFirstRun), "files",
                   is_clean ? PreemptVerdict::kOk : PreemptVerdict::kFailed,
                   is_clean ? "no half or temporary file is left"
                            : "half or temporary files are left: " + first_names(unfinished),
                   is_clean ? ""
                            : "wait for the save before the program ends, and write with "
                              "hvd.checkpoints.save_atomically()"});
  return lines;
}

PreemptLine judge_resume(const PreemptSeen& seen) {
  if (seen.folder.is_told) return judge_told_resume(seen);
  return resume_line(PreemptVerdict::kUnknown,
                     "whether the second run went on from a checkpoint is not known",
                     "--folder DIR has it looked at");
}

}  // namespace hvd
