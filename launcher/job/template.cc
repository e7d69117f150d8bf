// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/template.h"

#include <kainjow/mustache.hpp>

#include "launcher/console/shell_word.h"

namespace hvd {
namespace {

using kainjow::mustache::data;
using kainjow::mustache::mustache;

/// Mustache escapes for HTML unless told otherwise, which would turn "gpu&hbm80g" into markup.
/// The text ends without a line break.
Result<std::string> render(const TemplateText& form, const data& values,
                           const mustache::escape_handler& escape) {
  mustache parsed{form.text};
  parsed.set_custom_escape(escape);
  std::string text = parsed.is_valid() ? parsed.render(values) : "";
  if (!parsed.is_valid()) {
    return error(Code::kInvalidArgument, "template {}: {}: correct it, or move it away",
                 form.origin, parsed.error_message());
  }
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
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

std::string reason(const SiteVariable& variable) { return variable.why; }
std::string reason(const PlannedVariable& variable) { return explained(variable); }

/// One entry per variable; both kinds of variable have these three fields.
template <typename Variable>
data variables(const std::vector<Variable>& items) {
  data list{data::type::list};
  for (const Variable& item : items) {
    data entry;
    entry.set("name", item.name);
    entry.set("value", item.value);
    entry.set("why", reason(item));
    entry.set("assignment", shell_assignment(item.name, item.value));
    list.push_back(entry);
  }
  return list;
}

Result<std::string> render_setup(const JobPlan& plan, const TemplateFiles& templates) {
  data values;
  values.set("newline", "\n");  // A line break written in the template goes with its section's tag.
  values.set("has_modules", !plan.modules.empty());
  values.set("modules", words(plan.modules));
  values.set("purges_modules", plan.purges_modules);
  values.set("has_environment", !plan.environment.empty());
  values.set("undecided", words(plan.undecided));
  values.set("has_variables",
             !plan.environment.empty() || !plan.historical.empty() || !plan.undecided.empty());
  values.set("historical", variables(plan.historical));
  values.set("environment", variables(plan.environment));
  const TemplateText form = template_named(templates, "setup.mustache");
  HVD_TRY_ASSIGN(const std::string text, render(form, values, shell_word));
  return text.empty() ? text : text + "\n\n";
}

Result<std::string> render_step(const JobPlan& plan, const TemplateFiles& templates) {
  data values;
  values.set("notes", words(plan.step_notes));
  values.set("has_cores", plan.repeats_cores);
  values.set("step", shell_line(plan.step));
  const TemplateText form = template_named(templates, "step.mustache");
  return render(form, values, shell_word);
}

Result<std::string> header_text(const JobPlan& plan, const TemplateFiles& templates) {
  data values;
  values.set("shell", plan.shell);
  values.set("notes", words(plan.notes));
  values.set("directives", directives(plan));
  const TemplateText form = template_named(templates, "header.mustache");
  // The characters of directives were checked when they were decided: they stay as they are.
  return render(form, values, [](const std::string& text) { return text; });
}

}  // namespace

Result<std::string> render_header(const JobPlan& plan, const TemplateFiles& templates) {
  HVD_TRY_ASSIGN(const std::string header, header_text(plan, templates));
  return header + "\n";
}

Result<std::string> render_script(const JobPlan& plan, const TemplateFiles& templates) {
  HVD_TRY_ASSIGN(const std::string header, header_text(plan, templates));
  HVD_TRY_ASSIGN(const std::string setup, render_setup(plan, templates));
  HVD_TRY_ASSIGN(const std::string run, render_step(plan, templates));
  data values;
  values.set("header", header + "\n");
  values.set("setup", setup);
  values.set("run", run);
  values.set("launcher", plan.step.empty() ? "" : plan.step.front());
  values.set("signal", plan.signal);
  values.set("grace", std::to_string(plan.grace_seconds));
  const std::string name = std::string(shape_name(plan.shape)) + ".mustache";
  const TemplateText form = template_named(templates, name);
  HVD_TRY_ASSIGN(const std::string script, render(form, values, shell_word));
  return script + "\n";
}

}  // namespace hvd
