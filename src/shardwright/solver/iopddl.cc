#include "shardwright/solver/iopddl.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <istream>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "shardwright/base/json.h"

namespace shardwright::solver {
namespace {

using Numbers = std::vector<std::int64_t>;

// From here on a cost of the file is infinite.
constexpr std::int64_t kInfiniteInFile = 1'000'000'000'000'000'000;

// Lists of numbers of which many are equal: each is kept once.
class DistinctLists {
 public:
  void add(Numbers&& list) {
    std::uint64_t hash = list.size();
    for (const std::int64_t number : list) {
      hash =
          (hash ^ static_cast<std::uint64_t>(number)) * 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 29;
    }
    const auto [first, last] = by_hash_.equal_range(hash);
    for (auto at = first; at != last; ++at) {
      if (lists_[at->second] != list) continue;
      ids_.push_back(at->second);
      return;
    }
    const auto id = static_cast<std::int32_t>(lists_.size());
    by_hash_.emplace(hash, id);
    ids_.push_back(id);
    list.shrink_to_fit();
    lists_.push_back(std::move(list));
  }
  std::size_t size() const { return ids_.size(); }
  std::int32_t id(std::size_t n) const { return ids_[n]; }
  const Numbers& operator[](std::size_t n) const { return lists_[ids_[n]]; }

 private:
  std::vector<std::int32_t> ids_;
  std::vector<Numbers> lists_;
  std::unordered_multimap<std::uint64_t, std::int32_t> by_hash_;
};

// The five lists of lists, and where they stand in the file.
enum Part {
  kIntervals,
  kNodeCosts,
  kUsages,
  kEdgeNodes,
  kEdgeCosts,
  kNumParts
};
struct Place {
  std::string_view group;
  std::string_view key;
};
constexpr std::array<Place, kNumParts> kPlaces = {
    Place{"nodes", "intervals"}, Place{"nodes", "costs"},
    Place{"nodes", "usages"}, Place{"edges", "nodes"}, Place{"edges", "costs"}};

std::string name_of(int part) {
  return fmt::format("{}.{}", kPlaces[part].group, kPlaces[part].key);
}

// Part of a damaged file may be anything, of any length.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 120;
  std::string out(text.substr(0, kMost));
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text.size() > kMost ? out + "..." : out;
}

std::string shown(const std::vector<std::int64_t>& list) {
  return shown(fmt::format("[{}]", fmt::join(list, ", ")));
}

struct Content {
  std::array<DistinctLists, kNumParts> parts;
  std::array<bool, kNumParts> seen = {};
  std::optional<std::int64_t> limit;
};

// Receives the file's tokens one by one. Each function returns false to stop.
class Handler {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  Content content;
  std::string reason;  // of a stop

  bool null() { return other("null"); }
  bool boolean(bool /*value*/) { return other("a truth value"); }
  bool string(string_t& value) { return other("'" + shown(value) + "'"); }
  bool binary(binary_t& /*value*/) { return other("binary data"); }
  bool number_integer(number_integer_t value) { return number(value); }
  bool number_unsigned(number_unsigned_t value) {
    constexpr std::uint64_t kMost = kInfiniteInFile;
    return number(static_cast<std::int64_t>(std::min(value, kMost)));
  }
  bool number_float(number_float_t value, const string_t& text) {
    if (value >= double(kInfiniteInFile)) return number(kInfiniteInFile);
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (value == std::floor(value) && std::abs(value) <= kExact) {
      return number(static_cast<std::int64_t>(value));
    }
    return other(shown(text));
  }

  bool start_object(std::size_t /*size*/) {
    if (!other("an object")) return false;
    keys_.emplace_back();
    return deep_enough();
  }
  bool key(string_t& name) {
    keys_.back() = name;
    place_ = kElsewhere;
    if (arrays_ > 0 || keys_[0] != "problem") return true;
    if (keys_.size() == 2 && name == "usage_limit") place_ = kLimit;
    if (keys_.size() == 3) {
      for (int n = 0; n < kNumParts; ++n) {
        if (kPlaces[n].group == keys_[1] && kPlaces[n].key == name) place_ = n;
      }
    }
    if (place_ == kLimit && content.limit) return twice("usage_limit");
    if (place_ < 0 || !std::exchange(content.seen[place_], true)) return true;
    return twice(name_of(place_));
  }
  bool end_object() {
    keys_.pop_back();
    place_ = kElsewhere;
    return true;
  }
  bool start_array(std::size_t /*size*/) {
    if ((place_ >= 0 && arrays_ == 2) || place_ == kLimit) {
      return other("a list");
    }
    ++arrays_;
    return deep_enough();
  }
  bool end_array() {
    if (place_ >= 0 && arrays_ == 2) {
      content.parts[place_].add(Numbers(list_));
      list_.clear();
    }
    --arrays_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& error) {
    // "[the exception's name] where: what is wrong"
    std::string_view said = error.what();
    for (const std::string_view start : {"] ", "syntax error"}) {
      const std::size_t at = said.find(start);
      if (at == std::string_view::npos) continue;
      said.remove_prefix(at + (start == "] " ? start.size() : 0));
    }
    reason = fmt::format("{} (byte {})", shown(said), position);
    return false;
  }

 private:
  // place_ is one of these or a Part.
  static constexpr int kElsewhere = -1;
  static constexpr int kLimit = -2;

  bool number(std::int64_t value) {
    if (place_ == kElsewhere) return true;
    if (place_ == kLimit) {
      content.limit = value;
      return true;
    }
    if (arrays_ != 2) return other(fmt::to_string(value));
    list_.push_back(value);
    return true;
  }
  bool twice(const std::string& name) {
    reason = fmt::format("'{}' is there twice", name);
    return false;
  }
  // Something that is no whole number where one must be.
  bool other(const std::string& got) {
    if (place_ == kElsewhere) return true;
    if (place_ == kLimit) {
      reason = "expected a whole number as 'usage_limit', got " + got;
    } else {
      constexpr const char* kExpected[] = {
          "a list of lists", "a list of whole numbers", "a whole number"};
      reason = fmt::format("expected {} in '{}', got {} (entry {})",
                           kExpected[std::min(arrays_, 2)], name_of(place_),
                           got, content.parts[place_].size());
    }
    return false;
  }
  bool deep_enough() {
    if (keys_.size() + static_cast<std::size_t>(arrays_) <= kMaxJsonDepth) {
      return true;
    }
    reason =
        fmt::format("lists or objects nest more than {} deep", kMaxJsonDepth);
    return false;
  }

  std::vector<std::string> keys_;
  int place_ = kElsewhere;
  int arrays_ = 0;
  Numbers list_;
};

tl::unexpected<Error> bad(const std::string& what, const std::string& reason) {
  return make_error(ErrorCode::kParseError,
                    fmt::format("[solver] {}: {}", what, reason));
}

Result<bool> check_counts(const Content& content, const std::string& what) {
  for (int n = 0; n < kNumParts; ++n) {
    if (!content.seen[n]) {
      return bad(what, fmt::format("'{}' is missing. Try: a file of the "
                                   "google/iopddl benchmark",
                                   name_of(n)));
    }
  }
  if (!content.limit) return bad(what, "'usage_limit' is missing");
  constexpr std::array<std::pair<int, int>, 3> kEqualLengths = {
      std::pair{kIntervals, kNodeCosts}, std::pair{kIntervals, kUsages},
      std::pair{kEdgeNodes, kEdgeCosts}};
  for (const auto& [left, right] : kEqualLengths) {
    if (content.parts[left].size() == content.parts[right].size()) continue;
    return bad(
        what,
        fmt::format("expected as many entries in '{}' as in '{}', got "
                    "{} and {}",
                    name_of(left), name_of(right), content.parts[left].size(),
                    content.parts[right].size()));
  }
  return true;
}

std::int64_t cost_of(std::int64_t number) {
  return number >= kInfiniteInFile ? kInfinite : number;
}

Result<bool> read_nodes(const Content& content, const std::string& what,
                        ChoiceProblem* problem) {
  const auto& [intervals, costs, usages, edge_nodes, edge_costs] =
      content.parts;
  // Positions and their number are 32 bits wide.
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - 1;
  problem->nodes.resize(intervals.size());
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    const Numbers& interval = intervals[i];
    if (interval.size() != 2 || interval[0] < 0 || interval[1] < interval[0] ||
        interval[1] > kMost) {
      return bad(what, fmt::format("expected 0 <= lo <= hi <= {} in "
                                   "'nodes.intervals', got {} (entry {})",
                                   kMost, shown(interval), i));
    }
    if (costs[i].size() != usages[i].size()) {
      return bad(what, fmt::format("expected as many costs as usages, got {} "
                                   "and {} (node {})",
                                   costs[i].size(), usages[i].size(), i));
    }
    const auto lo = static_cast<std::int32_t>(interval[0]);
    const auto hi = static_cast<std::int32_t>(interval[1]);
    problem->num_positions = std::max(problem->num_positions, hi);
    Node& node = problem->nodes[i];
    node.choices.resize(costs[i].size());
    for (std::size_t k = 0; k < node.choices.size(); ++k) {
      if (usages[i][k] < 0) {
        return bad(what, fmt::format("a usage is negative: got {} (node {})",
                                     usages[i][k], i));
      }
      node.choices[k].cost = cost_of(costs[i][k]);
      if (usages[i][k] == 0 || lo == hi) continue;
      node.choices[k].intervals.push_back({lo, hi, usages[i][k]});
    }
  }
  return true;
}

Result<bool> read_edges(const Content& content, const std::string& what,
                        ChoiceProblem* problem) {
  const DistinctLists& ends = content.parts[kEdgeNodes];
  const DistinctLists& costs = content.parts[kEdgeCosts];
  const auto num_nodes = static_cast<std::int64_t>(problem->nodes.size());
  using Key = std::pair<std::int32_t, std::size_t>;  // list, number of rows
  std::map<Key, std::shared_ptr<const EdgeTable>> tables;
  problem->edges.reserve(ends.size());
  for (std::size_t e = 0; e < ends.size(); ++e) {
    const Numbers& pair = ends[e];
    if (pair.size() != 2 || std::min(pair[0], pair[1]) < 0 ||
        std::max(pair[0], pair[1]) >= num_nodes || pair[0] == pair[1]) {
      return bad(what, fmt::format("expected two different nodes below {}, got "
                                   "{} (edge {})",
                                   num_nodes, shown(pair), e));
    }
    const std::size_t rows = problem->nodes[pair[0]].choices.size();
    const std::size_t cols = problem->nodes[pair[1]].choices.size();
    if (costs[e].size() != rows * cols) {
      return bad(what, fmt::format("expected {} x {} costs, got {} (edge {})",
                                   rows, cols, costs[e].size(), e));
    }
    auto& table = tables[{costs.id(e), rows}];
    if (table == nullptr) {
      Numbers matrix = costs[e];
      for (std::int64_t& cost : matrix) cost = cost_of(cost);
      table = make_edge_table(static_cast<std::int32_t>(rows),
                              static_cast<std::int32_t>(cols), matrix);
    }
    problem->edges.push_back({static_cast<std::int32_t>(pair[0]),
                              static_cast<std::int32_t>(pair[1]), table});
  }
  return true;
}

}  // namespace

bool looks_like_iopddl(std::string_view head) {
  const std::size_t brace = head.find_first_not_of(" \t\r\n");
  if (brace == std::string_view::npos || head[brace] != '{') return false;
  const std::size_t name = head.find_first_not_of(" \t\r\n", brace + 1);
  return name != std::string_view::npos &&
         head.substr(name).starts_with("\"problem\"");
}

Result<ChoiceProblem> read_iopddl(std::istream& stream,
                                  const std::string& what) {
  Handler handler;
  if (!Json::sax_parse(stream, &handler)) return bad(what, handler.reason);
  const Content& content = handler.content;
  SW_RETURN_IF_ERROR(check_counts(content, what));
  ChoiceProblem problem;
  problem.limit = content.limit;
  SW_RETURN_IF_ERROR(read_nodes(content, what, &problem));
  SW_RETURN_IF_ERROR(read_edges(content, what, &problem));
  const Result<bool> valid = validate(problem);
  if (!valid) {
    return make_error(valid.error().code,
                      fmt::format("{} ({})", valid.error().message, what));
  }
  return problem;
}

}  // namespace shardwright::solver
