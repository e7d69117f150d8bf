// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "base/text_file.h"
#include "world/world.h"

namespace hvd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

/// The value behind `key` in a line of a trace, up to a comma or bracket; without its quotes.
std::string value_of(const std::string& line, const std::string& key) {
  const auto at = line.find("\"" + key + "\":");
  if (at == std::string::npos) return "";
  const auto begin = at + key.size() + 3;
  if (line[begin] == '"') return line.substr(begin + 1, line.find('"', begin + 1) - begin - 1);
  return line.substr(begin, line.find_first_of(",}", begin) - begin);
}

/// Of each row, by its title: what begins ("+name") and ends ("-") there.
std::map<std::string, std::vector<std::string>> rows_of(const std::string& text) {
  std::map<std::string, std::string> titles;
  std::map<std::string, std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string row = value_of(line, "tid");
    const std::string kind = value_of(line, "ph");
    if (value_of(line, "name") == "thread_name") {
      titles[row] = value_of(line.substr(line.find("args")), "name");
    } else if (kind == "B" || kind == "X") {
      rows[titles[row]].push_back((kind == "B" ? "+" : "") + value_of(line, "name"));
    } else if (kind == "E") {
      rows[titles[row]].push_back("-" + value_of(line, "outcome"));
    }
  }
  return rows;
}

class TimelineWorld : public testing::Test {
 protected:
  TimelineWorld() {
    std::string name = (std::filesystem::temp_directory_path() / "hvd_timeline_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~TimelineWorld() override { std::filesystem::remove_all(folder_); }
  std::string path(std::string_view name) const { return (folder_ / name).string(); }
  std::string text(std::string_view name) const { return read_text_file(path(name)).value_or(""); }

  std::filesystem::path folder_;
};

TEST_F(TimelineWorld, HasThePhasesOfEachNameInOrderOnEachRank) {
  EngineOptions options = World::quick_options();
  options.timeline = {path("rank-{rank}.json"), true};
  {
    World world({1, 1}, options);
    world.run([](int, Engine& engine) {
      for (const char* name : {"a", "b", "a"}) {
        std::vector<float> values(1000, 1.0F);
        EXPECT_TRUE(run_request(engine, allreduce_request(name, values)).is_ok());
      }
      Request barrier;
      barrier.operation = Barrier{};
      EXPECT_TRUE(run_request(engine, std::move(barrier)).is_ok());
      EXPECT_TRUE(engine.shutdown(soon()).is_ok());
    });
  }
  const std::vector<std::string> once{"+a", "+NEGOTIATE_ALLREDUCE", "-", "+QUEUE",
                                      "-",  "+ALLREDUCE",           "-", "-ok"};
  std::vector<std::string> twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  for (const char* name : {"rank-0.json", "rank-1.json"}) {
    const std::string written = text(name);
    auto rows = rows_of(written);
    EXPECT_EQ(rows["a"], twice) << written;
    EXPECT_THAT(rows["b"], SizeIs(once.size()));
    EXPECT_THAT(rows["barrier without a name"],
                ElementsAre("+barrier.noname.0", "+NEGOTIATE_BARRIER", "-", "+QUEUE", "-", "-ok"));
    EXPECT_THAT(written, HasSubstr("\"batch 4\""));
    EXPECT_THAT(written, HasSubstr("\"requests\":4,\"left_out\":0"));
  }
}

TEST_F(TimelineWorld, ShowsWhatFailsAndWhatIsLeft) {
  World world({2});
  ASSERT_TRUE(world.engine(0).start_timeline({path("t"), false}).is_ok());
  ASSERT_TRUE(world.engine(1).start_timeline({path("t"), false}).is_ok());
  world.run([](int rank, Engine& engine) {
    std::vector<float> values(rank == 0 ? 4 : 5, 1.0F);
    const Status status = run_request(engine, allreduce_request("differs", values));
    EXPECT_EQ(status.code(), Code::kMismatch);
  });
  std::vector<float> values(4, 1.0F);
  EXPECT_TRUE(world.engine(0).submit(allreduce_request("alone", values)).is_ok());
  ASSERT_TRUE(world.engine(0).stop_timeline().is_ok());
  ASSERT_TRUE(world.engine(1).stop_timeline().is_ok());
  auto rows = rows_of(text("t"));
  EXPECT_THAT(rows["differs"], ElementsAre("+differs", "+NEGOTIATE_ALLREDUCE", "-", "-mismatch"));
  EXPECT_THAT(rows["alone"], ElementsAre("+alone", "+NEGOTIATE_ALLREDUCE", "-", "-in flight"));
}

TEST_F(TimelineWorld, CannotBeStartedWithoutItsFile) {
  World world({1});
  const Status status = world.engine(0).start_timeline({path("no/folder"), false});
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_THAT(status.message(), HasSubstr("no/folder"));
}

}  // namespace
}  // namespace hvd
