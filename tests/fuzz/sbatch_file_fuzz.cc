// SPDX-License-Identifier: Apache-2.0
// Scripts that a stranger wrote: they are read, every edit lies within them, and a script that was
// mended is not changed by mending it again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "launcher/lint/lint_script.h"

namespace {

/// A site with something for each rule to say; what real files say is not the matter here.
const hvd::SiteConfig& site() {
  static const hvd::SiteConfig kSite = [] {
    hvd::SiteConfig site;
    site.id = "fuzz";
    site.name = "Fuzz";
    hvd::SitePartition partition;
    partition.name = "gpu";
    partition.select = hvd::PartitionSelect::kConstraint;
    partition.constraint = "a100";
    partition.gpus_per_node = 4;
    partition.cores_per_task = 8;
    partition.default_time = "00:10:00";
    partition.max_time = "20:00:00";
    partition.max_nodes = 8;
    partition.account_suffix = "@a100";
    partition.modules = {"arch/a100"};
    partition.qos.push_back(
        {.name = "qos-t3", .max_time = "10:00:00", .max_gpus = 8, .is_default = true});
    site.partitions = {partition, partition};
    site.partitions[1].name = "other";
    site.partitions[1].constraint = "h100";
    site.partitions[1].modules = {"arch/h100"};
    site.hint = "nomultithread";
    site.time = "01:00:00";
    site.directives = {{.option = "exclusive", .value = "", .why = "a test"}};
    site.forbidden = {{.option = "nodelist", .why = "a test"}};
    return site;
  }();
  return kSite;
}

void check_range(const hvd::Edit& edit, std::string_view text) {
  HVD_CHECK(edit.begin <= edit.end);
  HVD_CHECK(edit.end <= text.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4096) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const hvd::Finding& finding :
       hvd::lint_script(hvd::parse_sbatch_file(text), site(), "23.02")) {
    if (finding.edit) check_range(*finding.edit, text);
  }
  const hvd::MendedScript once = hvd::mend_script(text, site(), "23.02");
  const hvd::MendedScript twice = hvd::mend_script(once.text, site(), "23.02");
  HVD_CHECK(twice.text == once.text);
  return 0;
}
