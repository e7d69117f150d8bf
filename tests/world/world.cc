// SPDX-License-Identifier: Apache-2.0
#include "world/world.h"

#include <numeric>

#include "world/world_backends.h"

namespace hvd {

EngineOptions World::quick_options() {
  EngineOptions options;
  options.spin = 20;
  const Environment environment = Environment::of_process();
  options.nccl = NcclSettings::from(environment).value();
  options.gpu_driver = GpuDriverSettings::from(environment);
  return options;
}

World::World(std::vector<int> node_sizes, const EngineOptions& options) {
  ThreadWorldOptions world;
  world.size = std::accumulate(node_sizes.begin(), node_sizes.end(), 0);
  world.node_sizes = std::move(node_sizes);
  world.memory_bytes = [](int local_size) {
    return node_memory_bytes(world_backends(), local_size);
  };
  world.arena_bytes = kArenaBytes;
  auto wirings = wire_threads(world);
  EXPECT_TRUE(wirings.is_ok()) << wirings.status().message();
  for (Wiring& wiring : wirings.value()) {
    auto engine = Engine::start(std::move(wiring), world_backends(), options);
    EXPECT_TRUE(engine.is_ok()) << engine.status().message();
    engines_.push_back(std::move(engine).value());
  }
}

World::~World() {
  run([](int, Engine& engine) {
    const Status status = engine.shutdown(Deadline::after(std::chrono::seconds(10)));
    EXPECT_TRUE(status.is_ok()) << status.message();
  });
}

void World::run(const std::function<void(int, Engine&)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size(); ++rank) {
    Engine* engine = engines_[static_cast<std::size_t>(rank)].get();
    if (engine == nullptr) continue;
    threads.emplace_back([&body, rank, engine] { body(rank, *engine); });
  }
  for (std::thread& thread : threads) thread.join();
}

Request allreduce_request(std::string name, std::vector<float>& values, Allreduce operation) {
  Request request;
  request.name = std::move(name);
  request.operation = operation;
  request.tensors.push_back({values.data(),
                             values.data(),
                             DataType::kFloat32,
                             {static_cast<std::int64_t>(values.size())},
                             0});
  return request;
}

HeldEngine::HeldEngine(Engine& engine) : engine_(engine) {
  Request request = allreduce_request("holder", values_);
  request.on_complete = [this, goes_on = may_go_on_.get_future().share()](const Status&) {
    held_.set_value();
    goes_on.wait();
  };
  auto handle = engine.submit(std::move(request));
  EXPECT_TRUE(handle.is_ok()) << handle.status().message();
  handle_ = handle.value();
  held_.get_future().wait();
}

HeldEngine::~HeldEngine() { engine_.release(handle_); }

Status run_request(Engine& engine, Request request) {
  static thread_local bool in_one_call = false;
  in_one_call = !in_one_call;
  Engine::Handle handle = 0;
  Status status;
  if (in_one_call) {
    status = engine.run(std::move(request), {}, soon(), handle);
  } else {
    HVD_TRY_ASSIGN(handle, engine.submit(std::move(request)));
    status = engine.wait(handle, soon());
  }
  if (handle != 0) engine.release(handle);
  return status;
}

Status run_again(Engine& engine, std::string_view key_text, Request request, Deadline deadline,
                 Engine::Handle& handle) {
  const KeptRequests::Key key = KeptRequests::key_of(key_text);
  PendingPtr kept = engine.take_kept(key);
  if (kept == nullptr) return engine.run(std::move(request), key, deadline, handle);
  kept->request.tensors.front().input = request.tensors.front().input;
  kept->request.tensors.front().output = request.tensors.front().output;
  return engine.run(std::move(kept), deadline, handle);
}

}  // namespace hvd
