// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"

namespace hvd {

/// The values of a kChoice or kWords.
std::vector<std::string_view> words_of(const Setting& setting);
/// What it takes: "a whole number of seconds from 1 to 3600", "one of shm, tcp".
std::string taken_text(const Setting& setting);
/// What to give in place of a value that it does not take: "one of these".
std::string remedy_text(const Setting& setting);
/// What holds where it is unset; Markdown.
std::string default_text(const Setting& setting);

/// Markdown as plain text: without backticks, and links are their words. Pure.
std::string plain_text(std::string_view markdown);

/// The table of docs/reference/environment.md.
std::string settings_table();
/// The module hvd/_core/setting_rows.py.
std::string settings_module();

}  // namespace hvd
