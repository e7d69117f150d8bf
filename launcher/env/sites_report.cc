// SPDX-License-Identifier: Apache-2.0
#include "launcher/env/sites_report.h"

#include <algorithm>

#include "base/format.h"

namespace hvd {
namespace {

std::string counted(const MarkCounts& counts) {
  return format_text("{:>4} documented {:>4} seen {:>4} assumed", counts.documented, counts.seen,
                     counts.assumed);
}

std::string titled(const SiteEntry& entry) {
  return entry.name + (entry.retired.empty() ? "" : " (retired)") +
         (entry.origin == "embedded" ? "" : " [" + entry.origin + "]");
}

}  // namespace

std::string sites_text(const SitesReport& report) {
  std::size_t width = 0;
  for (const SiteLine& line : report.sites) width = std::max(width, line.entry.id.size());
  std::string text = format_text("here: {} ({})\n", report.here, report.evidence);
  for (const SiteLine& line : report.sites) {
    text += format_text("{} {:<{}} {}  {}\n", line.is_here ? "*" : " ", line.entry.id, width,
                        counted(line.counts), titled(line.entry));
  }
  return text;
}

std::string site_text(const SiteLine& line, const std::vector<SiteValue>& values) {
  std::string text = format_text("{}: {}\n", line.entry.id, titled(line.entry));
  if (!line.entry.retired.empty()) text += format_text("retired: {}\n", line.entry.retired);
  text += format_text("values: {} documented, {} seen, {} assumed\n\n", line.counts.documented,
                      line.counts.seen, line.counts.assumed);
  std::vector<std::string> sources;
  std::string body;
  for (const SiteValue& value : values) {
    const std::string source = format_text("{}, {}, {}", value.provenance.source,
                                           value.provenance.date, value.provenance.mark);
    auto known = std::find(sources.begin(), sources.end(), source);
    if (known == sources.end()) known = sources.insert(sources.end(), source);
    body += format_text("  [{}] {} = {}{}\n", known - sources.begin() + 1, value.place, value.value,
                        value.provenance.is_assumed() ? "  (assumed: verify)" : "");
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    text += format_text("[{}] {}\n", i + 1, sources[i]);
  }
  return text + "\n" + body;
}

}  // namespace hvd
