// SPDX-License-Identifier: Apache-2.0
// Ids that are taken back, in every order of events of small worlds: the model of the protocol with
// one id, and a search through all that may happen next.
#include <gtest/gtest-spi.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "protocol_model.h"

namespace hvd::protocol_model {
namespace {

struct Step {
  Model::Event event;
  int rank;
};

constexpr std::array kEvents = {Model::Event::kSubmit,    Model::Event::kReadLog,
                                Model::Event::kShowBits,  Model::Event::kHearMember,
                                Model::Event::kHearChild, Model::Event::kHearParent};

/// Names and their uses, one letter each, that all ranks submit; one id.
Plan plan_of(const std::string& program) {
  Plan plan;
  plan.all_stay = true;
  plan.ids = 1;
  plan.idle_uses = 0;
  for (const char name : program) plan.program.emplace_back(1, name);
  return plan;
}

/// Visits every state that can be reached, by the way that led there first. Two ways lead to one
/// state where each leader has seen the same in the same order, and each other member is the same.
class Search {
 public:
  /// Stops once `has_failed`.
  Search(Shape shape, Plan plan, std::function<bool()> has_failed = testing::Test::HasFailure)
      : shape_(shape), plan_(std::move(plan)), has_failed_(std::move(has_failed)) {}

  void run() {
    std::vector<Step> path;
    visit(path);
  }
  std::size_t states() const { return seen_.size(); }
  std::size_t ends() const { return ends_; }
  std::size_t ends_with_evictions() const { return ends_with_evictions_; }

 private:
  /// What has happened at each leader, and each other member, as text.
  using History = std::vector<std::string>;

  History history() const { return History(static_cast<std::size_t>(shape_.size())); }

  void apply(Model& model, History& history, const Step& step) const {
    const int leader = shape_.node_of(step.rank) * shape_.local_size;
    const bool is_own = step.event == Model::Event::kSubmit || step.event == Model::Event::kReadLog;
    std::string text = std::to_string(static_cast<int>(step.event)) + std::to_string(step.rank);
    if (!is_own) {
      for (const auto id : model.member(step.rank).bits) text += format_text("+{}", id);
    }
    history[static_cast<std::size_t>(is_own ? step.rank : leader)] += text + ' ';
    model.act(step.event, step.rank);
  }

  /// A member that leads nobody is what it knows and has said; what it has yet to read follows from
  /// what its leader has seen.
  std::string state_of(Model& model, const History& history) const {
    std::string state;
    for (int rank = 0; rank < shape_.size(); ++rank) {
      const Member& member = model.member(rank);
      if (rank % shape_.local_size == 0) {
        state += history[static_cast<std::size_t>(rank)] + '|';
        continue;
      }
      state += format_text("{} {}", member.to_submit.size(), member.down.size());
      for (const auto id : member.bits) state += format_text("+{}", id);
      for (const ControlMessage& message : member.up) {
        const auto* announce = std::get_if<Announce>(&message);
        state += announce == nullptr ? " answer" : " announce " + announce->name;
      }
      for (const auto& [text, name] : member.names) {
        state += format_text(" {}{}:{}.{}", text, name.id ? static_cast<int>(*name.id) : -1,
                             name.current.value_or(-1), name.queued.size());
      }
      state += '|';
    }
    return state;
  }

  void visit(std::vector<Step>& path) {
    Model model(shape_, plan_, 0);
    History history = this->history();
    for (const Step& step : path) apply(model, history, step);
    if (has_failed_() || !seen_.insert(state_of(model, history)).second) return;
    bool has_next = false;
    for (int rank = 0; rank < shape_.size(); ++rank) {
      for (const Model::Event event : kEvents) {
        if (!model.can(event, rank)) continue;
        has_next = true;
        path.push_back({event, rank});
        visit(path);
        path.pop_back();
      }
    }
    if (!has_next) check_end(model);
  }

  void check_end(Model& model) {
    ++ends_;
    std::map<std::string, std::size_t> uses;
    for (const std::string& name : plan_.program) ++uses[name];
    for (int rank = 0; rank < shape_.size(); ++rank) {
      EXPECT_EQ(model.member(rank).log, model.member(0).log);
      for (const auto& [name, count] : uses) {
        EXPECT_EQ(model.member(rank).outcomes[name], std::vector<Code>(count, Code::kOk)) << name;
      }
    }
    if (model.member(0).times_evicted > 0) ++ends_with_evictions_;
  }

  Shape shape_;
  Plan plan_;
  std::function<bool()> has_failed_;
  std::unordered_set<std::string> seen_;
  std::size_t ends_ = 0;
  std::size_t ends_with_evictions_ = 0;
};

/// One node, whose ranks set bits, and two, whose leaders send messages.
constexpr Shape kWorlds[] = {{1, 2}, {2, 1}};

/// With one id: it goes from a to b, while a may be announced by it once more.
constexpr const char* kProgram = "aabba";

TEST(EvictionModel, NoOrderOfEventsBreaksAPromise) {
  for (const Shape& shape : kWorlds) {
    SCOPED_TRACE(format_text("{} nodes of {}", shape.nodes, shape.local_size));
    Search search(shape, plan_of(kProgram));
    search.run();
    if (HasFailure()) return;
    EXPECT_GT(search.states(), 1'000U);
    EXPECT_EQ(search.ends_with_evictions(), search.ends());
  }
}

/// Whether the search finds what is wrong with a protocol that does this.
bool finds(const Shape& shape, Mutant mutant) {
  Plan plan = plan_of(kProgram);
  plan.mutant = mutant;
  testing::TestPartResultArray failures;
  testing::ScopedFakeTestPartResultReporter reporter(
      testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
  Search search(shape, std::move(plan), [&] { return failures.size() > 0; });
  search.run();
  return failures.size() > 0;
}

TEST(EvictionModel, AnIdThatIsFreeBeforeAllRanksHaveAnsweredIsFound) {
  for (const Shape& shape : kWorlds) {
    EXPECT_TRUE(finds(shape, Mutant::kFreesAtOnce));
  }
}

TEST(EvictionModel, AnAnswerThatOvertakesABitIsFound) {
  EXPECT_TRUE(finds({1, 2}, Mutant::kAnswerOvertakesBits));
}

}  // namespace
}  // namespace hvd::protocol_model
