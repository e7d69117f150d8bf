// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/sbatch_file.h"

#include <gtest/gtest.h>

#include "launcher/lint/job_request.h"
#include "launcher/lint/shell_words.h"

namespace hvd {
namespace {

std::string directives_of(const std::string& text) {
  std::string list;
  for (const Directive& one : parse_sbatch_file(text).directives) {
    list += one.option + (one.is_known ? "" : "?") + (one.value ? "=" + *one.value : "") + ";";
  }
  return list;
}

TEST(SbatchFile, ReadsDirectivesAsSbatchDoes) {
  const std::pair<const char*, const char*> cases[] = {
      {"#SBATCH --nodes=2\n", "nodes=2;"},
      {"#SBATCH --nodes 2\n", "nodes=2;"},
      {"#SBATCH -N 2\n", "nodes=2;"},
      {"#SBATCH -N2 -n 8\n", "nodes=2;ntasks=8;"},
      {"#SBATCH\t--time=1:00:00\t# an hour\n", "time=1:00:00;"},
      {"#SBATCH --job-name='a b' -o \"x y.out\"\n", "job-name=a b;output=x y.out;"},
      {"#SBATCH --comment=a\\b\n", "comment=ab;"},
      {"#SBATCH --comment=\"a\\\"b\"\n", "comment=a\"b;"},
      {"#SBATCH --comment=a\\#b -N 2\n", "comment=a#b;nodes=2;"},
      {"#SBATCH --comment=a#b -N 2\n", "comment=a;"},
      {"#SBATCH --exclusive\n", "exclusive;"},
      {"#SBATCH --exclusive=user\n", "exclusive=user;"},
      {"#SBATCH --cpus-per-t=4\n", "cpus-per-task=4;"},
      {"#SBATCH --gpus-per=4\n", "gpus-per?=4;"},
      {"#SBATCH --container-image=x\n", "container-image?=x;"},
      {"#SBATCH --container-image x -N 2\n", "container-image?=x;nodes=2;"},
      {"#SBATCH --container-writable --nodes=2\n", "container-writable?;nodes=2;"},
      {"#SBATCH --container-writable\n", "container-writable?;"},
      {"#SBATCH --time=1\r\n", "time=1;"},
      {"#SBATCHX --time=1\n", ""},
      {"#!/bin/bash\n\n# a comment\n#SBATCH -N 2\n", "nodes=2;"},
      {"#!/bin/bash\necho\n#SBATCH -N 2\n", ""},
      {" #SBATCH -N 2\n", ""},
      {"##SBATCH -N 2\n", ""},
      {"#SBATCH -N 2", "nodes=2;"},
      {"", ""},
  };
  for (const auto& [text, list] : cases) EXPECT_EQ(directives_of(text), list) << text;
}

TEST(SbatchFile, SaysWhatIsNotRead) {
  const std::pair<const char*, const char*> cases[] = {
      {"echo\n#SBATCH -N 2\n", "unread-directive"},
      {" #SBATCH -N 2\n", "unread-directive"},
      {"#sbatch -N 2\n", "unread-directive"},
      {"# SBATCH -N 2\n", ""},
      {"##SBATCH -N 2\n", ""},
      {"# sbatch this file\n", ""},
      {"# SBATCH lines follow\n", ""},
      {"#SBATCH --time\n", "bad-directive"},
      {"#SBATCH nodes=2\n", "bad-directive"},
      {"#SBATCH --ntask=2\n", "bad-directive"},  // begins five options
      {"#SBATCH --output=$HOME/x\n", "bad-directive"},
      {"#SBATCH --output=%j.out\n", ""},
      {"#SBATCH --comment=\"a b\n", "bad-directive"},
      {"#SBATCH --comment=a\\ b\n", "bad-directive"},
  };
  for (const auto& [text, rule] : cases) {
    const SbatchFile file = parse_sbatch_file(text);
    const std::string found = file.broken.empty() ? "" : file.broken.front().rule;
    EXPECT_EQ(found, rule) << text;
  }
}

TEST(SbatchFile, RangesCoverWhatTheyName) {
  const std::string text = "#!/bin/bash\n#SBATCH -N 2 --time='1:00' # x\nexport A=1 B=\"2 3\"\n";
  const SbatchFile file = parse_sbatch_file(text);
  const auto part = [&](TextRange at) { return text.substr(at.begin, at.end - at.begin); };
  ASSERT_EQ(file.directives.size(), 2U);
  EXPECT_EQ(part(file.directives[0].at), "-N 2");
  EXPECT_EQ(part(file.directives[0].value_at), "2");
  EXPECT_EQ(part(file.directives[1].value_at), "'1:00'");
  ASSERT_EQ(file.variables.size(), 2U);
  EXPECT_EQ(part(*file.variables[0].name_at), "A");
  EXPECT_EQ(part(*file.variables[1].value_at), "\"2 3\"");
  EXPECT_EQ(file.variables[1].value, "2 3");
  EXPECT_EQ(file.variables[1].line, 3);
  EXPECT_EQ(part(*file.variables[0].whole_at), "A=1 ");
}

std::string body_of(const std::string& text) {
  const SbatchFile file = parse_sbatch_file(text);
  std::string list;
  for (const SetVariable& one : file.variables) {
    list += one.name + "=" + one.value.value_or("?") + ";";
  }
  for (const ModuleLine& line : file.modules) {
    for (const std::string& name : line.names) list += "module " + name + ";";
  }
  for (const LaunchLine& launch : file.launches) list += launch.program + ";";
  return list;
}

TEST(SbatchFile, ReadsTheBodyAsAShellDoes) {
  const std::pair<const char*, const char*> cases[] = {
      {"export A=1\n", "A=1;"},
      {"A=1\nexport A\n", "A=1;"},
      {"export A=$B C=`d` E=\"$(f 'g h')\" I=j\n", "A=?;C=?;E=?;I=j;"},
      {"export A='$B' # C=1\n", "A=$B;"},
      {"# export A=1\n", ""},
      {"echo 'export A=1'\n", ""},
      {"cat <<EOF\nexport A=1\nEOF\nexport B=2\n", "B=2;"},
      {"cat <<-'EOF'\nexport A=1\n\tEOF\nexport B=2\n", "B=2;"},
      {"if x; then export A=1; else export A=2; fi\n", "A=1;A=2;"},
      {"for i in a b; do\n  A=1 srun x\ndone\n", "A=1;srun;"},
      {"export A=1 \\\n  B=2\n", "A=1;B=2;"},
      {"declare -x A=1\nenv B=2 srun x\n", "A=1;B=2;"},
      {"setenv A 1\n", "A=1;"},
      {"module purge\nmodule load a b/1.0\nml c\nmodule list\n", "module a;module b/1.0;module c;"},
      {"time srun -n 2 x > out 2>&1 &\nwait\n", "srun;"},
      {"exec /usr/bin/srun x\n", "srun;"},
      {"srun --export=ALL,A=1,B=$C x\n", "A=?;B=?;srun;"},
      {"srun --export=NONE,A=1 x --export=B=2\n", "A=1;B=2;srun;"},
      {"mpirun -x A=1 -x B x\n", "A=1;mpirun;"},
      {"x=(1 2 3)\nexport A=1\n", "x=;A=1;"},
      {"a() {\n  export A=1\n}\n", "A=1;"},
      {"export A=\"un\nfinished", "A=un\nfinished;"},
  };
  for (const auto& [text, list] : cases) EXPECT_EQ(body_of(text), list) << text;
}

TEST(SbatchFile, TakesOutOnlyWhatLeavesAWholeCommand) {
  const std::pair<const char*, const char*> cases[] = {
      {"export A=1\n", "export A=1\n"},
      {"  export A=1\n", "  export A=1\n"},
      {"export A=1 # why\n", ""},
      {"declare -x A=1\n", "declare -x A=1\n"},
      {"export B A=1\n", " A=1"},
      {"cd x; export A=1\n", ""},
      {"if x; then\n  export A=1\nfi\n", ""},
      {"A=1 srun x\n", "A=1 "},
  };
  for (const auto& [text, gone] : cases) {
    const SbatchFile file = parse_sbatch_file(text);
    ASSERT_EQ(file.variables.size(), 1U) << text;
    const auto& at = file.variables[0].whole_at;
    EXPECT_EQ(at ? file.text.substr(at->begin, at->end - at->begin) : "", gone) << text;
  }
}

TEST(SbatchFile, FindsOptionsOfALaunchUpToItsProgram) {
  const SbatchFile file =
      parse_sbatch_file("srun --exclusive -n 4 -c8 --network=a,b python -w x --mem=1\n");
  ASSERT_EQ(file.launches.size(), 1U);
  EXPECT_EQ(launch_option(file.launches[0], "--cpus-per-task", 'c'), "8");
  EXPECT_EQ(launch_option(file.launches[0], "--ntasks", 'n'), "4");
  EXPECT_EQ(launch_option(file.launches[0], "--network", 0), "a,b");
  EXPECT_FALSE(launch_option(file.launches[0], "--nodelist", 'w'));
  EXPECT_FALSE(launch_option(file.launches[0], "--mem", 0));
}

TEST(SbatchFile, TakesNoArgumentOfTheProgramForAnOptionOfTheLaunch) {
  const std::pair<const char*, const char*> cases[] = {
      {"hvdrun -- ./prog -n 64", "none"},
      {"hvdrun -v ./prog -n 64", "none"},
      {"hvdrun --no-smt ./prog -n 64", "none"},
      {"hvdrun --bind cores ./prog -n 64", "none"},
      {"hvdrun --bind cores -n 4 ./prog -n 64", "4"},
      {"hvdrun --site=lab ./prog -n 64", "none"},
      {"hvdrun -v -n4 ./prog", "4"},
      {"mpirun -oversubscribe ./prog -n 64", "none"},
      {"mpirun -genv A 1 -n 4 ./prog", "4"},
      {"mpirun -hostfile hosts -n 4 ./prog", "4"},
      {"horovodrun --gloo ./prog -n 64", "none"},
      {"srun --label ./prog -n 64", "none"},
      {"srun -u -n 4 -- ./prog -n 64", "4"},
  };
  for (const auto& [line, count] : cases) {
    const SbatchFile file = parse_sbatch_file(std::string(line) + "\n");
    ASSERT_EQ(file.launches.size(), 1U) << line;
    EXPECT_EQ(launch_option(file.launches[0], "--ntasks", 'n').value_or("none"), count) << line;
  }
}

TEST(JobRequest, CountsGpus) {
  struct Case {
    const char* text;
    bool is_gres;
    int count;  ///< -1: none.
    const char* type;
  };
  const Case cases[] = {
      {"gpu:4", true, 4, ""},
      {"gpu", true, 1, ""},
      {"gpu:a100:2", true, 2, "a100"},
      {"gpu:a100", true, 1, "a100"},
      {"nvme:1,gpu:2", true, 2, ""},
      {"nvme:1", true, -1, ""},
      {"4", false, 4, ""},
      {"a100:4", false, 4, "a100"},
      {"a100:2,v100:1", false, 3, "a100"},
      {"gpu:2(S:0-1)", true, 2, ""},
      {"many", false, -1, ""},
      {"", false, -1, ""},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(gpu_count(one.text, one.is_gres).value_or(-1), one.count) << one.text;
    EXPECT_EQ(gpu_type_of(one.text, one.is_gres), one.type) << one.text;
  }
}

}  // namespace
}  // namespace hvd
