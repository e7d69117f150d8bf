// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/template_files.h"

#include <filesystem>

#include "base/text_file.h"
#include "launcher/site/config_folder.h"
#include "launcher/site/site_embedded.h"

namespace hvd {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> embedded_templates() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.name.ends_with(".mustache")) names.emplace_back(file.name);
  }
  return names;
}

Status check_folder(const std::string& folder) {
  std::error_code failure;
  std::string known;
  for (const std::string& name : embedded_templates()) {
    if (fs::is_regular_file(fs::path(folder) / name, failure)) return Status::ok();
    known += (known.empty() ? "" : ", ") + name;
  }
  return error(Code::kInvalidArgument, "--templates '{}' {}: type a folder with one or more of {}",
               folder, fs::is_directory(folder, failure) ? "holds no template" : "is not a folder",
               known);
}

Status add_folder(const std::string& folder, TemplateFiles& files) {
  for (const std::string& name : embedded_templates()) {
    const fs::path path = fs::path(folder) / name;
    std::error_code failure;
    if (!fs::exists(path, failure)) continue;
    std::optional<std::string> text = read_text_file(path.string());
    if (!text) {
      return error(Code::kInvalidArgument,
                   "template '{}' cannot be read, or is empty: check path and rights",
                   path.string());
    }
    files.own.push_back({name, path.string(), *std::move(text)});
  }
  return Status::ok();
}

}  // namespace

Result<TemplateFiles> read_templates(const std::string& typed, const Environment& environment) {
  TemplateFiles files;
  if (!typed.empty()) {
    HVD_TRY(check_folder(typed));
    HVD_TRY(add_folder(typed, files));
  }
  for (const std::string& folder : config_folders(environment)) {
    HVD_TRY(add_folder(folder + "/templates", files));
  }
  return files;
}

TemplateText template_named(const TemplateFiles& files, std::string_view name) {
  for (const TemplateText& own : files.own) {
    if (own.name == name) return own;
  }
  return {std::string(name), format_text("{} of hvdrun", name), std::string(embedded_file(name))};
}

}  // namespace hvd
