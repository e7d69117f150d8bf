// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/topo_command.h"

#include <cerrno>
#include <cstdio>
#include <memory>

#include "bootstrap/local_host.h"
#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/node/affinity_mask.h"
#include "launcher/node/node_map.h"
#include "launcher/node/nvml.h"
#include "launcher/node/read_node.h"

namespace hvd {
namespace {

Result<NodeMap> read_map(const TopoOptions& options) {
  constexpr NodeParts kEverything{true, true, true};
  if (!options.xml.empty()) {
    HVD_TRY_ASSIGN(NodeTopology node, read_node_xml(options.xml));
    node.origin = options.xml.substr(options.xml.rfind('/') + 1);
    return make_node_map(std::move(node), {}, {}, options.ranks);
  }
  NodeTopology node = read_node(options.sysfs, kEverything);
  if (node.cores.empty()) {
    return error(Code::kInvalidArgument,
                 "'{}/sys' shows no CPUs: it must hold a copy of a node's /sys, with "
                 "devices/system/cpu in it",
                 options.sysfs);
  }
  if (!options.sysfs.empty()) return make_node_map(std::move(node), {}, {}, options.ranks);
  add_nvml_names(kNvmlLibrary, node);
  node.origin = local_host_name();
  return make_node_map(std::move(node), affinity_mask(), Environment::of_process(), options.ranks);
}

Status write_file(const std::string& path, const std::string& text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "we"),
                                                             std::fclose);
  if (file == nullptr || std::fputs(text.c_str(), file.get()) < 0 || std::fflush(file.get()) != 0) {
    return Status::system(format_text("cannot write '{}'", path), errno);
  }
  return Status::ok();
}

}  // namespace

int run_topo(const TopoOptions& options) {
  const Result<NodeMap> map = read_map(options);
  if (!map.is_ok()) {
    print_message(map.status().message());
    return kExitUsage;
  }
  if (!options.svg.empty()) {
    const Status written = write_file(options.svg, node_map_svg(map.value()));
    if (!written.is_ok()) {
      print_message(written.message());
      return kExitFailure;
    }
    if (!options.json) return 0;
  }
  const std::string text = options.json ? node_map_json(map.value()) : node_map_text(map.value());
  return print_answer(text);
}

}  // namespace hvd
