// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "launcher/lint/finding.h"
#include "launcher/lint/sbatch_file.h"

namespace hvd {

/// What a file is, as far as lint reads it.
enum class FileKind {
  kScript,  ///< Lines of a shell, with a header for sbatch or without.
  kPython,
  kOther,  ///< Nothing that lint reads.
};

/// Whether a file is a Python program and holds nothing for sbatch; else kind_of_file() decides.
bool is_only_python(std::string_view path, std::string_view text);

FileKind kind_of_file(std::string_view path, const SbatchFile& file);

/// Says what a file is that lint does not read.
Finding no_script_finding(const SbatchFile& file);

}  // namespace hvd
