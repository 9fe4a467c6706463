#include "shardwright/sharding/port.h"

#include <fmt/format.h>

#include <cctype>
#include <optional>

#include "shardwright/base/check.h"

namespace shardwright::sharding {
namespace {

std::optional<Symbol> parse_symbol(const std::string& text) {
  if (text == "R") return kR;
  if (text == "D") return kD;
  if (text == "P") return kP;
  if (text.size() < 2 || text.size() > 4 || text[0] != 'S') return {};
  int dim = 0;
  for (const char c : text.substr(1)) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return {};
    dim = dim * 10 + (c - '0');
  }
  const bool canonical = text.size() == 2 || text[1] != '0';
  if (dim > 127 || !canonical) return {};
  return shard(static_cast<std::size_t>(dim));
}

// The two layouts of a port differ only in which symbol means partial.
ShardingSpec layout(const Port& port, std::size_t rank, Symbol::Kind partial) {
  ShardingSpec spec = replicated(rank);
  for (std::size_t axis = 0; axis < port.size(); ++axis) {
    const Symbol& symbol = port[axis];
    const auto index = static_cast<std::int32_t>(axis);
    if (symbol.kind == Symbol::kShard) {
      SW_CHECK(
          symbol.dim >= 0 && static_cast<std::size_t>(symbol.dim) < rank,
          fmt::format("port {} on a tensor of rank {}", to_string(port), rank));
      spec.dims[static_cast<std::size_t>(symbol.dim)].push_back(index);
    } else if (symbol.kind == partial) {
      spec.partial.push_back(index);
    }
  }
  return spec;
}

}  // namespace

std::string to_string(const Symbol& symbol) {
  switch (symbol.kind) {
    case Symbol::kReplicate:
      return "R";
    case Symbol::kPartialGradient:
      return "D";
    case Symbol::kPartial:
      return "P";
    case Symbol::kShard:
      return fmt::format("S{}", static_cast<int>(symbol.dim));
  }
  return "R";
}

std::string to_string(const Port& port) {
  std::string text;
  for (const Symbol& symbol : port) {
    if (!text.empty()) text += ',';
    text += to_string(symbol);
  }
  return text;
}

Result<Port> parse_port(const std::string& text, std::size_t num_axes) {
  Port port;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string piece = text.substr(begin, end - begin);
    const std::optional<Symbol> symbol = parse_symbol(piece);
    if (!symbol) {
      return make_error(ErrorCode::kParseError,
                        fmt::format("[sharding] port '{}': expected R, D, P or "
                                    "S<dim>, got '{}'",
                                    text, piece));
    }
    port.push_back(*symbol);
    begin = end + 1;
  }
  if (port.size() != num_axes) {
    return make_error(ErrorCode::kParseError,
                      fmt::format("[sharding] port '{}': expected {} symbols, "
                                  "one per mesh axis, got {}",
                                  text, num_axes, port.size()));
  }
  return port;
}

ShardingSpec forward_spec(const Port& port, std::size_t rank) {
  return layout(port, rank, Symbol::kPartial);
}

ShardingSpec gradient_spec(const Port& port, std::size_t rank) {
  return layout(port, rank, Symbol::kPartialGradient);
}

}  // namespace shardwright::sharding
