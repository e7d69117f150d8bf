// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/format.h"
#include "base/rounding.h"
#include "launcher/node/node_map.h"

namespace hvd {
namespace {

constexpr int kCell = 24;    // a core with its gap
constexpr int kMargin = 12;  // inside and between boxes
constexpr int kTitle = 26;   // first line of a box
constexpr int kDeviceHeight = 40;
constexpr int kDeviceWidth = 148;
constexpr int kNumasInARow = 4;
constexpr int kLine = 22;

constexpr std::array<std::string_view, 10> kColours{"#4477aa", "#ee6677", "#228833", "#ccbb44",
                                                    "#66ccee", "#aa3377", "#ee8866", "#44bb99",
                                                    "#9970ab", "#777777"};

std::string_view colour(int rank) {
  return kColours[static_cast<std::size_t>(rank) % kColours.size()];
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&') {
      safe += "&amp;";
    } else if (c == '<') {
      safe += "&lt;";
    } else if (c == '"') {
      safe += "&quot;";
    } else {
      safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return safe;
}

/// As much of the text as fits; a letter is a bit more than half as wide as the font is high.
std::string fitted(std::string_view text, int width, int font) {
  const auto most = static_cast<std::size_t>(std::max(3.0, width / (font * 0.56)));
  if (text.size() <= most) return std::string(text);
  return std::string(text.substr(0, most - 1)) + "…";
}

struct Box {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
};

/// Draws shapes into a text.
class Canvas {
 public:
  void rectangle(const Box& box, std::string_view style, int radius) {
    body_ += format_text(R"(<rect x="{}" y="{}" width="{}" height="{}" rx="{}" {}/>)", box.x, box.y,
                         box.width, box.height, radius, style);
    body_ += '\n';
  }
  void text(int x, int y, std::string_view what, std::string_view style) {
    body_ += format_text(R"(<text x="{}" y="{}" {}>{}</text>)", x, y, style, escaped(what));
    body_ += '\n';
  }
  std::string finish(int width, int height) const {
    return format_text(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
        "{1}\" font-family=\"Helvetica, Arial, sans-serif\" fill=\"#222222\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n{2}</svg>\n",
        width, height, body_);
  }

 private:
  std::string body_;
};

/// The second line of a NIC's box.
std::string nic_detail(const NodeNic& nic) {
  std::string text = nic.device.empty() || nic.name.empty() ? "NIC" : "NIC " + nic.device;
  if (nic.gigabits > 0) text += format_text(" · {} Gb/s", nic.gigabits);
  return nic.is_up ? text : text + " · down";
}

/// Lays the node out: packages below each other, their NUMA nodes in rows, devices below cores.
class NodeDrawing {
 public:
  explicit NodeDrawing(const NodeMap& map) : map_(map) {}

  std::string draw();

 private:
  struct Device {
    std::string name;
    std::string detail;
    std::vector<int> ranks;
  };

  std::vector<std::size_t> cores_of(int package, int numa) const;
  std::vector<Device> devices_at(int numa) const;
  void measure();
  int numa_height(int package, int numa) const;
  int rows_of(std::size_t devices) const;
  void draw_package(int package);
  void draw_numa(int package, const NodeNuma& numa, Box box);
  void draw_core(std::size_t core, int x, int y);
  void draw_devices(const std::vector<Device>& devices, int x, int y);
  void draw_legend();

  const NodeMap& map_;
  Canvas canvas_;
  std::size_t columns_ = 1;  ///< Cores beside each other.
  int numa_width_ = 0;
  int in_a_row_ = 1;  ///< NUMA nodes beside each other.
  int y_ = kMargin;
};

std::vector<std::size_t> NodeDrawing::cores_of(int package, int numa) const {
  std::vector<std::size_t> cores;
  for (std::size_t i = 0; i < map_.node.cores.size(); ++i) {
    const NodeCore& core = map_.node.cores[i];
    if (core.package == package && core.numa == numa) cores.push_back(i);
  }
  return cores;
}

std::vector<NodeDrawing::Device> NodeDrawing::devices_at(int numa) const {
  std::vector<Device> devices;
  for (std::size_t i = 0; i < map_.node.gpus.size(); ++i) {
    const NodeGpu& gpu = map_.node.gpus[i];
    if (drawn_numa(map_.node, gpu.numa) != numa) continue;
    Device device{format_text("GPU {}", i), gpu.model.empty() ? gpu.bus_id : gpu.model, {}};
    for (std::size_t rank = 0; rank < map_.matching.ranks.size(); ++rank) {
      if (map_.matching.ranks[rank].gpu == gpu.index)
        device.ranks.push_back(static_cast<int>(rank));
    }
    devices.push_back(std::move(device));
  }
  for (std::size_t i = 0; i < map_.node.nics.size(); ++i) {
    const NodeNic& nic = map_.node.nics[i];
    if (drawn_numa(map_.node, nic.numa) != numa) continue;
    Device device{nic.name.empty() ? nic.device : nic.name, nic_detail(nic), {}};
    for (std::size_t rank = 0; rank < map_.matching.ranks.size(); ++rank) {
      if (map_.matching.ranks[rank].nic == static_cast<int>(i)) {
        device.ranks.push_back(static_cast<int>(rank));
      }
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

/// A number of columns that fills its rows and looks like a box about twice as wide as high.
std::size_t columns_for(std::size_t cores) {
  std::size_t best = cores;
  const double wanted = std::sqrt(4.0 * static_cast<double>(cores));
  for (std::size_t columns = 1; columns <= cores; ++columns) {
    if (cores % columns != 0) continue;
    if (std::abs(static_cast<double>(columns) - wanted) <
        std::abs(static_cast<double>(best) - wanted)) {
      best = columns;
    }
  }
  return best > 2 * static_cast<std::size_t>(wanted) + 2 ? static_cast<std::size_t>(wanted) : best;
}

void NodeDrawing::measure() {
  std::size_t most_cores = 1;
  std::size_t most_devices = 0;
  std::set<int> packages;
  for (const NodeCore& core : map_.node.cores) packages.insert(core.package);
  int most_numas = 1;
  for (const int package : packages) {
    int numas = 0;
    for (const NodeNuma& numa : map_.node.numas) {
      const std::size_t count = cores_of(package, numa.id).size();
      most_cores = std::max(most_cores, count);
      if (count > 0) ++numas;
      most_devices = std::max(most_devices, devices_at(numa.id).size());
    }
    most_numas = std::max(most_numas, numas);
  }
  columns_ = columns_for(most_cores);
  const int for_devices = most_devices > 1 ? 2 * kDeviceWidth + 6 : kDeviceWidth;
  numa_width_ = std::max(static_cast<int>(columns_) * kCell - 4, for_devices) + 2 * kMargin;
  in_a_row_ = std::min(most_numas, kNumasInARow);
}

int NodeDrawing::rows_of(std::size_t devices) const {
  const int beside = std::max(1, (numa_width_ - 2 * kMargin + 6) / (kDeviceWidth + 6));
  return divide_up(static_cast<int>(devices), beside);
}

int NodeDrawing::numa_height(int package, int numa) const {
  const std::size_t rows = divide_up(cores_of(package, numa).size(), columns_);
  const int devices = rows_of(devices_at(numa).size());
  return kTitle + static_cast<int>(rows) * kCell + devices * (kDeviceHeight + 6) + kMargin / 2 + 4;
}

void NodeDrawing::draw_core(std::size_t core, int x, int y) {
  const int rank = map_.rank_of_core[core];
  const int cpu = map_.node.cores[core].cpus.front();
  const bool outside =
      !map_.mask.empty() && !std::binary_search(map_.mask.begin(), map_.mask.end(), cpu);
  std::string style = R"(fill="#e6e6e6")";
  if (rank >= 0) style = format_text(R"(fill="{}")", colour(rank));
  if (rank < 0 && outside) {
    style = R"(fill="none" stroke="#bbbbbb" stroke-dasharray="2 2")";
  }
  canvas_.rectangle({x, y, kCell - 4, kCell - 4}, style, 3);
  canvas_.text(x + (kCell - 4) / 2, y + 14, std::to_string(cpu),
               format_text(R"(font-size="9" text-anchor="middle" fill="{}")",
                           rank >= 0 ? "#ffffff" : "#666666"));
}

void NodeDrawing::draw_devices(const std::vector<Device>& devices, int x, int y) {
  const int inner = numa_width_ - 2 * kMargin;
  const int beside = std::max(1, (inner + 6) / (kDeviceWidth + 6));
  const int width = (inner - (beside - 1) * 6) / beside;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const Device& device = devices[i];
    const int column = static_cast<int>(i) % beside;
    const Box box{x + column * (width + 6), y + static_cast<int>(i) / beside * (kDeviceHeight + 6),
                  width, kDeviceHeight};
    std::string style = R"(fill="#ffffff" stroke="#999999")";
    if (!device.ranks.empty()) {
      style = format_text(R"(fill="{0}" fill-opacity="0.15" stroke="{0}" stroke-width="1.5")",
                          device.ranks.size() == 1 ? colour(device.ranks.front()) : "#555555");
    }
    canvas_.rectangle(box, style, 4);
    canvas_.text(box.x + 8, box.y + 17, device.name, R"(font-size="12" font-weight="bold")");
    if (!device.ranks.empty()) {
      canvas_.text(box.x + width - 8, box.y + 17,
                   format_text("rank{} {}", device.ranks.size() == 1 ? "" : "s",
                               format_cpu_set(device.ranks)),
                   R"(font-size="11" text-anchor="end")");
    }
    canvas_.text(box.x + 8, box.y + 32, fitted(device.detail, width - 16, 10),
                 R"(font-size="10" fill="#555555")");
  }
}

void NodeDrawing::draw_numa(int package, const NodeNuma& numa, Box box) {
  canvas_.rectangle(box, R"(fill="#ffffff" stroke="#cccccc")", 6);
  const std::string memory = memory_text(numa.memory_bytes);
  canvas_.text(box.x + kMargin, box.y + 17,
               format_text("NUMA node {}{}{}", numa.id, memory.empty() ? "" : " · ", memory),
               R"(font-size="12")");
  const std::vector<std::size_t> cores = cores_of(package, numa.id);
  for (std::size_t i = 0; i < cores.size(); ++i) {
    draw_core(cores[i], box.x + kMargin + static_cast<int>(i % columns_) * kCell,
              box.y + kTitle + static_cast<int>(i / columns_) * kCell);
  }
  const std::size_t rows = divide_up(cores.size(), columns_);
  draw_devices(devices_at(numa.id), box.x + kMargin,
               box.y + kTitle + static_cast<int>(rows) * kCell + 4);
}

void NodeDrawing::draw_package(int package) {
  std::vector<const NodeNuma*> numas;
  int tallest = 0;
  for (const NodeNuma& numa : map_.node.numas) {
    if (cores_of(package, numa.id).empty()) continue;
    numas.push_back(&numa);
    tallest = std::max(tallest, numa_height(package, numa.id));
  }
  const int count = static_cast<int>(numas.size());
  const int rows = divide_up(count, in_a_row_);
  const Box box{kMargin, y_, in_a_row_ * (numa_width_ + kMargin) + kMargin,
                kTitle + rows * (tallest + kMargin)};
  canvas_.rectangle(box, R"(fill="#f4f6f8" stroke="#aab4be")", 8);
  canvas_.text(box.x + kMargin, box.y + 18, format_text("package {}", package),
               R"(font-size="13" font-weight="bold")");
  for (int i = 0; i < count; ++i) {
    const int x = box.x + kMargin + i % in_a_row_ * (numa_width_ + kMargin);
    const int y = box.y + kTitle + i / in_a_row_ * (tallest + kMargin);
    draw_numa(package, *numas[static_cast<std::size_t>(i)], {x, y, numa_width_, tallest});
  }
  y_ += box.height + kMargin;
}

void NodeDrawing::draw_legend() {
  const std::vector<Device> elsewhere = devices_at(-1);
  if (!elsewhere.empty()) {
    canvas_.text(2 * kMargin, y_ + 10, "near no NUMA node, as the firmware says",
                 R"(font-size="12")");
    draw_devices(elsewhere, 2 * kMargin, y_ + 18);
    y_ += 18 + rows_of(elsewhere.size()) * (kDeviceHeight + 6) + kMargin;
  }
  for (std::size_t rank = 0; rank < map_.matching.ranks.size(); ++rank) {
    const MatchedRank& each = map_.matching.ranks[rank];
    std::string text = format_text("rank {}", rank);
    if (each.gpu >= 0) text += format_text(" · GPU {}", each.gpu);
    if (each.nic >= 0) {
      const NodeNic& nic = map_.node.nics[static_cast<std::size_t>(each.nic)];
      text += format_text(" · {}", nic.device.empty() ? nic.name : nic.device);
    }
    text += format_text(" · CPUs {}", each.cpus.empty() ? "all" : format_cpu_set(each.cpus));
    canvas_.rectangle({2 * kMargin, y_, 14, 14},
                      format_text(R"(fill="{}")", colour(static_cast<int>(rank))), 3);
    canvas_.text(2 * kMargin + 22, y_ + 12, text, R"(font-size="12")");
    y_ += kLine;
  }
}

std::string NodeDrawing::draw() {
  measure();
  constexpr int kNarrowest = 440;  // The lines below and above the boxes need it.
  const int width = std::max(kNarrowest, in_a_row_ * (numa_width_ + kMargin) + 3 * kMargin);
  canvas_.text(kMargin, y_ + 12, fitted(map_.node.origin, width - 2 * kMargin, 15),
               R"(font-size="15" font-weight="bold")");
  canvas_.text(kMargin, y_ + 32,
               fitted(format_text("{} ({})", fabric_name(map_.fabric.kind), map_.fabric.evidence),
                      width - 2 * kMargin, 11),
               R"(font-size="11" fill="#555555")");
  y_ += 46;
  std::set<int> done;
  for (const NodeCore& core : map_.node.cores) {
    if (done.insert(core.package).second) draw_package(core.package);
  }
  draw_legend();
  return canvas_.finish(width, y_ + kMargin);
}

}  // namespace

std::string node_map_svg(const NodeMap& map) { return NodeDrawing(map).draw(); }

}  // namespace hvd
