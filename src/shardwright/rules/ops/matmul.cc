// Matrix products: batch dims, rows, columns, and a contracted inner dim.
//
// An added matrix or bias is a term of its own: where the inner dim is split
// only one rank may add it.
#include <fmt/format.h>

#include <map>
#include <sstream>

#include "shardwright/rules/builder.h"
#include "shardwright/rules/registry.h"

namespace shardwright::rules {
namespace {

// input [batch..., in] x weight [out, in] + bias [out] -> [batch..., out].
std::optional<Rule> linear(const OpView& op) {
  RuleBuilder rule(op, "linear");
  const Shape& input = op.operand(0).shape;
  const Shape& weight = op.operand(1).shape;
  if (input.empty() || weight.size() != 2) return std::nullopt;
  const auto last = static_cast<std::int64_t>(input.size()) - 1;
  for (std::int64_t d = 0; d < last; ++d) {
    rule.free_dim(0, d, d, fmt::format("batch{}", d));
  }
  const std::int32_t in = rule.contracted("in", weight[1]);
  rule.operand(0, last, in).operand(1, 1, in);
  const std::int32_t out = rule.factor("out", weight[0]);
  rule.operand(1, 0, out).result(0, last, out);
  rule.operand("bias", 0, out);
  rule.term({0, 1});
  if (op.num_operands() > 2) rule.term({2});
  return rule.build();
}

// input1 [batch..., in1], input2 [batch..., in2], weight [out, in1, in2]
// + bias [out] -> [batch..., out].
std::optional<Rule> bilinear(const OpView& op) {
  const Shape& left = op.operand(0).shape;
  const Shape& right = op.operand(1).shape;
  const Shape& weight = op.operand(2).shape;
  if (left.empty() || left.size() != right.size() || weight.size() != 3) {
    return std::nullopt;
  }
  RuleBuilder rule(op, "bilinear");
  const auto last = static_cast<std::int64_t>(left.size()) - 1;
  for (std::int64_t d = 0; d < last; ++d) {
    rule.operand(1, d, rule.free_dim(0, d, d, fmt::format("batch{}", d)));
  }
  const std::int32_t in1 = rule.contracted("in1", weight[1]);
  rule.operand(0, last, in1).operand(2, 1, in1);
  const std::int32_t in2 = rule.contracted("in2", weight[2]);
  rule.operand(1, last, in2).operand(2, 2, in2);
  const std::int32_t out = rule.factor("out", weight[0]);
  rule.operand(2, 0, out).result(0, last, out);
  rule.operand("bias", 0, out);
  rule.term({0, 1, 2});
  if (op.num_operands() > 3) rule.term({3});
  return rule.build();
}

// Maps `left @ right` (torch.matmul's rules for 1-D and batched operands) of
// two operand positions onto result 0.
void map_product(const OpView& op, RuleBuilder& rule, std::int32_t left,
                 std::int32_t right) {
  const Shape& a = op.operand(static_cast<std::size_t>(left)).shape;
  const Shape& b = op.operand(static_cast<std::size_t>(right)).shape;
  const Shape& to = op.result().shape;
  const auto rank_a = static_cast<std::int64_t>(a.size());
  const auto rank_b = static_cast<std::int64_t>(b.size());
  auto next = static_cast<std::int64_t>(to.size()) - 1;
  if (rank_b >= 2) {
    const std::int32_t n = rule.factor("columns", b.back());
    rule.operand(right, rank_b - 1, n).result(0, next--, n);
  }
  if (rank_a >= 2) {
    const std::int32_t m = rule.factor("rows", a[a.size() - 2]);
    rule.operand(left, rank_a - 2, m).result(0, next--, m);
  }
  const std::int32_t k = rule.contracted("inner", a.back());
  rule.operand(left, rank_a - 1, k);
  rule.operand(right, rank_b >= 2 ? rank_b - 2 : 0, k);
  // `next` is now the last batch dim of the result.
  for (std::int64_t d = next; d >= 0; --d) {
    const std::int64_t size = to[static_cast<std::size_t>(d)];
    const std::int32_t batch = rule.factor(fmt::format("batch{}", d), size);
    rule.result(0, d, batch);
    const auto map_batch = [&](std::int32_t position, const Shape& shape,
                               std::int64_t rank) {
      const std::int64_t dim = rank - 2 - (next + 1) + d;
      if (rank < 2 || dim < 0) return;
      if (shape[static_cast<std::size_t>(dim)] == 1) return;
      rule.operand(position, dim, batch);
    };
    map_batch(left, a, rank_a);
    map_batch(right, b, rank_b);
  }
}

std::optional<Rule> matmul(const OpView& op) {
  if (op.num_operands() != 2 || op.operand(0).shape.empty() ||
      op.operand(1).shape.empty()) {
    return std::nullopt;
  }
  RuleBuilder rule(op, "matmul");
  map_product(op, rule, 0, 1);
  return rule.term({0, 1}).build();
}

// beta * self (broadcast) + alpha * left @ right.
std::optional<Rule> add_product(const OpView& op) {
  if (op.num_operands() != 3) return std::nullopt;
  RuleBuilder rule(op, "addmm");
  map_product(op, rule, 1, 2);
  return rule.broadcast(0).term({1, 2}).term({0}).build();
}

std::optional<Rule> outer(const OpView& op) {
  RuleBuilder rule(op, "outer");
  rule.free_dim(0, 0, 0);
  rule.free_dim(1, 0, 1);
  return rule.term({0, 1}).build();
}

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

// Explicit or implicit output, letters only: no ellipsis, no diagonal.
std::optional<Equation> parse_equation(std::string text,
                                       std::size_t num_operands) {
  std::erase(text, ' ');
  const auto arrow = text.find("->");
  Equation equation;
  std::stringstream left(text.substr(0, arrow));
  for (std::string part; std::getline(left, part, ',');) {
    equation.operands.push_back(part);
  }
  std::map<char, int> counts;
  for (const std::string& part : equation.operands) {
    for (const char letter : part) {
      if (std::isalpha(static_cast<unsigned char>(letter)) == 0) {
        return std::nullopt;
      }
      ++counts[letter];
      if (part.find(letter) != part.rfind(letter)) return std::nullopt;
    }
  }
  if (arrow != std::string::npos) {
    equation.result = text.substr(arrow + 2);
  } else {
    for (const auto& [letter, count] : counts) {
      if (count == 1) equation.result += letter;
    }
  }
  if (equation.operands.size() != num_operands) return std::nullopt;
  return equation;
}

std::optional<Rule> einsum(const OpView& op) {
  const std::optional<Equation> equation =
      parse_equation(op.attr_string("equation"), op.num_operands());
  if (!equation) return std::nullopt;
  RuleBuilder rule(op, "einsum");
  std::map<char, std::int64_t> sizes;
  std::vector<std::int32_t> term;
  for (std::size_t i = 0; i < op.num_operands(); ++i) {
    const std::string& letters = equation->operands[i];
    if (letters.size() != op.operand(i).shape.size()) return std::nullopt;
    for (std::size_t d = 0; d < letters.size(); ++d) {
      std::int64_t& size = sizes[letters[d]];
      size = std::max(size, op.operand(i).shape[d]);
    }
    term.push_back(static_cast<std::int32_t>(i));
  }
  for (const auto& [letter, size] : sizes) {
    const std::string name(1, letter);
    const auto at = equation->result.find(letter);
    const std::int32_t factor = at == std::string::npos
                                    ? rule.contracted(name, size)
                                    : rule.factor(name, size);
    if (at != std::string::npos) {
      rule.result(0, static_cast<std::int64_t>(at), factor);
    }
    for (std::size_t i = 0; i < op.num_operands(); ++i) {
      const auto dim = equation->operands[i].find(letter);
      if (dim == std::string::npos || op.operand(i).shape[dim] == 1) continue;
      rule.operand(static_cast<std::int64_t>(i), static_cast<std::int64_t>(dim),
                   factor);
    }
  }
  return rule.term(std::move(term)).build();
}

}  // namespace

void add_matmul_rules(Registry& registry) {
  registry.add({"linear"}, linear);
  registry.add({"bilinear"}, bilinear);
  registry.add({"matmul", "mm", "bmm", "mv", "dot"}, matmul);
  registry.add({"addmm", "baddbmm", "addmv"}, add_product);
  registry.add({"outer", "ger"}, outer);
  registry.add({"einsum"}, einsum);
}

}  // namespace shardwright::rules
