// Files of the google/iopddl benchmark: what they mean, and that a bad one is
// refused with its reason, whatever is wrong with it.
#include "shardwright/solver/iopddl.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "shardwright/solver/brute_force.h"
#include "shardwright/solver/evaluate.h"
#include "shardwright/solver/random_problem.h"
#include "shardwright/solver/solve.h"

namespace shardwright::solver {
namespace {

constexpr const char* kExample = R"({
  "problem": {
    "name": "example",
    "nodes": {
      "intervals": [[30, 70], [40, 70], [50, 120], [110, 140], [110, 150]],
      "costs": [[15], [55, 65], [25, 45, 35], [85, 75], [95]],
      "usages": [[10], [25, 25], [15, 20, 15], [10, 10], [15]]
    },
    "edges": {
      "nodes": [[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]],
      "costs": [[30, 40], [50, 10, 40], [90, 10, 20, 80], [60, 20, 30],
                [70, 60]]
    },
    "usage_limit": 50
  }
})";

Result<ChoiceProblem> read(const std::string& text) {
  std::istringstream stream(text);
  return read_iopddl(stream, "f");
}

std::string reason(const std::string& text) {
  const Result<ChoiceProblem> problem = read(text);
  return problem ? "accepted" : problem.error().message;
}

// A file of two nodes with these lists; an empty text leaves the list out.
struct Lists {
  std::string intervals = "[[0, 2], [1, 3]]";
  std::string costs = "[[1, 2], [3]]";
  std::string usages = "[[4, 5], [6]]";
  std::string edge_nodes = "[[0, 1]]";
  std::string edge_costs = "[[7, 8]]";
  std::string limit = "9";

  std::string text() const {
    const auto member = [](const char* key, const std::string& value) {
      return value.empty() ? "" : fmt::format(R"("{}": {},)", key, value);
    };
    return fmt::format(
        R"({{"problem": {{"nodes": {{{}{}{}"n": 0}}, "edges": {{{}{}"n": 0}},
            {}"n": 0}}}})",
        member("intervals", intervals), member("costs", costs),
        member("usages", usages), member("nodes", edge_nodes),
        member("costs", edge_costs), member("usage_limit", limit));
  }
};

std::string reason(std::string Lists::*list, const std::string& value) {
  Lists lists;
  lists.*list = value;
  return reason(lists.text());
}

ChoiceProblem accepted(std::string Lists::*list, const std::string& value) {
  Lists lists;
  lists.*list = value;
  const Result<ChoiceProblem> problem = read(lists.text());
  EXPECT_TRUE(problem.has_value()) << (problem ? "" : problem.error().message);
  return problem.value_or(ChoiceProblem{});
}

void expect_solved(const ChoiceProblem& problem, std::int64_t cost,
                   std::int64_t peak) {
  SolveOptions options;
  options.gap = 0;
  const Answer answer = solve(problem, options);
  EXPECT_EQ(answer.status, Status::kOptimal);
  EXPECT_EQ(answer.cost, cost);
  EXPECT_EQ(answer.peak, peak);
}

TEST(IopddlTest, TheExampleOfTheFormat) {
  const Result<ChoiceProblem> problem = read(kExample);
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  EXPECT_EQ(problem->num_positions, 150);
  EXPECT_EQ(problem->limit, 50);
  ASSERT_EQ(problem->nodes.size(), 5U);
  EXPECT_EQ(problem->nodes[2].choices[1].cost, 45);
  EXPECT_EQ(problem->nodes[2].choices[1].intervals,
            (std::vector<MemoryInterval>{{50, 120, 20}}));
  ASSERT_EQ(problem->edges.size(), 5U);
  EXPECT_EQ(problem->edges[2].a, 1);
  EXPECT_EQ(problem->edges[2].b, 3);
  // Row by row: the first node's choice counts the lines.
  EXPECT_EQ(problem->edges[2].table->at(0, 1), 10);
  EXPECT_EQ(problem->edges[2].table->at(1, 0), 20);
  EXPECT_EQ(brute_force(*problem).cost, 445);
  expect_solved(*problem, 445, 50);
}

TEST(IopddlTest, TheExampleFile) {
  const char* const shared = std::getenv("SHARDWRIGHT_SHARED");
  const std::filesystem::path folder =
      shared != nullptr
          ? std::filesystem::path(shared)
          : std::filesystem::path(SW_SOURCE_DIR) / ".." / "shared";
  const auto path = folder / "data" / "iopddl" / "example.json";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "NOT TESTED: " << path
                 << " is missing; set SHARDWRIGHT_SHARED to its folder";
  }
  std::ifstream stream(path);
  const Result<ChoiceProblem> problem = read_iopddl(stream, path.string());
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  expect_solved(*problem, 445, 50);
}

TEST(IopddlTest, LooksLikeIopddl) {
  EXPECT_TRUE(looks_like_iopddl(kExample));
  EXPECT_TRUE(looks_like_iopddl(R"({"problem":)"));
  EXPECT_FALSE(looks_like_iopddl(R"({"positions": 1, "problem": 2})"));
  EXPECT_FALSE(looks_like_iopddl(R"(["problem"])"));
  EXPECT_FALSE(looks_like_iopddl("{"));
  EXPECT_FALSE(looks_like_iopddl(""));
}

TEST(IopddlTest, CostsFrom1e18OnAreInfinite) {
  for (const char* infinite :
       {"1000000000000000000", "1e18", "1.0e18", "1000000000000000001",
        "18446744073709551615", "1e300", "99999999999999999999999"}) {
    SCOPED_TRACE(infinite);
    ChoiceProblem node =
        accepted(&Lists::costs, fmt::format("[[{}, 2], [3]]", infinite));
    EXPECT_EQ(node.nodes.at(0).choices[0].cost, kInfinite);
    node.limit.reset();
    expect_solved(node, 2 + 3 + 8, 5 + 6);
    ChoiceProblem edge =
        accepted(&Lists::edge_costs, fmt::format("[[{}, 8]]", infinite));
    EXPECT_EQ(edge.edges.at(0).table->at(0, 0), kInfinite);
    EXPECT_EQ(edge.edges.at(0).table->at(1, 0), 8);
    edge.limit.reset();
    expect_solved(edge, 2 + 3 + 8, 5 + 6);
  }
}

TEST(IopddlTest, UnknownKeysAndAnyOrder) {
  const Result<ChoiceProblem> problem = read(R"({
      "usages": [[1]], "extra": [{"problem": {"nodes": {"costs": 5}}}],
      "problem": {"usage_limit": 9, "nodes": {}, "other": {"nodes":
      {"intervals": 3}}, "edges": {"costs": [[7, 8]], "more": null,
      "nodes": [[0, 1]]}, "version": 1.5},
      "problem": {"nodes": {"usages": [[4, 5], [6]], "names": ["a", "b"],
      "costs": [[1, 2], [3]], "intervals": [[0, 2], [1, 3]]}}})");
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  const Result<ChoiceProblem> plain = read(Lists().text());
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  for (std::int32_t k = 0; k < 2; ++k) {
    const std::vector<std::int32_t> choice = {k, 0};
    EXPECT_EQ(evaluate(*problem, choice).cost, evaluate(*plain, choice).cost);
    EXPECT_EQ(memory_profile(*problem, choice), memory_profile(*plain, choice));
  }
  EXPECT_EQ(problem->limit, plain->limit);
}

TEST(IopddlTest, WholeNumbersMayBeWrittenAsFractions) {
  const ChoiceProblem problem = accepted(&Lists::costs, "[[1.0, 2e1], [-3]]");
  EXPECT_EQ(problem.nodes.at(0).choices[0].cost, 1);
  EXPECT_EQ(problem.nodes.at(0).choices[1].cost, 20);
  EXPECT_EQ(problem.nodes.at(1).choices[0].cost, -3);
}

TEST(IopddlTest, SeveralEdgesOnOnePairAdd) {
  Lists lists;
  lists.edge_nodes = "[[0, 1], [1, 0], [0, 1]]";
  lists.edge_costs = "[[7, 8], [10, 20], [7, 8]]";
  const Result<ChoiceProblem> problem = read(lists.text());
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  EXPECT_EQ(evaluate(*problem, std::vector<std::int32_t>{0, 0}).cost,
            1 + 3 + 7 + 10 + 7);
  EXPECT_EQ(evaluate(*problem, std::vector<std::int32_t>{1, 0}).cost,
            2 + 3 + 8 + 20 + 8);
  // Equal lists are kept once, where they mean the same.
  EXPECT_EQ(problem->edges[0].table, problem->edges[2].table);
}

// Equal lists of costs are different tables where the shapes differ.
TEST(IopddlTest, EqualListsOfOtherShapes) {
  Lists lists;
  lists.edge_nodes = "[[0, 1], [1, 0]]";
  lists.edge_costs = "[[7, 8], [7, 8]]";
  const Result<ChoiceProblem> problem = read(lists.text());
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  EXPECT_EQ(problem->edges[0].table->at(1, 0), 8);
  EXPECT_EQ(problem->edges[1].table->at(0, 1), 8);
}

TEST(IopddlTest, EmptyIntervalsAndNoUsageNeedNothing) {
  const ChoiceProblem problem =
      accepted(&Lists::intervals, "[[2, 2], [0, 2147483646]]");
  EXPECT_EQ(problem.num_positions, 2147483646);
  EXPECT_TRUE(problem.nodes.at(0).choices[0].intervals.empty());
  const ChoiceProblem free = accepted(&Lists::usages, "[[0, 5], [6]]");
  EXPECT_TRUE(free.nodes.at(0).choices[0].intervals.empty());
  EXPECT_EQ(free.nodes.at(0).choices[1].intervals.size(), 1U);
}

TEST(IopddlTest, NoNodes) {
  const Result<ChoiceProblem> problem =
      read(R"({"problem": {"nodes": {"intervals": [], "costs": [],
           "usages": []}, "edges": {"nodes": [], "costs": []},
           "usage_limit": 0}})");
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  expect_solved(*problem, 0, 0);
}

// Cut anywhere but in the space at its end, a file is no JSON any more.
TEST(IopddlTest, TruncatedFiles) {
  const std::string text = kExample;
  for (std::size_t size = 0; size < text.size(); ++size) {
    const Result<ChoiceProblem> problem = read(text.substr(0, size));
    ASSERT_FALSE(problem.has_value()) << size;
    EXPECT_EQ(problem.error().code, ErrorCode::kParseError);
    EXPECT_TRUE(problem.error().message.starts_with(
        "[solver] f: syntax error while parsing"))
        << problem.error().message;
  }
  EXPECT_EQ(
      reason(text.substr(0, 20)),
      "[solver] f: syntax error while parsing object key - unexpected end "
      "of input; expected string literal (byte 21)");
}

TEST(IopddlTest, WhatIsNoJson) {
  EXPECT_EQ(reason(&Lists::costs, "[[1, NaN], [3]]"),
            "[solver] f: syntax error while parsing value - invalid literal; "
            "last read: '1, N' (byte 68)");
  EXPECT_EQ(reason(Lists().text() + " 5"),
            "[solver] f: syntax error while parsing value - unexpected number "
            "literal; expected end of input (byte 203)");
  EXPECT_EQ(reason(&Lists::costs, "[[1, 1e999], [3]]"),
            "[solver] f: number overflow parsing '1e999' (byte 72)");
  // What was read last may be long, and may not be printable.
  EXPECT_LT(reason("{\"" + std::string(100'000, 'x') + "\xff").size(), 300U);
}

TEST(IopddlTest, MissingLists) {
  const std::string rest =
      "' is missing. Try: a file of the google/iopddl benchmark";
  EXPECT_EQ(reason(&Lists::intervals, ""),
            "[solver] f: 'nodes.intervals" + rest);
  EXPECT_EQ(reason(&Lists::costs, ""), "[solver] f: 'nodes.costs" + rest);
  EXPECT_EQ(reason(&Lists::usages, ""), "[solver] f: 'nodes.usages" + rest);
  EXPECT_EQ(reason(&Lists::edge_nodes, ""), "[solver] f: 'edges.nodes" + rest);
  EXPECT_EQ(reason(&Lists::edge_costs, ""), "[solver] f: 'edges.costs" + rest);
  EXPECT_EQ(reason(&Lists::limit, ""), "[solver] f: 'usage_limit' is missing");
  // So it is when the problem is no object, or a list of them.
  for (const std::string& text :
       {std::string("{}"), std::string(R"({"problem": 5})"),
        std::string(R"({"problem": "p"})"), std::string(R"({"problem": []})"),
        std::string("5"), "[" + std::string(kExample) + "]"}) {
    EXPECT_EQ(reason(text), "[solver] f: 'nodes.intervals" + rest) << text;
  }
}

TEST(IopddlTest, ListsThatAreThereTwice) {
  EXPECT_EQ(reason(&Lists::costs, R"([[1, 2], [3]], "costs": [[1, 2], [3]])"),
            "[solver] f: 'nodes.costs' is there twice");
  EXPECT_EQ(reason(&Lists::edge_nodes, R"([[0, 1]], "nodes": [])"),
            "[solver] f: 'edges.nodes' is there twice");
  EXPECT_EQ(reason(&Lists::limit, R"(9, "usage_limit": 10)"),
            "[solver] f: 'usage_limit' is there twice");
}

TEST(IopddlTest, WrongKinds) {
  EXPECT_EQ(reason(&Lists::costs, "5"),
            "[solver] f: expected a list of lists in 'nodes.costs', got 5 "
            "(entry 0)");
  EXPECT_EQ(reason(&Lists::costs, "[[1, 2], 3]"),
            "[solver] f: expected a list of whole numbers in 'nodes.costs', "
            "got 3 (entry 1)");
  EXPECT_EQ(reason(&Lists::costs, "[[1, [2]], [3]]"),
            "[solver] f: expected a whole number in 'nodes.costs', got a list "
            "(entry 0)");
  EXPECT_EQ(reason(&Lists::costs, R"([[1, {"a": 2}], [3]])"),
            "[solver] f: expected a whole number in 'nodes.costs', got an "
            "object (entry 0)");
  EXPECT_EQ(reason(&Lists::usages, "[[4, 1.5], [6]]"),
            "[solver] f: expected a whole number in 'nodes.usages', got 1.5 "
            "(entry 0)");
  EXPECT_EQ(reason(&Lists::usages, "[[4, -1e18], [6]]"),
            "[solver] f: expected a whole number in 'nodes.usages', got -1e18 "
            "(entry 0)");
  EXPECT_EQ(reason(&Lists::edge_costs, "[[7, null]]"),
            "[solver] f: expected a whole number in 'edges.costs', got null "
            "(entry 0)");
  EXPECT_EQ(reason(&Lists::edge_costs, "[[7, true]]"),
            "[solver] f: expected a whole number in 'edges.costs', got a truth "
            "value (entry 0)");
  EXPECT_EQ(reason(&Lists::edge_nodes, R"([["a\nb", 1]])"),
            "[solver] f: expected a whole number in 'edges.nodes', got 'a?b' "
            "(entry 0)");
  EXPECT_EQ(reason(&Lists::limit, "[9]"),
            "[solver] f: expected a whole number as 'usage_limit', got a list");
  EXPECT_EQ(reason(&Lists::limit, "{}"),
            "[solver] f: expected a whole number as 'usage_limit', got an "
            "object");
  EXPECT_EQ(reason(&Lists::limit, "9.5"),
            "[solver] f: expected a whole number as 'usage_limit', got 9.5");
  EXPECT_LT(
      reason(&Lists::limit, "\"" + std::string(100'000, 'x') + "\"").size(),
      300U);
}

TEST(IopddlTest, WrongLengths) {
  EXPECT_EQ(reason(&Lists::costs, "[[1, 2]]"),
            "[solver] f: expected as many entries in 'nodes.intervals' as in "
            "'nodes.costs', got 2 and 1");
  EXPECT_EQ(reason(&Lists::usages, "[[4, 5], [6], [7]]"),
            "[solver] f: expected as many entries in 'nodes.intervals' as in "
            "'nodes.usages', got 2 and 3");
  EXPECT_EQ(reason(&Lists::edge_costs, "[]"),
            "[solver] f: expected as many entries in 'edges.nodes' as in "
            "'edges.costs', got 1 and 0");
  EXPECT_EQ(reason(&Lists::usages, "[[4, 5], [6, 7]]"),
            "[solver] f: expected as many costs as usages, got 1 and 2 (node "
            "1)");
  EXPECT_EQ(reason(&Lists::edge_costs, "[[7, 8, 9]]"),
            "[solver] f: expected 2 x 1 costs, got 3 (edge 0)");
  EXPECT_EQ(reason(&Lists::intervals, "[[0, 2, 3], [1, 3]]"),
            "[solver] f: expected 0 <= lo <= hi <= 2147483646 in "
            "'nodes.intervals', got [0, 2, 3] (entry 0)");
  EXPECT_EQ(reason(&Lists::edge_nodes, "[[0]]"),
            "[solver] f: expected two different nodes below 2, got [0] (edge "
            "0)");
  Lists empty;
  empty.costs = empty.usages = "[[1, 2], []]";
  empty.edge_costs = "[[]]";
  EXPECT_EQ(reason(empty.text()),
            "[solver] a node has no choice: expected at least one (node 1 ''). "
            "Try: drop the node or find why every choice was refused. (f)");
}

TEST(IopddlTest, NumbersOutOfRange) {
  const std::string intervals =
      "[solver] f: expected 0 <= lo <= hi <= 2147483646 in 'nodes.intervals', "
      "got ";
  EXPECT_EQ(reason(&Lists::intervals, "[[2, 0], [1, 3]]"),
            intervals + "[2, 0] (entry 0)");
  EXPECT_EQ(reason(&Lists::intervals, "[[0, 2], [-1, 3]]"),
            intervals + "[-1, 3] (entry 1)");
  EXPECT_EQ(reason(&Lists::intervals, "[[0, 2], [1, 2147483647]]"),
            intervals + "[1, 2147483647] (entry 1)");
  EXPECT_EQ(reason(&Lists::intervals, "[[4294967296, 4294967297], [1, 3]]"),
            intervals + "[4294967296, 4294967297] (entry 0)");
  EXPECT_EQ(reason(&Lists::intervals, "[[0, 1e30], [1, 3]]"),
            intervals + "[0, 1000000000000000000] (entry 0)");
  EXPECT_EQ(reason(&Lists::usages, "[[4, -5], [6]]"),
            "[solver] f: a usage is negative: got -5 (node 0)");
  const std::string nodes =
      "[solver] f: expected two different nodes below 2, got ";
  EXPECT_EQ(reason(&Lists::edge_nodes, "[[1, 1]]"), nodes + "[1, 1] (edge 0)");
  EXPECT_EQ(reason(&Lists::edge_nodes, "[[0, 2]]"), nodes + "[0, 2] (edge 0)");
  EXPECT_EQ(reason(&Lists::edge_nodes, "[[-1, 1]]"),
            nodes + "[-1, 1] (edge 0)");
  EXPECT_EQ(reason(&Lists::edge_nodes, "[[0, 4294967297]]"),
            nodes + "[0, 4294967297] (edge 0)");
}

TEST(IopddlTest, TotalsTooLarge) {
  const std::string large =
      "[solver] the numbers are too large: expected totals of at most "
      "144115188075855871, got more ";
  EXPECT_EQ(reason(&Lists::costs, "[[1, 2], [144115188075855872]]"),
            large + "cost. Try: a coarser unit. (f)");
  EXPECT_EQ(reason(&Lists::costs, "[[1, 2], [-9223372036854775808]]"),
            large + "cost. Try: a coarser unit. (f)");
  EXPECT_EQ(reason(&Lists::usages, "[[4, 5], [1e18]]"),
            large + "memory. Try: a coarser unit. (f)");
  EXPECT_EQ(reason(&Lists::limit, "-1"),
            "[solver] the limit is out of range: expected 0 <= limit <= "
            "144115188075855871, got -1. Try: no limit at all for free memory. "
            "(f)");
}

TEST(IopddlTest, DeepNesting) {
  const std::string deep = std::string(300'000, '[');
  const std::string expected =
      "[solver] f: lists or objects nest more than 200 deep";
  EXPECT_EQ(reason(deep), expected);
  EXPECT_EQ(reason(R"({"extra": )" + deep), expected);
  std::string objects;
  for (int n = 0; n < 300; ++n) objects += R"({"a": )";
  EXPECT_EQ(reason(objects), expected);
}

// Digits, brackets and what else makes new meanings, or any byte.
char random_byte(TestRandom* random) {
  constexpr std::string_view kUseful = "0123456789[]{},:.-+eE\"\\ \ntnu";
  return random->chance(0.6)
             ? kUseful[random->below(static_cast<std::int32_t>(kUseful.size()))]
             : static_cast<char>(random->below(256));
}

std::string mutant(std::string text, TestRandom* random) {
  for (int n = 1 + random->below(6); n > 0 && !text.empty(); --n) {
    const auto size = static_cast<std::int32_t>(text.size());
    const auto at = static_cast<std::size_t>(random->below(size));
    const auto count = static_cast<std::size_t>(1 + random->below(20));
    switch (random->below(5)) {
      case 0:
        text[at] = random_byte(random);
        break;
      case 1:
        text.insert(at, 1, random_byte(random));
        break;
      case 2:
        text.erase(at, random->chance(0.7) ? 1 : count);
        break;
      case 3:
        text.insert(static_cast<std::size_t>(random->below(size)),
                    text.substr(at, count));
        break;
      default:  // a number becomes another one
        text.replace(at, text.find_first_not_of("0123456789", at) - at,
                     std::to_string(random->next() >> random->below(64)));
    }
  }
  return text;
}

// SHARDWRIGHT_FUZZ=1000000 for a long run.
TEST(IopddlTest, AnyChangeGivesAProblemOrAReason) {
  const char* const wish = std::getenv("SHARDWRIGHT_FUZZ");
  const int count = wish != nullptr ? std::atoi(wish) : 20'000;
  TestRandom random(20'250'330);
  int good = 0;
  for (int n = 0; n < count; ++n) {
    const std::string text = mutant(kExample, &random);
    const Result<ChoiceProblem> problem = read(text);
    if (problem) {
      ++good;
      ASSERT_TRUE(validate(*problem)) << text;
      continue;
    }
    const std::string& message = problem.error().message;
    ASSERT_TRUE(message.starts_with("[solver] ")) << message << "\n" << text;
    ASSERT_LT(message.size(), 400U) << message << "\n" << text;
    for (const char c : message) {
      ASSERT_TRUE(c >= ' ' && c <= '~') << message << "\n" << text;
    }
  }
  // Both happen: neither is what every mutant gives.
  EXPECT_GT(good, count / 100);
  EXPECT_LT(good, count / 2);
}

}  // namespace
}  // namespace shardwright::solver
