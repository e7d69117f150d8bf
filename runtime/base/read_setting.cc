// SPDX-License-Identifier: Apache-2.0
#include "base/read_setting.h"

#include <charconv>
#include <initializer_list>
#include <utility>

#include "base/check.h"
#include "base/settings.h"
#include "base/settings_text.h"

namespace hvd {
namespace {

/// The row, and the variable that has its value: its own, else Horovod's.
struct Found {
  const Setting& setting;
  std::string_view name;
  std::optional<std::string> text;
};

Found find_value(const Environment& environment, std::string_view name,
                 std::initializer_list<SettingKind> kinds) {
  const Setting* const setting = find_setting(name);
  HVD_CHECK(setting != nullptr);
  bool is_one = false;
  for (const SettingKind kind : kinds) is_one = is_one || kind == setting->kind;
  HVD_CHECK(is_one);
  auto own = environment.get(setting->name);
  if ((own && !own->empty()) || setting->also.empty()) {
    return {*setting, setting->name, std::move(own)};
  }
  return {*setting, setting->also, environment.get(setting->also)};
}

/// The one sentence about a value that does not fit.
Status refuse(const Found& found) {
  return error(Code::kInvalidArgument, "{}='{}' is not {}; give {}, or unset it", found.name,
               *found.text, taken_text(found.setting), remedy_text(found.setting));
}

Result<std::optional<std::int64_t>> number_of(const Found& found) {
  if (!found.text || found.text->empty()) return found.setting.initial;
  std::int64_t value = 0;
  const char* const end = found.text->data() + found.text->size();
  const auto parsed = std::from_chars(found.text->data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < found.setting.lowest ||
      value > found.setting.highest) {
    return refuse(found);
  }
  return std::optional<std::int64_t>(value);
}

/// Of a row that has a number where it is unset.
Result<std::int64_t> certain_number(const Environment& environment, std::string_view name,
                                    SettingKind kind) {
  const Found found = find_value(environment, name, {kind});
  HVD_CHECK(found.setting.initial.has_value());
  HVD_TRY_ASSIGN(const auto number, number_of(found));
  return *number;
}

}  // namespace

Result<bool> read_switch(const Environment& environment, std::string_view name) {
  HVD_TRY_ASSIGN(const auto number, certain_number(environment, name, SettingKind::kSwitch));
  return number == 1;
}

Result<std::optional<std::int64_t>> read_integer(const Environment& environment,
                                                 std::string_view name) {
  return number_of(find_value(environment, name, {SettingKind::kInteger}));
}

Result<std::chrono::seconds> read_seconds(const Environment& environment, std::string_view name) {
  HVD_TRY_ASSIGN(const auto number, certain_number(environment, name, SettingKind::kSeconds));
  return std::chrono::seconds(number);
}

Result<std::size_t> read_bytes(const Environment& environment, std::string_view name) {
  HVD_TRY_ASSIGN(const auto number, certain_number(environment, name, SettingKind::kBytes));
  return static_cast<std::size_t>(number);
}

Result<std::string> read_choice(const Environment& environment, std::string_view name) {
  Found found = find_value(environment, name, {SettingKind::kChoice});
  if (!found.text || found.text->empty()) return std::string();
  for (const std::string_view word : words_of(found.setting)) {
    if (word == *found.text) return *std::move(found.text);
  }
  return refuse(found);
}

std::string read_text(const Environment& environment, std::string_view name) {
  return find_value(environment, name,
                    {SettingKind::kText, SettingKind::kPath, SettingKind::kWords})
      .text.value_or("");
}

}  // namespace hvd
