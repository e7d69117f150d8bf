// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "launcher/options/app.h"
#include "launcher/options/parsers.h"

namespace hvd {

Result<CommandLine> parse_topo(const std::vector<std::string>& arguments) {
  std::vector<std::string> respelled = arguments;
  std::replace(respelled.begin(), respelled.end(), std::string("-np"), std::string("--np"));
  auto app = make_app(
      "Draws the node: packages, NUMA nodes, cores, GPUs, network ports, the distances between "
      "them, and what each rank would use.",
      "hvdrun topo", false);
  TopoOptions options;
  app->add_option("-n,--np", options.ranks, "Ranks to place on the node (default: one per GPU)")
      ->type_name("N")
      ->group("Ranks")
      ->check(CLI::Range(1, 1024));
  app->add_flag("--json", options.json, "Print it as JSON")->group("Output");
  app->add_option("--svg", options.svg, "Draw it into FILE as SVG; print nothing")
      ->type_name("FILE")
      ->group("Output");
  auto* xml = app->add_option("--xml", options.xml,
                              "Draw the node recorded in FILE by `lstopo --of xml FILE`")
                  ->type_name("FILE")
                  ->group("Recorded node");
  app->add_option("--sysfs", options.sysfs, "Draw the node whose /sys is DIR/sys")
      ->type_name("DIR")
      ->group("Recorded node")
      ->excludes(xml);
  HVD_TRY_ASSIGN(auto print, parse_with(*app, std::move(respelled), "topo"));
  if (print) return *std::move(print);
  return CommandLine(std::move(options));
}

}  // namespace hvd
