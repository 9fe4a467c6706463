// Damaged files of every kind: an answer or one message, never a crash, an
// exception or (with sanitizers) undefined behaviour.
//
// Seeded and bounded: the same files on every machine. A failure names its
// case; `damaged_files` of that number is the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/base/json.h"
#include "shardwright/ir/graph.h"
#include "shardwright/plan/plan_testing.h"
#include "shardwright/planner/entry.h"
#include "shardwright/planner/explain.h"
#include "shardwright/solver/problem_json.h"
#include "shardwright/solver/random_problem.h"
#include "shardwright/solver/solve.h"
#include "shardwright/verify/verify.h"

namespace shardwright::planner {
namespace {

using plan::stored;
using solver::TestRandom;

// ---- making damage ---------------------------------------------------------

void collect(Json& json, std::vector<Json*>& out) {
  out.push_back(&json);
  if (!json.is_structured()) return;
  for (Json& item : json) collect(item, out);
}

template <typename T>
const T& any_of(const std::vector<T>& list, TestRandom& random) {
  return list[random.below(static_cast<std::int32_t>(list.size()))];
}

// Where ranges of types end, and one of each type.
Json awkward_value(TestRandom& random) {
  using Limits = std::numeric_limits<std::int64_t>;
  static const std::vector<Json> kValues = {
      nullptr,
      true,
      false,
      0,
      1,
      -1,
      2,
      3,
      7,
      1000003,
      std::int64_t{1} << 31,
      std::int64_t{1} << 32,
      -(std::int64_t{1} << 31) - 1,
      std::int64_t{1} << 40,
      std::int64_t{1} << 61,
      Limits::max(),
      Limits::min(),
      std::numeric_limits<std::uint64_t>::max(),
      0.5,
      -1.5,
      1e-300,
      1e18,
      1e19,
      1e308,
      -1e308,
      "",
      "x",
      "nan",
      "[a, b]",
      "[b:a, -] partial{a}",
      Json::array(),
      Json::array({0}),
      Json::array({1, -1, 1}),
      Json::array({Json::array({1, 2})}),
      Json::object(),
      Json::object({{"c", 1e300}, {"f", {0, 0, 0}}})};
  return any_of(kValues, random);
}

void damage_number(Json& json, TestRandom& random) {
  if (!json.is_number_integer()) {
    json = json.get<double>() * (random.chance(0.5) ? -1.0 : 1e200);
    return;
  }
  const auto number = json.get<std::int64_t>();
  const std::vector<std::int64_t> shifts = {1, -1, 2, 5, 1 << 20};
  const auto is_below = [number](std::int64_t bound) {
    return -bound < number && number < bound;
  };
  if (random.chance(0.7) && is_below(std::int64_t{1} << 60)) {
    json = number + any_of(shifts, random);
  } else if (is_below(std::int64_t{1} << 31)) {
    json = number * (std::int64_t{1} << random.below(31));
  } else {
    json = -1;
  }
}

void damage_text_value(Json& json, TestRandom& random) {
  auto text = json.get<std::string>();
  if (text.empty() || random.chance(0.2)) {
    text += "x";
  } else {
    const auto at =
        static_cast<std::size_t>(random.below(static_cast<int>(text.size())));
    if (random.chance(0.5)) {
      text.erase(at, 1);
    } else {
      text[at] =
          any_of(std::vector<char>{'a', 'b', ':', '-', ']', '9', ' '}, random);
    }
  }
  json = text;
}

void damage_list(Json& json, TestRandom& random) {
  if (json.empty()) {
    json.push_back(awkward_value(random));
    return;
  }
  const std::int32_t at = random.below(static_cast<std::int32_t>(json.size()));
  const std::int32_t to = random.below(static_cast<std::int32_t>(json.size()));
  switch (random.below(3)) {
    case 0:
      json.erase(at);
      break;
    case 1:
      json.push_back(Json(json[at]));
      break;
    default:
      std::swap(json[at], json[to]);
  }
}

void damage_object(Json& json, TestRandom& random) {
  if (json.empty()) {
    json["x"] = awkward_value(random);
    return;
  }
  auto member = json.begin();
  std::advance(member, random.below(static_cast<std::int32_t>(json.size())));
  json.erase(member);
}

void damage_value(Json& json, TestRandom& random) {
  if (json.is_number()) {
    damage_number(json, random);
  } else if (json.is_string()) {
    damage_text_value(json, random);
  } else if (json.is_array()) {
    damage_list(json, random);
  } else if (json.is_object()) {
    damage_object(json, random);
  } else {
    json = awkward_value(random);
  }
}

// One to three edits: a value of another kind, a little change, a part taken
// from elsewhere in the file.
void damage(Json& json, TestRandom& random) {
  const std::int32_t num_edits = 1 + random.below(3);
  for (std::int32_t i = 0; i < num_edits; ++i) {
    std::vector<Json*> places;
    collect(json, places);
    Json& place = *any_of(places, random);
    switch (random.below(4)) {
      case 0:
        place = awkward_value(random);
        break;
      case 1:
        place = Json(*any_of(places, random));
        break;
      default:
        damage_value(place, random);
    }
  }
}

// Bytes that are no longer JSON, or just so.
std::string damaged_bytes(std::string text, TestRandom& random) {
  const auto place = [&] {
    return static_cast<std::size_t>(
        random.below(static_cast<std::int32_t>(text.size())));
  };
  const std::size_t at = place();
  switch (random.below(5)) {
    case 0:
      return text.substr(0, at);
    case 1:
      text[at] = static_cast<char>(random.below(256));
      return text;
    case 2:
      return text.erase(at, place());
    case 3:
      return text.insert(at, std::string(100000, '['));
    default:
      return text.insert(at, text.substr(place(), 100));
  }
}

// A plan's own hash, and that of its graph, would refuse every change first.
void repair_hashes(const Json& graph_json, Json& plan_json) {
  const auto graph = ir::graph_from_json(graph_json);
  if (!plan_json.is_object()) return;
  if (graph) plan_json["graph_hash"] = ir::graph_hash(*graph);
  Json axes = Json::array();
  try {
    for (const Json& axis : plan_json.at("mesh").at("axes")) {
      axes.push_back({{"name", axis.at("name")}, {"size", axis.at("size")}});
    }
    // As plan::plan_hash prints the program.
    plan_json["plan_hash"] = sha256_hex(Json{
        {"graph_hash", plan_json.at("graph_hash")},
        {"axes", axes},
        {"parameters", plan_json.at("parameters")},
        {"steps", plan_json.at("steps")},
        {"regions", plan_json.at("regions")},
        {"outputs", plan_json.at("outputs")},
        {"loss", plan_json.at("loss")}}.dump());
  } catch (const std::exception&) {
    // A part is missing: the file is refused for that.
  }
}

// ---- judging the outcome ---------------------------------------------------

// Counts, so that a test can tell that its damage went past the first check.
struct Outcomes {
  int answers = 0;
  int refusals = 0;
};

void expect_answer_or_message(const std::function<Result<std::string>()>& call,
                              const std::string& name, Outcomes& outcomes) {
  try {
    const Result<std::string> result = call();
    if (result) {
      ++outcomes.answers;
      EXPECT_FALSE(result->empty()) << name;
      return;
    }
    ++outcomes.refusals;
    EXPECT_THAT(result.error().message, testing::StartsWith("[")) << name;
    EXPECT_THAT(result.error().message, testing::Not(testing::HasSubstr("\n")))
        << name;
  } catch (const std::exception& error) {
    ADD_FAILURE() << name << " threw: " << error.what();
  }
}

struct Files {
  std::string graph;
  std::string plan;
};

Files damaged_files(const Json& graph, const Json& plan, std::uint64_t number) {
  TestRandom random(number);
  Json graph_json = graph;
  Json plan_json = plan;
  const bool in_graph = random.chance(0.5);
  if (random.chance(0.1)) {
    Files files{graph.dump(), plan.dump()};
    std::string& text = in_graph ? files.graph : files.plan;
    text = damaged_bytes(text, random);
    return files;
  }
  damage(in_graph ? graph_json : plan_json, random);
  if (random.chance(0.9)) repair_hashes(graph_json, plan_json);
  return {graph_json.dump(), plan_json.dump()};
}

struct Stored {
  std::string graph;
  std::string plan;
  int num_cases = 0;
};

void PrintTo(const Stored& stored, std::ostream* out) { *out << stored.plan; }

class DamagedFiles : public testing::TestWithParam<Stored> {};

TEST_P(DamagedFiles, AreAnsweredOrRefused) {
  const Json graph = stored(GetParam().graph);
  const Json plan = stored(GetParam().plan);
  Outcomes outcomes;
  for (int i = 0; i < GetParam().num_cases; ++i) {
    const Files files = damaged_files(graph, plan, i);
    const std::string name = GetParam().plan + ", case " + std::to_string(i);
    expect_answer_or_message(
        [&] { return verify::verify_plan_text(files.graph, files.plan); },
        name + ", verify", outcomes);
    expect_answer_or_message(
        [&] { return explain_text(files.graph, files.plan, ""); },
        name + ", explain", outcomes);
    expect_answer_or_message(
        [&] { return replay_text(files.graph, files.plan); }, name + ", replay",
        outcomes);
  }
  EXPECT_GT(outcomes.answers, GetParam().num_cases / 4);
  EXPECT_GT(outcomes.refusals, GetParam().num_cases / 4);
}

INSTANTIATE_TEST_SUITE_P(
    Planner, DamagedFiles,
    testing::Values(Stored{"mlp_graph", "mlp_2", 600},
                    Stored{"mlp_graph", "mlp_2x2", 600},
                    Stored{"gather_graph", "gather_2", 300},
                    Stored{"norm_graph", "norm_2x2", 300},
                    Stored{"gpt2_graph", "gpt2_recompute", 100}),
    [](const auto& tested) { return tested.param.plan; });

TEST(DamagedGraphs, ArePlannedOrRefused) {
  const std::vector<Json> graphs = {stored("mlp_graph"), stored("gather_graph"),
                                    stored("norm_graph")};
  const Json options = {
      {"cluster", "4 h100"}, {"mesh", {2, 2}}, {"time_limit_s", 1}};
  Outcomes outcomes;
  for (int i = 0; i < 600; ++i) {
    TestRandom random(i);
    Json graph = graphs[i % graphs.size()];
    Json wish = options;
    damage(random.chance(0.8) ? graph : wish, random);
    const std::string name = "case " + std::to_string(i);
    expect_answer_or_message(
        [&] { return make_plan_text(graph.dump(), wish.dump()); }, name,
        outcomes);
  }
  EXPECT_GT(outcomes.answers, 60);
  EXPECT_GT(outcomes.refusals, 60);
}

Result<std::string> solved(const std::string& text) {
  SW_ASSIGN_OR_RETURN(const Json json, parse_json(text, "problem"));
  SW_ASSIGN_OR_RETURN(const solver::ChoiceProblem problem,
                      solver::problem_from_json(json, "problem"));
  solver::SolveOptions options;
  options.tick_limit = 1000000;
  const solver::Answer answer = solver::solve(problem, options);
  return std::string(to_string(answer.status));
}

TEST(DamagedProblems, AreSolvedOrRefused) {
  Outcomes outcomes;
  for (int i = 0; i < 2000; ++i) {
    TestRandom random(i);
    Json problem = solver::problem_to_json(solver::random_problem(i));
    std::string text = problem.dump();
    if (random.chance(0.1)) {
      text = damaged_bytes(text, random);
    } else {
      damage(problem, random);
      text = problem.dump();
    }
    const std::string name = "case " + std::to_string(i);
    expect_answer_or_message([&] { return solved(text); }, name, outcomes);
  }
  EXPECT_GT(outcomes.answers, 200);
  EXPECT_GT(outcomes.refusals, 200);
}

}  // namespace
}  // namespace shardwright::planner
