// SPDX-License-Identifier: Apache-2.0
// Mistakes in Python programs, each beside a program that is right.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lint_programs.h"

namespace hvd {
namespace {

TEST(PythonRules, FindNothingInARightProgram) {
  PythonProgram program{parse_python(right_program() + "print(hvd.rank())\n"), {}};
  EXPECT_TRUE(lint_python(program).empty());
}

TEST(PythonRules, FindDataThatIsNotSplit) {
  const PythonCase unsplit[] = {
      {"loader = DataLoader(data, batch_size=8, shuffle=True)\n", "warning:9"},
      {"loader = DataLoader(\n    data,\n    shuffle=True,\n)\n", "warning:9"},
      {"loader = DataLoader(data, sampler=own)\n", ""},
      {"loader = DataLoader(data, shuffle=False)\n", ""},
      {"loader = DataLoader(data, **options)\n", ""},
      {"mine = Subset(data, range(hvd.rank(), len(data), hvd.size()))\n"
       "loader = DataLoader(mine, shuffle=True)\n",
       ""},
  };
  const std::string without_sampler = right_program();
  for (const PythonCase& one : unsplit) {
    std::string text = without_sampler;
    const std::string import = "from torch.utils.data.distributed import DistributedSampler\n";
    text.replace(text.find(import), import.size(), "\n");
    EXPECT_EQ(seen("unsplit-data", text + one.text), one.found) << one.text;
  }
  EXPECT_EQ(seen("unsplit-data", right_program() + "DataLoader(data, shuffle=True)\n"), "note:9");
  const PythonCase samplers[] = {
      {"s = DistributedSampler(data)\n", "error:9"},
      {"s = DistributedSampler(data, num_replicas=hvd.size())\n", "error:9"},
      {"s = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())\n", ""},
      {"s = DistributedSampler(data, hvd.size(), hvd.rank())\n", ""},
      {"s = DistributedSampler(data, **options)\n", ""},
      {"torch.distributed.init_process_group('gloo')\ns = DistributedSampler(data)\n", ""},
  };
  for (const PythonCase& one : samplers) {
    EXPECT_EQ(seen("sampler-without-rank", right_program() + one.text), one.found) << one.text;
  }
}

TEST(PythonRules, FindGpusThatAreChosenByTheRankOfTheJob) {
  const PythonCase cases[] = {
      {"torch.cuda.set_device(hvd.rank())\n", "error:9"},
      {"me = hvd.rank()\ntorch.cuda.set_device(me)\n", "error:10"},
      {"device = torch.device(f'cuda:{hvd.rank()}')\n", "error:9"},
      {"model.cuda(hvd.rank())\n", "error:9"},
      {"config.gpu_options.visible_device_list = str(hvd.rank())\n", "error:9"},
      {"tf.config.set_visible_devices(gpus[hvd.rank()], 'GPU')\n", "error:9"},
      {"me = hvd.rank()\ntf.config.set_visible_devices(gpus[me], 'GPU')\n", "error:10"},
      {"me = hvd.rank()\ndevice = torch.device(f'cuda:{me}')\n", "error:10"},
      {"me = hvd.rank()\nmodel.to(f'cuda:{me}')\n", "error:10"},
      {"me = hvd.rank()\ndevice = torch.device('cuda:%d' % me)\n", "error:10"},
      {"me = hvd.rank()\ndevice = torch.device('cuda:' + str(me))\n", "error:10"},
      {"import tensorflow as tf\nme, n = hvd.rank(), hvd.size()\nwith tf.device(f'/gpu:{me}'):\n"
       "  pass\n",
       "error:11"},
      {"def use(gpu):\n  torch.cuda.set_device(gpu)\nuse(hvd.rank())\n", "error:10"},
      {"def use(gpu):\n  pass\nuse(hvd.rank())\ntorch.cuda.set_device(gpu)\n", ""},
      {"me = hvd.local_rank()\ntorch.device(f'cuda:{me}')\ntf.device(f'/gpu:{me}')\n", ""},
      {"me = hvd.rank()\ntorch.device(f'cuda:{me % 4}')\nmodel.to(gpu_of(me))\n", ""},
      {"me = hvd.rank()\nmodel.to(device)\ntorch.device(f'cuda:{args.me}')\n", ""},
      {"torch.cuda.set_device(hvd.local_rank())\n", ""},
      {"torch.cuda.set_device(hvd.rank() % torch.cuda.device_count())\n", ""},
      {"me = hvd.local_rank()\ntorch.cuda.set_device(me)\n", ""},
      {"config.gpu_options.visible_device_list = str(hvd.local_rank())\n", ""},
      {"torch.cuda.set_device(args.gpu)\n", ""},
  };
  for (const PythonCase& one : cases) {
    EXPECT_EQ(seen("gpu-by-rank", right_program() + one.text), one.found) << one.text;
  }
}

TEST(PythonRules, FindGpusByTheRankOfTheJobWhereverTheyAreNamed) {
  const PythonCase cases[] = {
      {"m.to(f'cuda:{hvd.rank()}')\n", "error:9"},
      {"rank = hvd.rank()\nm.to(rank, non_blocking=True)\n", "error:10"},
      {"rank = int(hvd.rank())\nm.to(rank)\n", "error:10"},
      {"torch.zeros(3, device=f'cuda:{hvd.rank()}')\n", "error:9"},
      {"rank = hvd.rank()\ntorch.zeros(3, device=rank)\n", "error:10"},
      {"torch.device('cuda:%d' % hvd.rank())\n", "error:9"},
      {"rank = hvd.rank()\ntorch.device('cuda:{}'.format(rank))\n", "error:10"},
      {"rank = hvd.rank()\ntorch.device('cuda', rank)\n", "error:10"},
      {"import os\nos.environ['CUDA_VISIBLE_DEVICES'] = str(hvd.rank())\n", "error:10"},
      {"import os\nos.environ['ROCR_VISIBLE_DEVICES'] = f'{hvd.rank()}'\n", "error:10"},
      {"import os\nos.environ.update(CUDA_VISIBLE_DEVICES=str(hvd.rank()))\n", "error:10"},
      {"import os\nos.putenv('CUDA_VISIBLE_DEVICES', str(hvd.rank()))\n", "error:10"},
      {"import os\nos.environ.setdefault('CUDA_VISIBLE_DEVICES', str(hvd.rank()))\n", "error:10"},
      {"args.rank = hvd.rank()\ntorch.cuda.set_device(args.rank)\n", "error:10"},
      {"class A:\n  def f(self):\n    self.rank = hvd.rank()\n    m.to(self.rank)\n", "error:12"},
      {"gpu = f'cuda:{hvd.rank()}'\nm.to(gpu)\n", "error:10"},
      {"rank = hvd.rank()\ngpu = rank\ntorch.cuda.set_device(gpu)\n", "error:11"},
      {"rank = hvd.rank()\ngpu = torch.device(f'cuda:{rank}' if a else 'cpu')\n", "error:10"},
      {"import os\nrank = int(os.environ['RANK'])\ntorch.cuda.set_device(rank)\n", "error:11"},
      {"import os\ntorch.cuda.set_device(int(os.getenv('SLURM_PROCID')))\n", "error:10"},
      {"import torch.distributed as dist\nm.cuda(dist.get_rank())\n", "error:10"},
      {"rank = hvd.rank()\nDDP(m, device_ids=[rank])\n", "error:10"},
      {"torch.load('a', map_location=f'cuda:{hvd.rank()}')\n", "error:9"},
      {"rank = hvd.rank()\nm.to(torch.device(f'cuda:{rank}'))\n", "error:10"},
  };
  for (const PythonCase& one : cases) {
    EXPECT_EQ(seen("gpu-by-rank", right_program() + one.text), one.found) << one.text;
  }
}

TEST(PythonRules, AllowGpusThatAreOfTheNode) {
  for (const char* text : {
           "torch.zeros(3, device=f'cuda:{hvd.local_rank()}')\n",
           "rank = hvd.rank()\ntorch.zeros(3, device=device)\nm.to('cpu')\n",
           "rank = hvd.rank()\nm.to(rank % 4)\ntorch.zeros(3, device=rank % 4)\n",
           "rank = hvd.rank()\ngpu = rank % 4\ntorch.cuda.set_device(gpu)\n",
           "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = str(hvd.local_rank())\n",
           "import os\nos.environ['MY_RANK'] = str(hvd.rank())\n",
           "import os\nrank = int(os.environ['LOCAL_RANK'])\ntorch.cuda.set_device(rank)\n",
           "args.rank = hvd.rank()\ntorch.cuda.set_device(args.gpu)\n",
           "rank = hvd.rank()\ntorch.cuda.set_device(args.rank)\n",
           "def use(device):\n  torch.cuda.set_device(device % 4)\nuse(device=hvd.rank())\n",
           "rank = hvd.rank()\nm.to(rank if rank < 4 else 0)\n",
           "model = build(hvd.rank())\nx.to(model)\n",
           "rank = hvd.rank()\ngpu = gpus_of(rank)\nm.to(gpu)\n",
       }) {
    EXPECT_EQ(seen("gpu-by-rank", right_program() + text), "") << text;
  }
}

TEST(PythonRules, KnowWhatGivesAllRanksTheWeightsOfTheFirst) {
  const std::string wrapped = std::string(kImports) +
                              "hvd.init()\nhvd.rank(), hvd.size()\noptimizer = "
                              "hvd.DistributedOptimizer(optimizer)\n";  // lines 5 to 7
  for (const char* right : {
           "checkpoints = hvd.Checkpoints('c', keep=3)\nr = checkpoints.resume(model, optimizer)\n",
           "r = hvd.Checkpoints('c').resume(model)\n",
           "from hvd.torch import Checkpoints\nc = Checkpoints('c')\nc.resume(model, optimizer)\n",
           "@hvd.elastic.run\ndef train(state):\n  pass\ntrain(make())\n",
           "@hvd.elastic.run(reset_limit=3)\ndef train(state):\n  pass\ntrain(make())\n",
           "from horovod.torch.elastic import run\n@run\ndef train(s):\n  pass\ntrain(make())\n",
           "hvd.elastic.run(train)(make())\n",
           "state = Own(model)\nstate.sync()\n",
           "s = hvd.elastic.ObjectState(params=params)\nhvd.elastic.run(train)(s)\n",
           "model = torch.nn.parallel.DistributedDataParallel(model)\n",
           "from torch.nn.parallel import DistributedDataParallel as D\nmodel = D(model)\n",
           "model = hvd.load_model('a.keras')\n",
           "state = None\nckpt = hvd.broadcast_object(found, "
           "0)\nmodel.load_state_dict(ckpt['m'])\n",
           "import torch.distributed as dist\nfor p in net.parameters():\n"
           "  dist.broadcast(p.data, 0)\n",
           "net = [hvd.broadcast(w, 0) for w in net.get_weights()]\n",
           "params = tree_map(lambda p: hvd.broadcast(p, 0), params)\n",
           "def send(p):\n  return hvd.broadcast(p, 0)\nnet = tree_map(send, net)\n",
           "callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]\n",
       }) {
    EXPECT_EQ(seen("no-broadcast", wrapped + right), "") << right;
  }
  const PythonCase cases[] = {
      {"hvd.Checkpoints('c').save(1, model)\n", "error:7"},
      {"trainer.resume(model)\n", "error:7"},
      {"found = hvd.Checkpoints('c').load()\n", "note:7"},
      {"model = build()\nif a:\n  model = hvd.load_model('a.keras')\n", "note:7"},
      {"model = hvd.load_model('a.keras') if a else build()\n", "note:7"},
      {"s = hvd.elastic.ObjectState(epoch=0)\nhvd.elastic.run(train)(s)\n", "error:7"},
      {"torch.cuda.sync()\n", "error:7"},
      {"D = torch.nn.parallel.DistributedDataParallel(model, init_sync=False)\n", "error:7"},
      {"o.load_opt(hvd.broadcast_object(epoch, 0))\n", "error:7"},
  };
  for (const PythonCase& one : cases) {
    EXPECT_EQ(seen("no-broadcast", wrapped + one.text), one.found) << one.text;
  }
  EXPECT_EQ(seen("no-broadcast", wrapped + "checkpoints.resume(model)\n",
                 {"import hvd.torch as hvd\ncheckpoints = hvd.Checkpoints('c')\n"}),
            "");
}

TEST(PythonRules, FindStepsThatWereLeftOut) {
  const std::string imports = kImports;
  const std::string wrapped =
      "hvd.init()\nhvd.rank(), hvd.size()\noptimizer = "
      "hvd.DistributedOptimizer(optimizer)\n";  // lines 5 to 7
  EXPECT_EQ(seen("no-broadcast", imports + wrapped), "error:7");
  EXPECT_EQ(seen("no-broadcast", imports + wrapped + "np.broadcast_to(a, b)\n"), "error:7");
  EXPECT_EQ(seen("no-broadcast", imports + wrapped + "hvd.broadcast_optimizer_state(o, 0)\n"),
            "error:7");
  EXPECT_EQ(seen("no-broadcast", imports + wrapped + "hvd.broadcast(epoch, root_rank=0)\n"),
            "error:7");
  EXPECT_EQ(seen("no-broadcast", imports + wrapped + "torch.manual_seed(1)\n"), "note:7");
  EXPECT_EQ(seen("no-broadcast", imports + wrapped + "torch.manual_seed(hvd.rank())\n"), "error:7");
  for (const char* seed : {"jax.random.PRNGKey(0)\n", "jax.random.key(0)\n", "nnx.Rngs(0)\n"}) {
    EXPECT_EQ(seen("no-broadcast", imports + wrapped + "import jax\n" + seed), "note:7") << seed;
  }
  EXPECT_EQ(seen("no-broadcast", imports + wrapped + "jax.random.PRNGKey(hvd.rank())\n"),
            "error:7");
  EXPECT_EQ(seen("no-broadcast", imports + wrapped + "# hvd.broadcast_parameters\n"), "error:7");
  for (const char* right : {"hvd.broadcast_parameters(model.state_dict(), root_rank=0)\n",
                            "callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]\n",
                            "for p in model.parameters():\n    hvd.broadcast_(p.data, 0)\n",
                            "for w in weights:\n    w.assign(hvd.broadcast(w.weight, 0))\n",
                            "state = hvd.elastic.TorchState(model)\n",
                            "model.load(hvd.broadcast_object(model.state_dict()))\n"}) {
    EXPECT_EQ(seen("no-broadcast", imports + wrapped + right), "") << right;
  }
  EXPECT_EQ(seen("no-broadcast", imports + wrapped, {"hvd.broadcast_parameters(a)\n"}), "");
  EXPECT_EQ(seen("no-broadcast", imports + "hvd.init()\nhvd.allreduce(x)\n"), "");

  EXPECT_EQ(seen("no-init", imports + "print(hvd.rank())\n"), "error:5");
  EXPECT_EQ(seen("no-init", imports + "def main():\n    print(hvd.rank())\nmain()\n"), "error:6");
  EXPECT_EQ(seen("no-init", imports + "hvd.init()\nprint(hvd.rank())\n"), "");
  EXPECT_EQ(seen("no-init", imports + "print(hvd.rank())\n", {"import hvd\nhvd.init()\n"}), "");
  EXPECT_EQ(seen("no-init", imports + "def part():\n    return hvd.rank()\n"), "");  // a module
  EXPECT_EQ(seen("no-init", "from hvd.torch import init, rank\ninit()\nprint(rank())\n"), "");

  EXPECT_EQ(seen("unscaled-rate", imports + "hvd.init()\nhvd.DistributedOptimizer(o)\n"), "note:6");
  EXPECT_EQ(seen("unscaled-rate", imports + wrapped), "");
}

TEST(PythonRules, SayWhatTheyCannotJudge) {
  EXPECT_EQ(seen("not-judged", "import torch\nprint(1)\n"), "note:0");
  EXPECT_EQ(seen("not-judged", "import torch.distributed as d\nd.init_process_group()\n"),
            "note:0");
  EXPECT_EQ(seen("not-judged", "import helper\nhelper.main()\n", {"import hvd\n"}), "");
  EXPECT_EQ(seen("not-judged", std::string("import hvd\nhvd.init()\nhvd.size()\n") +
                                   "hvd.DistributedOptimizer(o)\n"),
            "note:4");
}

TEST(PythonTokens, SkipStringsAndCommentsAndJoinLines) {
  const std::vector<PythonLine> lines = read_python(
      "\xEF\xBB\xBF# first\n"
      "a = f(1,  # (\n"
      "  'x # y', '''\n)\n''')\n"
      "if a: \\\n  b\n"
      "\tc = rb'\\''; d = \"\\\\\"\n"
      "e = 'open\nf");
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0].line, 2);
  EXPECT_EQ(lines[0].tokens.size(), 10U);
  EXPECT_EQ(lines[1].line, 6);
  EXPECT_EQ(lines[1].tokens.back().text, "b");
  EXPECT_EQ(lines[2].indent, 8);
  EXPECT_EQ(lines[2].tokens[2].text, "\\'");
  EXPECT_EQ(lines[2].tokens.back().text, "\\\\");
  EXPECT_EQ(lines[4].tokens[0].text, "f");
}

TEST(PythonTokens, JoinLinesThatEndAsOnDos) {
  const std::vector<PythonLine> lines =
      read_python("if a \\\r\n    and b:\r\n  c = 'd\\\r\ne'\r\nf\r\n");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].tokens.size(), 5U);
  EXPECT_EQ(lines[1].line, 3);
  EXPECT_EQ(lines[1].tokens.back().text, "d\\\r\ne");
  EXPECT_EQ(lines[2].line, 5);
}

TEST(PythonTokens, KnowTheNamesInFormattedStrings) {
  EXPECT_EQ(names_in_braces("a{b}{{c}}{d.e:{f}}g"), (std::vector<std::string>{"b", "d", "e", "f"}));
  EXPECT_TRUE(names_in_braces("{").empty());
}

TEST(PythonScript, GivesEachStatementALineOfItsOwn) {
  const PythonScript script = parse_python(
      "if a: b; c()\nelse: d\nx = {1: 2}; y = z[1:2]\ndef f(n: int = 3) -> int: yield n\n"
      "case = lambda v: v\ncase: int = 1\nfor e in (lambda: 1, 2): pass\nasync def g(): h\n");
  std::string lines;
  for (const PythonLine& line : script.lines) {
    lines += std::to_string(line.line) + "/" + std::to_string(line.indent) + " ";
    for (const PythonToken& token : line.tokens) lines += token.text;
    lines += "\n";
  }
  EXPECT_EQ(lines,
            "1/0 ifa:\n1/1 b\n1/1 c()\n2/0 else:\n2/1 d\n3/0 x={1:2}\n3/0 y=z[1:2]\n"
            "4/0 deff(n:int=3)->int:\n4/1 yieldn\n5/0 case=lambdav:v\n6/0 case:int=1\n"
            "7/0 forein(lambda:1,2):\n7/1 pass\n8/0 asyncdefg():\n8/1 h\n");
}

TEST(PythonScript, KnowsWhoIsCalled) {
  const PythonScript script = parse_python(
      "import torch\nimport torch.nn as nn, os\nfrom torch.utils.data import (\n  DataLoader as "
      "L,\n"
      "  Dataset)\nfrom . import own\nL(x, *y, k=f(1))\nnn.Linear(1)\na().save(2)\n");
  std::string paths;
  for (const PythonCall& call : script.calls) paths += call.path + " ";
  EXPECT_EQ(paths, "torch.utils.data.DataLoader f torch.nn.Linear a save ");
  EXPECT_EQ(script.calls[0].arguments.size(), 3U);
  EXPECT_NE(find_argument(script.calls[0], "k"), nullptr);
  EXPECT_TRUE(hides_arguments(script.calls[0]));
  EXPECT_FALSE(script.calls[4].is_named);
  EXPECT_TRUE(is_of_hvd("self.hvd.rank"));
  EXPECT_FALSE(is_of_hvd("hvdx.rank"));
}

}  // namespace
}  // namespace hvd
