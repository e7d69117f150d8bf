// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "launcher/site/site.h"

namespace hvd {

/// Sites for the tests of lint, like Jean Zay and Piz Daint: what the real files say may change.
inline const Provenance& test_provenance() {
  static const Provenance kPage{"a page for tests", "2026", "documented"};
  return kPage;
}

inline SitePartition test_partition(std::string name, int gpus, int cores, std::string suffix,
                                    std::vector<SiteQos> qos) {
  SitePartition partition;
  partition.name = std::move(name);
  partition.gpus_per_node = gpus;
  partition.cores_per_task = cores;
  partition.default_time = "00:10:00";
  partition.max_time = "100:00:00";
  partition.account_suffix = std::move(suffix);
  partition.qos = std::move(qos);
  partition.provenance = test_provenance();
  return partition;
}

inline SiteQos test_qos(std::string name, std::string max_time, bool is_default = false) {
  return {.name = std::move(name),
          .max_time = std::move(max_time),
          .max_gpus = std::nullopt,
          .is_default = is_default,
          .provenance = test_provenance()};
}

inline SiteConfig test_jean_zay() {
  const std::vector<SiteQos> v100{test_qos("qos_gpu-t3", "20:00:00", true),
                                  test_qos("qos_gpu-t4", "100:00:00"),
                                  test_qos("qos_gpu-dev", "02:00:00")};
  SiteConfig site;
  site.id = "jean-zay";
  site.name = "Jean Zay";
  site.partitions = {
      test_partition("gpu_p13", 4, 10, "@v100", v100),
      test_partition("gpu_p2", 8, 3, "@v100", v100),
      test_partition("gpu_p5", 8, 8, "@a100", {test_qos("qos_gpu_a100-t3", "20:00:00", true)}),
      test_partition("gpu_p6", 4, 24, "@h100",
                     {test_qos("qos_gpu_h100-t3", "20:00:00", true),
                      test_qos("qos_gpu_h100-dev", "02:00:00")})};
  site.partitions[1].select = PartitionSelect::kPartition;
  for (const auto& [index, feature] : {std::pair(2, "a100"), std::pair(3, "h100")}) {
    SitePartition& partition = site.partitions[static_cast<std::size_t>(index)];
    partition.select = PartitionSelect::kConstraint;
    partition.constraint = feature;
    partition.modules = {std::string("arch/") + feature};
  }
  site.partitions[3].qos[1].max_gpus = 32;
  site.account_pattern = "^[a-z0-9]+@(v100|a100|h100)$";
  site.account_example = "xyz@v100";
  site.hint = "nomultithread";
  site.time = "01:00:00";
  site.provenance = test_provenance();
  return site;
}

inline SiteConfig test_piz_daint() {
  SiteConfig site;
  site.id = "piz-daint";
  site.name = "Piz Daint";
  site.retired = "the machine is gone";
  site.partitions = {test_partition("gpu", 1, 12, "", {})};
  site.partitions[0].select = PartitionSelect::kConstraint;
  site.partitions[0].constraint = "gpu";
  site.partitions[0].modules = {"daint-gpu"};
  site.gres_style = GresStyle::kNone;
  site.directives = {{"ntasks-per-core", "1", "cores, not hardware threads", test_provenance()}};
  site.provenance = test_provenance();
  return site;
}

/// A site where GPUs come with the node and nobody may name nodes.
inline SiteConfig test_ibrun_site() {
  SiteConfig site;
  site.id = "vista";
  site.name = "Vista";
  site.partitions = {test_partition("gh", 1, 72, "", {})};
  site.partitions[0].select = PartitionSelect::kPartition;
  site.partitions[0].default_time = "";
  site.partitions[0].max_nodes = 64;
  site.partitions[0].cores_per_node = 72;
  site.gres_style = GresStyle::kNone;
  site.forbidden = {{.option = "nodelist",
                     .why = "jobs that name nodes are deleted",
                     .provenance = test_provenance()},
                    {.option = "ntasks-per-node",
                     .why = "one task drives the one GPU",
                     .over = 1,
                     .provenance = test_provenance()}};
  site.provenance = test_provenance();
  return site;
}

inline std::vector<SiteConfig> test_sites() {
  SiteConfig generic;
  generic.id = "generic";
  generic.name = "Any cluster";
  return {generic, test_jean_zay(), test_piz_daint(), test_ibrun_site()};
}

}  // namespace hvd
