#include "shardwright/rules/op_view.h"

namespace shardwright::rules {
namespace {

const Json* find_attr(const ir::Op& op, const char* name) {
  const auto it = op.attrs.find(name);
  if (it == op.attrs.end() || it->is_null()) return nullptr;
  return &*it;
}

}  // namespace

const ir::Value& OpView::operand(std::size_t position) const {
  return graph_->value(op_->operands[position]);
}

const ir::Value& OpView::result(std::size_t position) const {
  return graph_->value(op_->results[position]);
}

std::int64_t OpView::attr_int(const char* name, std::int64_t fallback) const {
  const Json* attr = find_attr(*op_, name);
  return attr != nullptr && attr->is_number_integer()
             ? attr->get<std::int64_t>()
             : fallback;
}

double OpView::attr_double(const char* name, double fallback) const {
  const Json* attr = find_attr(*op_, name);
  return attr != nullptr && attr->is_number() ? attr->get<double>() : fallback;
}

bool OpView::attr_bool(const char* name, bool fallback) const {
  const Json* attr = find_attr(*op_, name);
  return attr != nullptr && attr->is_boolean() ? attr->get<bool>() : fallback;
}

std::string OpView::attr_string(const char* name) const {
  const Json* attr = find_attr(*op_, name);
  return attr != nullptr && attr->is_string() ? attr->get<std::string>() : "";
}

std::optional<Shape> OpView::attr_ints(const char* name) const {
  const Json* attr = find_attr(*op_, name);
  if (attr == nullptr) return std::nullopt;
  if (attr->is_number_integer()) return Shape{attr->get<std::int64_t>()};
  if (!attr->is_array()) return std::nullopt;
  Shape out;
  for (const Json& item : *attr) {
    if (!item.is_number_integer()) return std::nullopt;
    out.push_back(item.get<std::int64_t>());
  }
  return out;
}

bool OpView::has_attr(const char* name) const {
  return find_attr(*op_, name) != nullptr;
}

std::optional<std::int64_t> OpView::attr_dim(const char* name,
                                             std::int64_t rank,
                                             std::int64_t fallback) const {
  return wrap_dim(attr_int(name, fallback), rank);
}

std::optional<std::vector<bool>> OpView::attr_dim_mask(
    const char* name, std::int64_t rank) const {
  const std::optional<Shape> dims = attr_ints(name);
  if (!dims || dims->empty()) {
    return std::vector<bool>(static_cast<std::size_t>(rank), true);
  }
  std::vector<bool> mask(static_cast<std::size_t>(rank), false);
  for (const std::int64_t dim : *dims) {
    const std::optional<std::int64_t> wrapped = wrap_dim(dim, rank);
    if (!wrapped) return std::nullopt;
    // A scalar takes dim 0 or -1 and has no dim to mark.
    if (rank > 0) mask[static_cast<std::size_t>(*wrapped)] = true;
  }
  return mask;
}

std::optional<std::int64_t> wrap_dim(std::int64_t dim, std::int64_t rank) {
  const std::int64_t range = rank == 0 ? 1 : rank;
  if (dim < -range || dim >= range) return std::nullopt;
  return dim < 0 ? dim + range : dim;
}

}  // namespace shardwright::rules
