// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/python_command.h"

#include <gtest/gtest.h>

#include <sstream>

#include "launcher/run/apart_note.h"

namespace hvd {
namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

TEST(PythonCommand, KnowsTheScriptOrModuleBehindOptions) {
  const struct {
    const char* command;
    const char* target;
  } cases[] = {
      {"python train.py --cfg cfg.py", "train.py"},
      {"/usr/bin/python3.11 -u code/train.py", "train.py"},
      {"./train.py", "train.py"},
      {"python -m pkg", "pkg -m"},
      {"python -u -m pkg", "pkg -m"},
      {"python -um pkg", "pkg -m"},
      {"python -mpkg", "pkg -m"},
      {"python -W ignore -X dev -m pkg.train cfg.py", "pkg.train -m"},
      {"python -Wignore train.py", "train.py"},
      {"python -c pass train.py", ""},
      {"python - train.py", ""},
      {"python $SCRIPT cfg.py", "$SCRIPT"},
      {"python -m", ""},
      {"numactl -l python -m cProfile -o out train.py", "train.py"},
      {"srun -m block hvdrun python3 -m pkg.train --cfg cfg.py", "pkg.train -m"},
      {"srun -m block ./train.py", "train.py"},
      {"torchrun -m pkg.train cfg.py", "pkg.train -m"},
      {"python -m torch.distributed.run --nproc-per-node 4 train.py", "train.py"},
      {"python -m torch.distributed.run -m pkg cfg.py", "pkg -m"},
      {"python /usr/bin/torchrun train.py", "train.py"},
      {"singularity exec python.sif python train.py", "train.py"},
      {"./a.out", ""},
      {"", ""},
  };
  for (const auto& one : cases) {
    const auto target = python_target(words_of(one.command));
    const std::string found =
        target ? target->name + (target->is_module ? " -m" : "") : std::string();
    EXPECT_EQ(found, one.target) << one.command;
  }
}

TEST(ApartNote, NamesAModuleThatFollowsOtherOptions) {
  for (const char* command :
       {"python -m pkg", "python -u -m pkg", "env A=1 python3 -um pkg x.py"}) {
    const std::vector<std::string> notes = apart_note(2, words_of(command));
    ASSERT_EQ(notes.size(), 1U) << command;
    EXPECT_NE(notes[0].find("hvd.init(): pkg ran 2 times"), std::string::npos) << notes[0];
  }
  EXPECT_TRUE(apart_note(1, words_of("python -m pkg")).empty());
  EXPECT_TRUE(apart_note(2, words_of("./a.out")).empty());
}

}  // namespace
}  // namespace hvd
