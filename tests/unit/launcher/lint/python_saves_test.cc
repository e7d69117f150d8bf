// SPDX-License-Identifier: Apache-2.0
// Files that all ranks write, each beside a program that is right.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lint_programs.h"

namespace hvd {
namespace {

TEST(PythonSaves, AreErrorsWhereAllRanksWriteOneFile) {
  const PythonCase cases[] = {
      {"torch.save(model.state_dict(), 'a.pt')\n", "error:9"},
      {"for epoch in range(3):\n    train()\n    torch.save(model, f'{epoch}.pt')\n", "error:11"},
      {"if best < loss:\n    model.save('a.keras')\n", "error:10"},
      {"def save():\n    torch.save(model, 'a')\nsave()\n", "error:10"},
      {"def main():\n  torch.save(model, 'a')\nif __name__ == '__main__':\n  main()\n", "error:10"},
      {"model = net.cuda(hvd.local_rank())\ntorch.save(model, 'a.pt')\n", "error:10"},
      {"if hvd.rank() == 0:\n    print(1)\ntorch.save(model, 'a.pt')\n", "error:11"},
      {"if hvd.rank() == 0:\n    torch.save(model, 'a.pt')\n", ""},
      {"if hvd.rank() == 0: torch.save(model, 'a.pt')\n", ""},
      {"hvd.rank() == 0 and torch.save(model, 'a.pt')\n", ""},
      {"if hvd.rank() != 0:\n    pass\nelse:\n    torch.save(model, 'a.pt')\n", ""},
      {"def save():\n    if hvd.rank() != 0:\n        return\n    torch.save(model, 'a')\nsave()\n",
       ""},
      {"def save():\n    torch.save(model, 'a')\nif hvd.rank() == 0:\n    save()\n", ""},
      {"me = hvd.rank()\nif me == 0:\n    torch.save(model, 'a.pt')\n", ""},
      {"first = hvd.rank() == 0\nif first and best:\n    torch.save(model, 'a.pt')\n", ""},
      {"def first():\n    return hvd.rank() == 0\nif first():\n    torch.save(model, 'a')\n", ""},
      {"torch.save(model, f'a-{hvd.rank()}.pt')\n", ""},
      {"path = 'a-%d.pt' % hvd.rank()\ntorch.save(model, path)\n", ""},
      {"@rank_zero_only\ndef save():\n    torch.save(model, 'a')\nsave()\n", ""},
      {"# torch.save(model, 'a.pt')\ns = 'torch.save(model, 1)'\n", ""},
      {"class Saves(Callback):\n  def on_epoch_end(self):\n    torch.save(self.m, 'a')\n",
       "note:11"},
      {"class Saves(Callback):\n  def on_epoch_end(self):\n    torch.save(self.m, 'a')\n"
       "if hvd.rank() == 0:\n  callbacks.append(Saves())\n",
       ""},
      {"class Saves(Callback):\n  def on_epoch_end(self):\n    torch.save(self.m, 'a')\n"
       "callbacks.append(Saves())\n",
       "error:11"},
      {"import keras\nlist = [keras.callbacks.ModelCheckpoint('a')]\n", "error:10"},
      {"import keras\nif hvd.rank() == 0:\n  x += [keras.callbacks.ModelCheckpoint('a')]\n", ""},
  };
  for (const PythonCase& one : cases) {
    EXPECT_EQ(seen("saved-by-all", right_program() + one.text), one.found) << one.text;
  }
}

void expect_saves(const std::vector<PythonCase>& cases) {
  for (const PythonCase& one : cases) {
    EXPECT_EQ(seen("saved-by-all", right_program() + one.text), one.found) << one.text;
  }
}

TEST(PythonSaves, AreNotGuardedByARankThatIsOnlyHandedOn) {
  expect_saves({
      {"def train(me, n):\n    torch.save(model, 'a')\ntrain(hvd.rank(), hvd.size())\n",
       "error:10"},
      {"def train(first):\n    torch.save(model, 'a')\ntrain(first=hvd.rank() == 0)\n", "error:10"},
      {"def train(v):\n    torch.save(model, 'a')\ntrain(1 if hvd.rank() == 0 else 0)\n",
       "error:10"},
      {"torch.save(model, pick('a', hvd.rank() == 0))\n", ""},
      {"torch.save(state(hvd.rank()), 'a')\n", "error:9"},
      {"with profile(hvd.rank()):\n    torch.save(model, 'a')\n", "error:10"},
      {"for i in rows(hvd.rank()):\n    torch.save(model, 'a')\n", "error:10"},
      {"with open(f'log.{hvd.rank()}.txt') as log:\n    torch.save(model, 'a')\n", "error:10"},
      {"loss = train(verbose=hvd.rank() == 0)\nif loss < 1:\n    torch.save(model, 'a')\n",
       "error:11"},
      {"def show(flag):\n    pass\nshow(hvd.rank() == 0)\nif flag:\n    torch.save(model, 'a')\n",
       "error:13"},
      {"class Trainer:\n  def __init__(self, rank):\n    self.rank = rank\n  def fit(self):\n"
       "    torch.save(model, 'a')\nTrainer(hvd.rank()).fit()\n",
       "error:13"},
  });
}

TEST(PythonSaves, AreGuardedByConditionsOfEachForm) {
  expect_saves({
      {"def save(first):\n    if first:\n        torch.save(model, 'a')\nsave(hvd.rank() == 0)\n",
       ""},
      {"def save(to):\n    torch.save(model, to)\nsave(f'{hvd.rank()}.pt')\n", ""},
      {"torch.save(model, 'a') if hvd.rank() == 0 else None\n", ""},
      {"None if hvd.rank() else torch.save(model, 'a')\n", ""},
      {"hvd.rank() or torch.save(model, 'a')\n", ""},
      {"import keras\nuse([keras.callbacks.ModelCheckpoint('a')] * (hvd.rank() == 0))\n", ""},
      {"import keras\nuse([keras.callbacks.ModelCheckpoint('a')] if not hvd.rank() else [])\n", ""},
      {"if a:\n    pass\nelif hvd.rank() == 0:\n    torch.save(model, 'a')\n", ""},
      {"if hvd.rank():\n    pass\nelif a:\n    torch.save(model, 'a')\n", ""},
      {"match hvd.rank():\n    case 0:\n        torch.save(model, 'a')\n", ""},
      {"me, n = hvd.rank(), hvd.size()\nif me == 0:\n    torch.save(model, 'a')\n", ""},
      {"me = int(hvd.rank())\nif not me:\n    torch.save(model, 'a')\n", ""},
      {"for i in range(hvd.rank(), 9):\n    torch.save(model, f'{i}.pt')\n", ""},
      {"run_on_rank_zero(lambda: torch.save(model, 'a'))\n", ""},
      {"def save_on_main_process():\n    torch.save(model, 'a')\nsave_on_main_process()\n", ""},
      {"if hvd.rank() == 0: x = 1; torch.save(model, 'a')\n", ""},
  });
}

TEST(PythonSaves, AreGuardedAlsoInASuiteOnTheLineOfItsHeader) {
  expect_saves({
      {"@rank_zero_only\ndef save(m): torch.save(m, 'x')\nsave(model)\n", ""},
      {"@rank0\ndef save(m): torch.save(m, 'x')\nsave(model)\n", ""},
      {"def save_on_rank0(m): torch.save(m, 'x')\nsave_on_rank0(model)\n", ""},
      {"def save(m): torch.save(m, 'x')\nif hvd.rank() == 0: save(model)\n", ""},
      {"def save(m): torch.save(m, 'x')\nsave(model)\n", "error:9"},
      {"def save(m): torch.save(m, 'x')\n", "note:9"},
      {"def save(m, to): torch.save(m, to)\nsave(model, f'{hvd.rank()}.pt')\n", ""},
      {"def save(first):\n  if first: torch.save(model, 'a')\nsave(hvd.rank() == 0)\n", ""},
      {"def save():\n  if hvd.rank(): return\n  torch.save(model, 'a')\nsave()\n", ""},
      {"class A:\n  @rank_zero_only\n  def save(self, m): torch.save(m, 'x')\nA().save(model)\n",
       ""},
      {"path = f'd{hvd.rank()}'\nwith open(path, 'wb') as f: torch.save(m, f)\n", ""},
      {"path = f'd{hvd.rank()}'\nwith open(path, 'wb') as f:\n    torch.save(m, f)\n", ""},
      {"def save(m):\n  path = f'd{hvd.rank()}'\n  with open(path, 'wb') as f: torch.save(m, f)\n"
       "save(model)\n",
       ""},
      {"path = 'd'\nwith open(path, 'wb') as f: torch.save(m, f)\n", "error:10"},
      {"with open('d', 'wb') as f: pickle.dump(params, f)\n", "error:9"},
      {"import io; f = io.BytesIO(); torch.save(model, f)\n", ""},
  });
}

TEST(PythonSaves, AreGuardedByAWayOutInTheSameBlockAlone) {
  expect_saves({
      {"def save():\n  if hvd.rank() != 0:\n    print(1)\n    return\n  torch.save(model, 'a')\n"
       "save()\n",
       ""},
      {"for e in x:\n  if hvd.rank() != 0: continue\n  torch.save(model, 'a')\n", ""},
      {"for e in x:\n  if hvd.rank() != 0: print(1); break\n  torch.save(model, 'a')\n", ""},
      {"for e in x:\n  if hvd.rank() == 0:\n    print(1)\n  else:\n    continue\n"
       "  torch.save(model, 'a')\n",
       ""},
      {"def save():\n  if hvd.rank() != 0:\n    if a:\n      return\n  torch.save(model, 'a')\n"
       "save()\n",
       "error:13"},
      {"if hvd.rank() == 0:\n  for e in x:\n    break\ntorch.save(model, 'a')\n", "error:12"},
      {"if hvd.rank() == 0:\n  for e in x: print(e); break\ntorch.save(model, 'a')\n", "error:11"},
      {"if hvd.rank() == 0:\n  def f():\n    return 1\ntorch.save(model, 'a')\n", "error:12"},
      {"if hvd.rank() == 0 and a:\n  raise SystemExit('no')\ntorch.save(model, 'a')\n", "error:11"},
      {"import sys\nif hvd.rank() == 0 and a: sys.exit(1)\ntorch.save(model, 'a')\n", "error:11"},
      {"for e in x:\n  if hvd.rank() != 0:\n    continue\n  print(e)\ntorch.save(model, 'a')\n",
       "error:13"},
      {"while hvd.rank() < n:\n  break\ntorch.save(model, 'a')\n", "error:11"},
      {"assert hvd.rank() == 0\ntorch.save(model, 'a')\n", "error:10"},
  });
}

TEST(PythonSaves, KnowTheNamesOfRanksByWholeWords) {
  for (const char* name : {"rank", "local_rank", "args.rank", "RANK", "worldRank", "rank_0",
                           "is_main", "is_main_process", "isMaster", "is_root_node", "is_first",
                           "self.is_global_zero", "is_primary", "on_main_process", "is_rank0"}) {
    const std::string text = std::string("if ") + name + ":\n    torch.save(model, 'a')\n";
    EXPECT_EQ(seen("saved-by-all", right_program() + text), "") << name;
  }
  for (const char* name : {"args.lora_rank", "low_rank", "rerank", "is_first_epoch", "primary_loss",
                           "ranking", "is_main_branch", "LoRA_rank", "rank_loss", "prank", "franky",
                           "matrix_rank", "x.shape.rank", "frank", "loraRank", "pagerank"}) {
    const std::string text = std::string("if ") + name + ":\n    torch.save(model, 'a')\n";
    EXPECT_EQ(seen("saved-by-all", right_program() + text), "error:10") << name;
  }
}

TEST(PythonSaves, AreGuardedByVariablesThatHoldTheRank) {
  for (const char* condition :
       {"os.environ['RANK'] == '0'", "int(os.environ['SLURM_PROCID']) == 0",
        "os.environ.get('HVD_RANK', '0') == '0'", "not int(os.environ['OMPI_COMM_WORLD_RANK'])",
        "os.getenv('PMI_RANK') == '0'", "environ['LOCAL_RANK'] in ('0', '')", "me == 0",
        "getenv('HOROVOD_RANK') == '0'", "cfg['rank'] == 0"}) {
    const std::string text =
        std::string("import os\nfrom os import environ, getenv\nme = int(os.environ['RANK'])\n") +
        "if " + condition + ":\n    torch.save(model, 'a')\n";
    EXPECT_EQ(seen("saved-by-all", right_program() + text), "") << condition;
  }
  expect_saves({
      {"import os\nif os.environ['USER'] == 'me':\n    torch.save(model, 'a')\n", "error:11"},
      {"import os\nif os.environ['WORLD_SIZE'] == '2':\n    torch.save(model, 'a')\n", "error:11"},
      {"if cfg['lora_rank'] > 0:\n    torch.save(model, 'a')\n", "error:10"},
      {"import os\ntorch.save(model, os.environ['SLURM_PROCID'] + '.pt')\n", ""},
  });
}

TEST(PythonSaves, AreNoneWhereTheFileIsOfTheProcess) {
  expect_saves({
      {"import io\nbuffer = io.BytesIO()\ntorch.save(model, buffer)\n", ""},
      {"import io\nclass A:\n  def f(self):\n    self.b = io.BytesIO()\n    torch.save(1, self.b)\n"
       "A().f()\n",
       ""},
      {"import tempfile\nwith tempfile.NamedTemporaryFile() as f:\n    torch.save(model, f.name)\n",
       ""},
      {"import tempfile\nfd, name = tempfile.mkstemp()\ntorch.save(model, name)\n", ""},
      {"import os, tempfile\nwhere = tempfile.mkdtemp()\n"
       "torch.save(model, os.path.join(where, 'a'))\n",
       ""},
      {"import io\ndef save(to):\n    torch.save(model, to)\nsave(io.BytesIO())\n", ""},
      {"import io\nf = io.BytesIO()\ntorch.save(model, f)\nf = 'a.pt'\ntorch.save(model, f)\n",
       "error:13"},
      {"torch.save(model, stream)\n", "note:9"},
      {"def save(to):\n    torch.save(model, to)\nsave(there)\n", "note:10"},
      {"def save(to):\n    torch.save(model, to)\nsave('a.pt')\n", "error:10"},
      {"to = args.output\ntorch.save(model, to)\n", "error:10"},
      {"to = root / 'a.pt'\ntorch.save(model, to)\n", "error:10"},
      {"torch.save(model, path)\n", "error:9"},
      {"torch.save(model, args.output)\n", "error:9"},
  });
}

TEST(PythonSaves, AreThoseOfEachLibrary) {
  const std::string imports =
      "import pickle\nimport numpy as np\nimport tensorflow as tf\n";  // lines 9 to 11
  const PythonCase cases[] = {
      {"model.export('a')\n", "error:12"},
      {"tf.train.Checkpoint(model=model).save('a')\n", "error:12"},
      {"point = tf.train.Checkpoint(model=net, optimizer=o)\npoint.save('a')\n", "error:13"},
      {"point = tf.train.Checkpoint(model=net)\nkeep = tf.train.CheckpointManager(point, 'a', 3)\n"
       "keep.save()\n",
       "error:14"},
      {"point = tf.train.Checkpoint(model=net)\n"
       "keep = tf.train.CheckpointManager(point, f'a{hvd.rank()}', 3)\nkeep.save()\n",
       ""},
      {"point = tf.train.Checkpoint(step=step)\npoint.save('a')\n", "note:13"},
      {"point.save('a')\n", ""},
      {"with open('a', 'wb') as f:\n    pickle.dump(params, f)\n", "error:13"},
      {"with open('a', 'wb') as f:\n    pickle.dump({'w': model.state_dict()}, f)\n", "error:13"},
      {"with open('a', 'wb') as f:\n    pickle.dump(losses, f)\n", "note:13"},
      {"with open(f'a{hvd.rank()}', 'wb') as f:\n    pickle.dump(params, f)\n", ""},
      {"pickle.dump(params, open('a', 'wb'))\n", "error:12"},
      {"with open('a', 'wb') as f:\n    f.write(pickle.dumps(params))\n", "error:12"},
      {"with open('a', 'wb') as f:\n    f.write(b'1')\n", "note:12"},
      {"with open('a', 'rb') as f:\n    params = pickle.load(f)\n", ""},
      {"with open('a', 'w') as f:\n    f.write('1')\n", ""},
      {"if hvd.rank() == 0:\n  with open('a', 'wb') as f:\n    pickle.dump(params, f)\n", ""},
      {"np.savez('a', **params)\n", "error:12"},
      {"np.save('a', model.get_weights())\n", "error:12"},
      {"loss = evaluate(model)\nnp.save('a', loss)\n", "note:13"},
      {"np.save('a', model(x))\n", "note:12"},
      {"np.save('a', predict(model, x))\n", "note:12"},
      {"torch.onnx.export(model, x, 'a.onnx')\n", "error:12"},
  };
  for (const PythonCase& one : cases) {
    EXPECT_EQ(seen("saved-by-all", right_program() + imports + one.text), one.found) << one.text;
  }
}

TEST(PythonSaves, AreNotJudgedWhereAnUnknownCallerStandsBehindSeveralWays) {
  expect_saves({
      {"def entry():\n    a()\n    b()\ndef a():\n    save()\ndef b():\n    save()\n"
       "def save():\n    torch.save(model, 'a')\n",
       "note:17"},
      {"def a():\n    b()\n    torch.save(model, 'a')\ndef b():\n    a()\n", "note:11"},
      {"def a():\n    b()\n    torch.save(model, 'a')\ndef b():\n    a()\na()\n", "error:11"},
      {"def a():\n    b()\n    torch.save(model, 'a')\ndef b():\n    a()\nif hvd.rank() == 0:\n"
       "    a()\n",
       ""},
      {"def save():\n    torch.save(model, 'a')\ndef entry():\n    save()\nif hvd.rank() == 0:\n"
       "    save()\n",
       "note:10"},
      {"class One:\n  def on_end(self):\n    torch.save(model, 'a')\nclass Two(One):\n  pass\n"
       "if hvd.rank() == 0:\n  use(Two())\n",
       ""},
  });
}

TEST(PythonSaves, AreFoundInProgramsOfManyFunctions) {
  std::string calls = right_program();
  std::string saves = right_program();
  for (int i = 0; i < 300; ++i) {
    calls += "def f" + std::to_string(i) + "():\n";
    for (int j = 0; j < 300; ++j) calls += "    f" + std::to_string(j) + "()\n";
  }
  calls += "f7()\ndef last():\n    torch.save(model, 'a')\nf8(last)\n";
  EXPECT_EQ(seen("saved-by-all", calls), "error:90311");
  for (int i = 0; i < 4000; ++i) {
    const std::string number = std::to_string(i);
    saves += "def save_" + number + "(path):\n    torch.save(model, path)\nsave_" + number +
             "('a')\nmodel.cuda(device)\n";
  }
  EXPECT_EQ(seen("saved-by-all", saves).substr(0, 18), "error:10 error:14 ");
}

}  // namespace
}  // namespace hvd
