// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../golden.h"
#include "launcher/console/shell_word.h"
#include "launcher/job/job_plan.h"
#include "launcher/job/salloc.h"
#include "launcher/job/template.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

Result<JobPlan> plan(const std::string& site, JobOptions options) {
  options.action = JobAction::kScript;
  HVD_TRY_ASSIGN(const SiteConfig config, find_site(site, Environment()));
  return plan_job(config, options);
}

Result<std::string> script(const std::string& site, const JobOptions& options,
                           const TemplateFiles& templates = {}) {
  HVD_TRY_ASSIGN(const JobPlan planned, plan(site, options));
  return render_script(planned, templates);
}

const std::vector<std::string> kTrainCommand{"python3", "train.py"};

struct ShapeCase {
  std::string file;
  std::string site;
  JobOptions options;
};

std::vector<ShapeCase> shape_cases() {
  return {
      {"script-gpu", "jean-zay", {.gpus = 6, .command = kTrainCommand}},
      {"script-gpu-exclusive",
       "jean-zay",
       {.nodes = 4,
        .gpus_per_node = 3,
        .switches = "1@02:00:00",
        .exclusive = true,
        .command = kTrainCommand}},
      {"script-cpu",
       "generic",
       {.nodes = 2, .ntasks_per_node = 8, .mem = "64G", .command = kTrainCommand}},
      {"script-array", "jean-zay", {.gpus = 4, .array = "0-9%2", .command = kTrainCommand}},
      {"script-requeue",
       "jean-zay",
       {.partition = "h100",
        .gpus = 8,
        .requeue = true,
        .modules = {"pytorch-gpu/py3/2.3"},
        .command = kTrainCommand}},
      {"script-container",
       "jean-zay",
       {.partition = "a100", .gpus = 8, .container = "my image.sif", .command = kTrainCommand}},
      {"script-lumi",
       "lumi",
       {.gpus = 12, .account = "project_462000001", .command = kTrainCommand}},
      {"script-lumi-shared",
       "lumi",
       {.partition = "small-g",
        .gpus = 2,
        .account = "project_462000001",
        .command = kTrainCommand}},
      {"script-perlmutter",
       "perlmutter",
       {.gpus = 8, .time = "01:00:00", .container = "me/train:1", .command = kTrainCommand}},
      {"script-alps-daint",
       "alps-daint",
       {.nodes = 2, .container = "a.toml", .command = kTrainCommand}},
      {"script-tacc-vista", "tacc-vista", {.gpus = 4, .requeue = true, .command = kTrainCommand}},
      {"script-requeue-array-container",
       "jean-zay",
       {.gpus = 2,
        .array = "1,3",
        .signal = "B:USR1@300",
        .requeue = true,
        .container = "a.sif",
        .command = kTrainCommand}},
  };
}

TEST(Script, OfEachShapeMatchesItsGoldenFile) {
  for (const ShapeCase& shape : shape_cases()) {
    const Result<std::string> text = script(shape.site, shape.options);
    ASSERT_TRUE(text.is_ok()) << shape.file << ": " << text.status().message();
    expect_golden(HVD_GOLDEN_DIR "/" + shape.file + ".golden", text.value());
  }
}

TEST(Script, AsksForThePartOfTheMemoryThatItsGpusHave) {
  const auto mem = [](const JobOptions& options) {
    const std::string text = script("lumi", options).value();
    const std::size_t at = text.find("--mem=");
    return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_EQ(mem({.partition = "small-g", .gpus = 2, .command = kTrainCommand}), "--mem=120G");
  EXPECT_EQ(mem({.partition = "small-g", .gpus = 2, .exclusive = true, .command = kTrainCommand}),
            "--mem=480G");
  EXPECT_EQ(mem({.partition = "small-g", .gpus = 2, .mem = "7G", .command = kTrainCommand}),
            "--mem=7G");
  EXPECT_EQ(mem({.partition = "standard-g", .gpus = 8, .command = kTrainCommand}), "");
}

TEST(Script, WantsTheSignalOfARequeueInTheBatchShell) {
  const Result<std::string> text = script(
      "jean-zay", {.gpus = 4, .signal = "USR1@60", .requeue = true, .command = kTrainCommand});
  EXPECT_EQ(text.status().message(),
            "--requeue waits for the signal in the batch shell: type --signal B:USR1@60");
}

TEST(Script, TakesTheSignalsOfSbatchAlone) {
  const auto header_with = [](const std::string& signal) {
    const auto planned = plan("jean-zay", {.gpus = 4, .signal = signal, .command = kTrainCommand});
    if (!planned.is_ok()) return planned.status().message();
    for (const JobDirective& line : planned.value().directives) {
      if (line.option == "signal") return line.value;
    }
    return std::string();
  };
  for (const char* good : {"USR2", "B:SIGTERM@120", "RB:USR1", "R:12@60", "64"}) {
    EXPECT_EQ(header_with(good), good);
  }
  EXPECT_EQ(header_with("b:usr1@30"), "B:USR1@30");
  for (const std::string bad :
       {"XX", "SIGFOO", "PROF", "0", "65", "USR2@", "USR2@123456", "BB:INT"}) {
    EXPECT_EQ(header_with(bad), "--signal '" + bad +
                                    "' is not what sbatch takes: type for example "
                                    "USR2@120 or B:USR2@120");
  }
  const JobOptions requeue{
      .gpus = 4, .signal = "B:SIGUSR1", .requeue = true, .command = kTrainCommand};
  EXPECT_EQ(plan("jean-zay", requeue).value().signal, "USR1");
}

TEST(Script, LoadsTheModuleOfMpiBehindTheSites) {
  SiteConfig site = find_site("generic", Environment()).value();
  site.modules = {"arch/a100"};
  site.mpi_module = "openmpi/4.1";
  const JobOptions options{.nodes = 2, .modules = {"python"}, .command = kTrainCommand};
  EXPECT_EQ(plan_job(site, options).value().modules,
            (std::vector<std::string>{"arch/a100", "openmpi/4.1", "python"}));
}

TEST(Script, IsRefusedWhereAnotherProgramStartsTasks) {
  SiteConfig site = find_site("generic", Environment()).value();
  site.scheduler.launcher = "pals";
  EXPECT_EQ(plan_job(site, {.nodes = 2, .command = kTrainCommand}).status().message(),
            "site generic starts tasks with pals, and hvdrun writes lines for srun and ibrun "
            "alone: start hvdrun in a job script of your own");
}

TEST(Script, SaysWhatOfTheContainerIsAssumed) {
  const auto planned = plan("lumi", {.nodes = 1, .container = "a.sif", .command = kTrainCommand});
  EXPECT_EQ(planned.value().step_notes,
            std::vector<std::string>{"The site file assumes container/runtime: verify it."});
  const auto without = plan("lumi", {.nodes = 1, .command = kTrainCommand});
  EXPECT_TRUE(without.value().step_notes.empty());
}

struct ContainerCase {
  ContainerRequest request;
  std::string flags;
  std::string before;
};

TEST(Container, IsEnteredAsTheSiteDoes) {
  const std::vector<ContainerCase> cases{
      {{"a.sif", "", {}, "A100"}, "", "apptainer exec --nv a.sif"},
      {{"a.sif", "singularity", {}, "MI250X"}, "", "singularity exec --rocm a.sif"},
      {{"a.sif", "apptainer", {"--nv", "--bind=/x"}, "A100"},
       "",
       "apptainer exec --nv --bind=/x a.sif"},
      {{"a.sif", "apptainer", {}, ""}, "", "apptainer exec a.sif"},
      {{"me/a:1", "pyxis", {"--container-mount-home"}, "A100"},
       "--container-image=me/a:1 --container-mount-home",
       ""},
      {{"a.toml", "container-engine", {}, "GH200"}, "--environment=a.toml", ""},
      {{"me/a:1", "shifter", {"--module=gpu"}, "A100"}, "", "shifter --image=me/a:1 --module=gpu"},
      {{"me/a:1", "sarus", {"--mpi"}, "P100"}, "", "sarus run --mpi me/a:1"},
      {{"", "pyxis", {"--x"}, "A100"}, "", ""},
      {{"nvcr.io#nvidia/a:1", "", {}, "A100"}, "'--container-image=nvcr.io#nvidia/a:1'", ""},
      {{"nvcr.io#nvidia/a:1", "apptainer", {}, ""},
       "",
       "apptainer exec docker://nvcr.io/nvidia/a:1"},
      {{"/data/a#1.sif", "", {}, ""}, "", "apptainer exec '/data/a#1.sif'"},
      {{"docker://nvcr.io/nvidia/a:1", "pyxis", {}, ""},
       "'--container-image=nvcr.io#nvidia/a:1'",
       ""},
      {{"docker://me/a:1", "pyxis", {}, ""}, "--container-image=me/a:1", ""},
  };
  for (const ContainerCase& wanted : cases) {
    const ContainerPlan container = plan_container(wanted.request);
    EXPECT_EQ(shell_line(container.srun_flags), wanted.flags);
    EXPECT_EQ(shell_line(container.before_program), wanted.before);
  }
}

std::string salloc(const JobOptions& options) {
  const Result<JobPlan> planned = plan("jean-zay", options);
  if (!planned.is_ok()) return planned.status().message();
  const auto words = plan_salloc(planned.value(), options);
  return words.is_ok() ? shell_line(words.value()) : words.status().message();
}

TEST(Salloc, AsksForWhatTheHeaderAsksFor) {
  EXPECT_EQ(salloc({.gpus = 8, .account = "xyz", .exclusive = true}),
            "salloc --account=xyz@v100 --nodes=2 --ntasks-per-node=4 --gres=gpu:4 "
            "--cpus-per-task=10 --exclusive --hint=nomultithread --time=01:00:00");
  EXPECT_EQ(salloc({.gpus = 1, .command = {"bash", "-c", "a b"}}),
            "salloc --job-name=bash --nodes=1 --ntasks-per-node=1 --gres=gpu:1 --cpus-per-task=10 "
            "--hint=nomultithread --time=01:00:00 hvdrun bash -c 'a b'");
  EXPECT_EQ(salloc({.gpus = 1, .array = "0-1"}),
            "an interactive allocation has no --array: leave it out");
}

/// A folder of templates that goes with the test.
class Templates : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("hvd-templates-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_ / "config/hvdrun/templates");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  Result<std::string> render(const std::string& typed) const {
    const Environment environment({{"XDG_CONFIG_HOME", (folder_ / "config").string()}});
    HVD_TRY_ASSIGN(const TemplateFiles templates, read_templates(typed, environment));
    return script("jean-zay", {.gpus = 4, .name = "j", .command = {"a b"}}, templates);
  }
  std::filesystem::path folder_;
};

TEST_F(Templates, OfTheTypedFolderComeBeforeTheUsersAndHvdruns) {
  write("config/hvdrun/templates/gpu.mustache", "user\n");
  EXPECT_EQ(render("").value(), "user\n");
  write("gpu.mustache", "{{{header}}}typed\n{{{run}}}\n");
  const std::string text = render(folder_.string()).value();
  EXPECT_TRUE(text.starts_with("#!/bin/bash\n")) << text;
  EXPECT_TRUE(text.find("\ntyped\n") != std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("hvdrun 'a b'\n")) << text;
}

TEST_F(Templates, AFolderWithoutOneIsRefused) {
  EXPECT_TRUE(render(folder_.string())
                  .status()
                  .message()
                  .find("holds no template: type a folder with one or more of array.mustache") !=
              std::string::npos);
  EXPECT_TRUE(render("/no/such").status().message().find("is not a folder") != std::string::npos);
}

TEST_F(Templates, ASyntaxErrorNamesTheFile) {
  write("gpu.mustache", "{{#x}}\n");
  const std::string message = render(folder_.string()).status().message();
  EXPECT_TRUE(message.starts_with("template " + (folder_ / "gpu.mustache").string() + ": "))
      << message;
}

}  // namespace
}  // namespace hvd
