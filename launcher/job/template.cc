// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/template.h"

#include <kainjow/mustache.hpp>

#include "launcher/site/site_embedded.h"

namespace hvd {
namespace {

using kainjow::mustache::data;
using kainjow::mustache::mustache;

/// Mustache escapes for HTML unless told otherwise, which would turn "gpu&hbm80g" into markup.
Result<std::string> render(std::string_view file, const data& values,
                           const mustache::escape_handler& escape) {
  mustache form{std::string(embedded_file(file))};
  form.set_custom_escape(escape);
  std::string text = form.render(values);
  if (!form.is_valid()) {
    return error(Code::kInternal, "template {}: {}", file, form.error_message());
  }
  text.erase(text.find_last_not_of('\n') + 1);
  return text + "\n";
}

data words(const std::vector<std::string>& items) {
  data list{data::type::list};
  for (const std::string& item : items) list.push_back(item);
  return list;
}

data directives(const JobPlan& plan) {
  data list{data::type::list};
  for (const JobDirective& line : plan.directives) {
    data entry;
    entry.set("option", line.option);
    entry.set("value", line.value);
    entry.set("has_value", !line.value.empty());
    list.push_back(entry);
  }
  return list;
}

/// One entry per variable; both kinds of variable have these three fields.
template <typename Variable>
data variables(const std::vector<Variable>& items) {
  data list{data::type::list};
  for (const Variable& item : items) {
    data entry;
    entry.set("name", item.name);
    entry.set("value", item.value);
    entry.set("why", item.why);
    list.push_back(entry);
  }
  return list;
}

}  // namespace

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:/=+@%^-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

Result<std::string> render_header(const JobPlan& plan) {
  data values;
  values.set("shell", plan.shell);
  values.set("notes", words(plan.notes));
  values.set("directives", directives(plan));
  // The characters of directives were checked when they were decided: they stay as they are.
  return render("header.mustache", values, [](const std::string& text) { return text; });
}

Result<std::string> render_script(const JobPlan& plan) {
  HVD_TRY_ASSIGN(const std::string header, render_header(plan));
  data body;
  body.set("header", header);
  body.set("newline", "\n");  // A line break written in the template goes with its section's tag.
  body.set("has_modules", !plan.modules.empty());
  body.set("modules", words(plan.modules));
  body.set("has_environment", !plan.environment.empty() || !plan.historical.empty());
  body.set("historical", variables(plan.historical));
  body.set("environment", variables(plan.environment));
  body.set("srun_flags", words(plan.srun_flags));
  body.set("command", words(plan.command));
  return render("script.mustache", body, shell_word);
}

}  // namespace hvd
