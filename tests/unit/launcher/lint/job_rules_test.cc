// SPDX-License-Identifier: Apache-2.0
// Mistakes in job scripts, each beside a script that is right: the rule that finds it, and how bad
// it is said to be.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "launcher/lint/file_kind.h"
#include "launcher/lint/launch_chain.h"
#include "launcher/lint/lint_script.h"
#include "launcher/lint/output_rules.h"
#include "launcher/lint/site_facts.h"
#include "lint_sites.h"

namespace hvd {
namespace {

/// "error", "warning" or "note" where the rule found something in the script; empty: nothing.
std::string found(const std::string& rule, const std::string& lines, const SiteConfig& site = {}) {
  std::string severity;
  for (const Finding& finding :
       lint_script(parse_sbatch_file("#!/bin/bash\n" + lines), site, "23.11")) {
    if (finding.rule == rule) severity = severity_name(finding.severity);
  }
  return severity;
}

struct Case {
  const char* rule;
  const char* lines;
  const char* severity;
};

constexpr const char* kFourTasks = "#SBATCH -N 1 --ntasks-per-node=4 --gres=gpu:4 -t 1\n";

TEST(JobRules, FindHiddenGpus) {
  const Case cases[] = {
      {"hidden-gpus", "export CUDA_VISIBLE_DEVICES=0\nsrun hvdrun x\n", "error"},
      {"hidden-gpus", "export ROCR_VISIBLE_DEVICES=0,1\nsrun hvdrun x\n", "error"},
      {"hidden-gpus", "export CUDA_VISIBLE_DEVICES=0,1,2,3\nsrun hvdrun x\n", ""},
      {"hidden-gpus", "export CUDA_VISIBLE_DEVICES=\nsrun hvdrun x\n", ""},
      {"hidden-gpus", "export CUDA_VISIBLE_DEVICES=$SLURM_LOCALID\nsrun hvdrun x\n", ""},
      {"hidden-gpus", "export HVD_SHARE_GPU=1 CUDA_VISIBLE_DEVICES=0\nsrun hvdrun x\n", ""},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(found(one.rule, std::string(kFourTasks) + one.lines), one.severity) << one.lines;
  }
  EXPECT_EQ(found("hidden-gpus", "export CUDA_VISIBLE_DEVICES=0\nhvdrun -np 2 x\n"), "error");
  EXPECT_EQ(found("hidden-gpus", "export CUDA_VISIBLE_DEVICES=0\nhvdrun -np 1 x\n"), "");
  const std::string text =
      "#!/bin/bash\n" + std::string(kFourTasks) + "export CUDA_VISIBLE_DEVICES=0\nsrun hvdrun x\n";
  EXPECT_EQ(mend_script(text, {}, "23.11").text,
            "#!/bin/bash\n" + std::string(kFourTasks) + "srun hvdrun x\n");
}

TEST(JobRules, CompareTasksWithGpusAndMemoryWithMemory) {
  const Case cases[] = {
      {"tasks-and-gpus", "#SBATCH --ntasks-per-node=3 --gres=gpu:4\nsrun x\n", "warning"},
      {"tasks-and-gpus", "#SBATCH --nodes=2 --ntasks=6 --gpus-per-node=4\nsrun x\n", "warning"},
      {"tasks-and-gpus", "#SBATCH --ntasks-per-node=4 --gres=gpu:2\nsrun x\n", "warning"},
      {"tasks-and-gpus",
       "#SBATCH --ntasks-per-node=4 --gres=gpu:2\nexport HVD_SHARE_GPU=1\nsrun x\n", ""},
      {"tasks-and-gpus", "#SBATCH --ntasks-per-node=4 --gres=gpu:4\nsrun x\n", ""},
      {"tasks-and-gpus", "#SBATCH --ntasks-per-node=1 --gres=gpu:4\nsrun torchrun x\n", ""},
      {"tasks-and-gpus", "#SBATCH --ntasks-per-node=8\nsrun x\n", ""},
      {"memory-twice", "#SBATCH --mem=0 --mem-per-cpu=3G\nsrun x\n", "error"},
      {"memory-twice", "#SBATCH --mem-per-gpu=3G\n#SBATCH --mem=8G\nsrun x\n", "error"},
      {"memory-twice", "#SBATCH --mem=0\nsrun x\n", ""},
      {"unread-directive", "# SBATCH --time=1:00:00\nsrun x\n", "warning"},
      {"unread-directive", "# SBATCH -t 1:00:00\nsrun x\n", "warning"},
      {"unread-directive", "# SBATCH --time=2\n#SBATCH --time=1\nsrun x\n", ""},
      {"unread-directive", "## SBATCH --time=2\nsrun x\n", ""},
      {"unread-directive", "# SBATCH reads these lines - with care\nsrun x\n", ""},
      {"too-many-threads", "#SBATCH -c 8\nexport OMP_NUM_THREADS=10\nsrun x\n", "warning"},
      {"too-many-threads", "#SBATCH -c 8\nexport OMP_NUM_THREADS=8\nsrun x\n", ""},
      {"too-many-threads", "#SBATCH -c 8\nexport OMP_NUM_THREADS=10\nsrun -c 10 x\n", ""},
  };
  for (const Case& one : cases) EXPECT_EQ(found(one.rule, one.lines), one.severity) << one.lines;
}

TEST(JobRules, FindLaunchersInTheTasksOfOthers) {
  const Case cases[] = {
      {"nested-launch", "srun torchrun --nproc_per_node=4 train.py\n", "error"},
      {"nested-launch", "srun python -m torch.distributed.run --nproc-per-node 4 a.py\n", "error"},
      {"nested-launch", "srun accelerate launch --num_processes 4 train.py\n", "error"},
      {"nested-launch", "srun hvdrun torchrun --nproc_per_node=$N train.py\n", "error"},
      {"nested-launch", "hvdrun torchrun --nproc_per_node=4 train.py\n", "error"},
      {"nested-launch", "srun hvdrun -np 4 python train.py\n", "error"},
      {"nested-launch", "srun apptainer exec a.sif hvdrun -np 4 python train.py\n", "error"},
      {"nested-launch", "srun mpirun -np 4 python train.py\n", "error"},
      {"nested-launch", "hvdrun -np 2 hvdrun -np 2 python train.py\n", "error"},
      {"nested-launch", "srun --ntasks-per-node=1 torchrun --nproc_per_node=4 train.py\n", ""},
      {"nested-launch", "srun -n 1 hvdrun -np 4 python train.py\n", ""},
      {"nested-launch", "srun hvdrun -np 1 python train.py\n", ""},
      {"nested-launch", "srun hvdrun --nested -np 4 python train.py\n", ""},
      {"nested-launch", "srun torchrun --nnodes=4 train.py\n", ""},
      {"nested-launch", "srun hvdrun python train.py torchrun --nproc_per_node=4\n", ""},
      {"nested-launch", "srun python -m a.train --engine deepspeed --num_gpus 4\n", ""},
      {"nested-launch", "mpirun -np 4 hvdrun python train.py\n", ""},
      {"nested-launch", "hvdrun -np 4 python train.py\n", ""},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(found(one.rule, std::string(kFourTasks) + one.lines), one.severity) << one.lines;
  }
  EXPECT_EQ(found("nested-launch", "srun hvdrun -np 4 python train.py\n"), "warning");
  EXPECT_EQ(found("nested-launch",
                  "#SBATCH -N 2 --ntasks-per-node=1\nsrun torchrun --nproc_per_node=4 x.py\n"),
            "");
}

TEST(JobRules, FindStepsThatDoNotFit) {
  const Case cases[] = {
      {"step-too-big", "#SBATCH --ntasks=12\nsrun -n 16 x\n", "error"},
      {"step-too-big", "#SBATCH -N 3 --ntasks-per-node=4\nsrun --ntasks=16 x\n", "error"},
      {"step-too-big", "#SBATCH -N 2\nsrun -N 4 x\n", "error"},
      {"step-too-big", "#SBATCH --ntasks=12 --exclusive\nsrun -n 16 x\n", "warning"},
      {"step-too-big", "#SBATCH --ntasks=12\nsrun -n 12 x\n", ""},
      {"step-too-big", "#SBATCH --ntasks=12\nsrun --overcommit -n 16 x\n", ""},
      {"step-too-big", "#SBATCH --ntasks=12 -c 4\nsrun -n 48 -c 1 x\n", ""},
      {"step-too-big", "#SBATCH -N 3\nsrun -n 16 x\n", ""},
  };
  for (const Case& one : cases) EXPECT_EQ(found(one.rule, one.lines), one.severity) << one.lines;
}

TEST(JobRules, FindVariablesThatWaitForAnOptionOfTheStep) {
  SiteConfig site = test_ibrun_site();
  site.env = {{"FI_CXI_RDZV_PROTO", "alt_read", "nodes>1 and step_network=disable_rdzv_get",
               "a test", test_provenance()}};
  const std::string two = "#SBATCH -N 2 -p gh\n";
  const Case cases[] = {
      {"missing-step-flag", "srun hvdrun x\n", "warning"},
      {"missing-step-flag", "srun --network=disable_rdzv_get hvdrun x\n", ""},
      {"missing-step-flag", "export SLURM_NETWORK=disable_rdzv_get\nsrun hvdrun x\n", ""},
      {"missing-step-flag", "hvdrun x\n", ""},
      {"missing-step-flag", "srun python x.py\n", ""},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(found(one.rule, two + one.lines, site), one.severity) << one.lines;
  }
  EXPECT_EQ(found("missing-step-flag", "#SBATCH -N 1 -p gh\nsrun hvdrun x\n", site), "");
  EXPECT_EQ(mend_script("#!/bin/bash\n" + two + "srun hvdrun x\n", site, "").text,
            "#!/bin/bash\n" + two + "srun --network=disable_rdzv_get hvdrun x\n");
}

TEST(JobRules, FindOneIdentityForAllRanks) {
  for (const char* name : {"RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                           "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_RANKID"}) {
    const std::string lines = std::string("export ") + name + "=0\n";
    EXPECT_EQ(found("set-by-hvdrun", kFourTasks + lines + "srun hvdrun python3 tr.py\n"), "warning")
        << name;
    EXPECT_EQ(found("set-by-hvdrun", kFourTasks + lines + "hvdrun python3 tr.py\n"), "warning")
        << name;
  }
  const Case cases[] = {
      {"set-by-hvdrun", "export WORLD_SIZE=1\nsrun hvdrun x\n", "warning"},
      {"set-by-hvdrun", "export WORLD_SIZE=4\nsrun hvdrun x\n", ""},
      {"set-by-hvdrun", "export LOCAL_WORLD_SIZE=1\nsrun hvdrun x\n", "warning"},
      {"set-by-hvdrun", "RANK=0\nexport RANK\nhvdrun x\n", "warning"},
      {"set-by-hvdrun", "set -a\nRANK=0\nhvdrun x\n", "warning"},
      {"set-by-hvdrun", "RANK=0 hvdrun x\n", "warning"},
      {"set-by-hvdrun", "RANK=0 \\\n  srun hvdrun x\n", "warning"},
      {"set-by-hvdrun", "hvdrun -x RANK=0 -np 4 x\n", "warning"},
      {"set-by-hvdrun", "srun --export=ALL,RANK=0 hvdrun x\n", "warning"},
      {"set-by-hvdrun", "RANK=0\nhvdrun x\n", ""},
      {"set-by-hvdrun", "RANK=0 python3 eval.py\nsrun hvdrun x\n", ""},
      {"set-by-hvdrun", "export RANK=0\nunset RANK\nsrun hvdrun x\n", ""},
      {"set-by-hvdrun", "export RANK=$SLURM_PROCID\nsrun hvdrun x\n", ""},
      {"set-by-hvdrun", "srun hvdrun x\nexport RANK=0\npython3 eval.py\n", ""},
      {"set-by-hvdrun", "export RANK=0\nhvdrun -np 4 x\n", ""},
      {"set-by-hvdrun", "export RANK=0\nsrun python3 x.py\n", ""},
      {"set-by-hvdrun", "export RANK=0 WORLD_SIZE=1\nsrun -n 1 hvdrun x\n", ""},
      {"set-by-hvdrun", "export MASTER_PORT=29500\nsrun hvdrun x\n", ""},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(found(one.rule, std::string(kFourTasks) + one.lines), one.severity) << one.lines;
  }
  EXPECT_EQ(found("set-by-hvdrun", "export RANK=0 WORLD_SIZE=1\nhvdrun x\n"), "warning");
  EXPECT_EQ(found("set-by-hvdrun", "export WORLD_SIZE=8\nsrun hvdrun x\n"), "");
  EXPECT_EQ(found("set-by-hvdrun", "#SBATCH --ntasks=1\nexport RANK=0 WORLD_SIZE=1\nhvdrun x\n"),
            "");
  const std::string head = "#!/bin/bash\n" + std::string(kFourTasks);
  EXPECT_EQ(mend_script(head + "export RANK=0 WORLD_SIZE=1\nsrun hvdrun x\n", {}, "23.11").text,
            head + "srun hvdrun x\n");
}

TEST(OutputRules, NoteAFolderThatIsNotThere) {
  const auto folder = std::filesystem::temp_directory_path() / "hvd-lint-output";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "logs");
  const std::string path = folder / "job.sbatch";
  const auto why = [&](const std::string& lines) {
    const auto findings = check_output_folders(parse_sbatch_file("#!/bin/bash\n" + lines), path);
    for (const Finding& finding : findings) EXPECT_EQ(finding.severity, Severity::kNote) << lines;
    return findings.empty() ? "" : findings.front().why;
  };
  for (const std::string& lines :
       {std::string("#SBATCH -o logs/%j.out\n"), std::string("#SBATCH --output=%j.out\n"),
        std::string("#SBATCH -o none/%x/%j.out\n"), std::string("#SBATCH -o /dev/null\n"),
        "#SBATCH -o " + folder.string() + "/logs/a\n",
        "#SBATCH -D " + folder.string() + " -e logs/a\n", std::string("#SBATCH -N 1\n")}) {
    EXPECT_EQ(why(lines), "") << lines;
  }
  EXPECT_NE(why("#SBATCH -o none/%j.out\n").find("0:53"), std::string::npos);
  EXPECT_NE(why("#SBATCH -e none/%j.err\n").find("cannot know the folder from which"),
            std::string::npos);
  EXPECT_EQ(why("#SBATCH -o none/%j.out -D logs\n").find("folder 'logs/none'"), 0U);
  EXPECT_NE(why("#SBATCH -o /no/such/folder/%j.out\n").find("not on this machine"),
            std::string::npos);
  EXPECT_NE(why("#SBATCH -o $HOME/%j.out\n"), "");
  std::filesystem::remove_all(folder);
}

TEST(JobRules, WantTheOptionsThatTheSiteWants) {
  SiteConfig site = test_jean_zay();
  const std::string lines = "#SBATCH -N 1 --gres=gpu:1 --hint=nomultithread\nsrun x\n";
  EXPECT_EQ(found("missing-account", lines, site), "");
  EXPECT_EQ(found("missing-time", lines, site), "warning");
  site.account_required = true;
  EXPECT_EQ(found("missing-account", lines, site), "error");
  site.time_required = true;
  EXPECT_EQ(found("missing-time", lines, site), "error");
  EXPECT_EQ(found("missing-account", "#SBATCH -A abc@v100 -t 1\n" + lines, site), "");
  EXPECT_EQ(found("missing-time", "#SBATCH -A abc@v100 -t 1\n" + lines, site), "");
  EXPECT_EQ(found("missing-account", "export A=1\nsrun x\n", site), "");  // no header
}

TEST(JobRules, FindJobsThatAreTooSmallForTheirQos) {
  SiteConfig site = test_jean_zay();
  SiteQos large;
  large.name = "large";
  large.max_time = "20:00:00";
  large.min_nodes = 4;
  large.min_gpus = 16;
  large.provenance = test_provenance();
  site.partitions[0].qos.push_back(large);
  const std::string usual = "#SBATCH -t 1:00:00 --hint=nomultithread --gres=gpu:4 ";
  const Case cases[] = {
      {"below-minimum", "--qos=large -N 2\nsrun x\n", "error"},
      {"below-minimum", "--qos=large\nsrun x\n", "error"},
      {"below-minimum", "--qos=large -N 4\nsrun x\n", ""},
      {"below-minimum", "-N 1\nsrun x\n", ""},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(found(one.rule, usual + one.lines, site), one.severity) << one.lines;
  }
}

TEST(JobRules, MendThreadsWithTheCores) {
  SiteConfig site = test_jean_zay();
  const std::string head =
      "#!/bin/bash\n#SBATCH -A abc@v100 -N 1 --ntasks-per-node=4 "
      "--gres=gpu:4 --hint=nomultithread -t 1:00:00";
  EXPECT_EQ(mend_script(head + " -c 20\nexport OMP_NUM_THREADS=20\nsrun x\n", site, "23.11").text,
            head + " -c 10\nexport OMP_NUM_THREADS=10\nsrun x\n");
}

TEST(FileKind, SaysWhatLintDoesNotRead) {
  const std::string binary(
      "\x7f"
      "ELF\0\0#SBATCH -N 1\n",
      20);
  const struct {
    const char* path;
    std::string text;
    FileKind kind;
    const char* why;
  } cases[] = {
      {"job", "#!/bin/bash\n#SBATCH -N 1\n", FileKind::kScript, ""},
      {"job", "#!/bin/bash\necho\n", FileKind::kScript, ""},
      {"env.sh", "export NCCL_DEBUG=INFO\n", FileKind::kScript, ""},
      {"job.py", "#!/usr/bin/python3\n#SBATCH -N 1\nimport os\n", FileKind::kScript, ""},
      {"train.py", "import torch\n", FileKind::kPython, ""},
      {"train", "#!/usr/bin/env python3\nimport torch\n", FileKind::kPython, ""},
      {"job", "", FileKind::kOther, "empty"},
      {"job", " \n\n", FileKind::kOther, "empty"},
      {"job", binary, FileKind::kOther, "binary"},
      {"job", "#!/bin/bash\n#PBS -l select=1\nmpirun x\n", FileKind::kOther, "PBS"},
      {"job", "#!/usr/bin/perl\nprint 1;\n", FileKind::kOther, "/usr/bin/perl"},
      {"notes.txt", "buy milk\n", FileKind::kOther, "no job script"},
  };
  for (const auto& one : cases) {
    const SbatchFile file = parse_sbatch_file(one.text);
    EXPECT_EQ(kind_of_file(one.path, file), one.kind) << one.path << " " << one.text;
    if (one.kind != FileKind::kOther) continue;
    EXPECT_NE(no_script_finding(file).why.find(one.why), std::string::npos) << one.text;
  }
}

TEST(LaunchChain, NamesTheScript) {
  const std::pair<const char*, const char*> cases[] = {
      {"srun hvdrun python3 -u train.py --epochs 3\n", "train.py"},
      {"hvdrun -np 4 ./train.py\n", "./train.py"},
      {"srun python $DIR/train.py\n", ""},
      {"srun ./a.out\n", ""},
      {"srun hvdrun python3 -m pkg.train --cfg cfg.py\n", ""},
      {"srun hvdrun python3 -u -m pkg.train --cfg cfg.py\n", ""},
      {"torchrun -m pkg.train cfg.py\n", ""},
      {"srun -m block python3 -m torch.distributed.run train.py\n", "train.py"},
      {"srun python3 $SCRIPT cfg.py\n", ""},
  };
  for (const auto& [line, script] : cases) {
    const SbatchFile file = parse_sbatch_file(std::string("#!/bin/bash\n") + line);
    ASSERT_EQ(file.launches.size(), 1U) << line;
    EXPECT_EQ(launched_script(file.launches[0]).value_or(""), script) << line;
  }
}

}  // namespace
}  // namespace hvd
