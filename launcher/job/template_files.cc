// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/template_files.h"

#include <filesystem>
#include <fstream>
#include <sstream>

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
               folder, fs::is_directory(folder, failure) ? "holds no template" : "is no folder",
               known);
}

}  // namespace

Result<TemplateFolders> find_templates(const std::string& typed, const Environment& environment) {
  TemplateFolders found;
  if (!typed.empty()) {
    HVD_TRY(check_folder(typed));
    found.folders.push_back(typed);
  }
  std::error_code failure;
  const std::string config = config_folder(environment);
  const std::string own = config + "/templates";
  if (!config.empty() && fs::is_directory(own, failure)) found.folders.push_back(own);
  return found;
}

Result<TemplateText> read_template(const TemplateFolders& where, std::string_view name) {
  for (const std::string& folder : where.folders) {
    const fs::path path = fs::path(folder) / name;
    std::error_code failure;
    if (!fs::exists(path, failure)) continue;
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file.is_open() || text.fail()) {
      return error(Code::kInvalidArgument,
                   "template '{}' cannot be read, or is empty: check path and rights",
                   path.string());
    }
    return TemplateText{path.string(), text.str()};
  }
  return TemplateText{format_text("{} of hvdrun", name), std::string(embedded_file(name))};
}

}  // namespace hvd
