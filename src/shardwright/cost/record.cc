#include "shardwright/cost/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "shardwright/base/check.h"
#include "shardwright/base/permutation.h"
#include "shardwright/cost/event_order.h"
#include "shardwright/ir/graph.h"

namespace shardwright::cost {
namespace {

tl::unexpected<Error> damaged(const std::string& where, std::string text) {
  return make_error(
      ErrorCode::kInvalidGraph,
      fmt::format("[cost] {}: {}. Try: profile the model again.", where, text));
}

// A list of rows of N integers, the first of them a factor's index, under an
// optional key.
template <std::size_t N>
Result<std::vector<std::array<std::int64_t, N>>> rows(
    const Json& json, const char* key, const std::string& where) {
  std::vector<std::array<std::int64_t, N>> out;
  if (!json.contains(key)) return out;
  SW_ASSIGN_OR_RETURN(const Json* list, get_array(json, key, where));
  for (const Json& item : *list) {
    if (!item.is_array() || item.size() != N) {
      return damaged(where, fmt::format("'{}' wants rows of {}", key, N));
    }
    std::array<std::int64_t, N>& row = out.emplace_back();
    for (std::size_t i = 0; i < N; ++i) {
      if (!item[i].is_number_integer()) {
        return damaged(where, fmt::format("'{}' wants integers", key));
      }
      row[i] = item[i].get<std::int64_t>();
    }
    if (row[0] < 0 || row[0] > std::numeric_limits<std::int32_t>::max()) {
      return damaged(where, fmt::format("'{}' names factor {}", key, row[0]));
    }
  }
  return out;
}

Result<Term> term_from_json(const Json& json, const std::string& where) {
  Term term;
  SW_ASSIGN_OR_RETURN(term.coefficient, get_double(json, "c", where));
  if (!(term.coefficient >= 0)) return damaged(where, "a negative size");
  SW_ASSIGN_OR_RETURN(term.factors, get_indices(json, "f", where));
  SW_ASSIGN_OR_RETURN(const auto rounded, rows<3>(json, "up", where));
  for (const auto& [factor, times, unit] : rounded) {
    if (unit < 1 || times < 1) {
      return damaged(where, "rounding to no multiple");
    }
    term.rounded.push_back({static_cast<std::int32_t>(factor), times, unit});
  }
  SW_ASSIGN_OR_RETURN(const auto conditions, rows<4>(json, "when", where));
  for (const auto& [factor, times, low, high] : conditions) {
    if (times < 1) return damaged(where, "a condition on no multiple");
    term.conditions.push_back(
        {static_cast<std::int32_t>(factor), times, low, high});
  }
  return term;
}

// One term, or a list of them.
Result<Expr> expr_from_json(const Json& json, const std::string& where) {
  Expr expr;
  if (!json.is_array()) {
    SW_ASSIGN_OR_RETURN(Term term, term_from_json(json, where));
    expr.terms.push_back(std::move(term));
    return expr;
  }
  for (const Json& item : json) {
    SW_ASSIGN_OR_RETURN(Term term, term_from_json(item, where));
    expr.terms.push_back(std::move(term));
  }
  return expr;
}

Result<Handle> handle_from_json(const Json& json, const std::string& where) {
  Handle handle;
  if (json.is_null()) return handle;
  if (!json.is_string()) return damaged(where, "a handle is not a text");
  const std::string text = json.get<std::string>();
  if (text.size() < 2) return damaged(where, "bad handle '" + text + "'");
  switch (text[0]) {
    case 'n':
      handle.kind = Handle::Kind::kNew;
      break;
    case 'i':
      handle.kind = Handle::Kind::kOperand;
      break;
    case 'g':
      handle.kind = Handle::Kind::kGradient;
      break;
    default:
      return damaged(where, "bad handle '" + text + "'");
  }
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + 1, end, handle.index);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return damaged(where, "bad handle '" + text + "'");
  }
  return handle;
}

Result<std::vector<Handle>> handles(const Json& json, const char* key,
                                    const std::string& where) {
  SW_ASSIGN_OR_RETURN(const Json* list, get_array(json, key, where));
  std::vector<Handle> out;
  for (const Json& item : *list) {
    SW_ASSIGN_OR_RETURN(const Handle handle, handle_from_json(item, where));
    out.push_back(handle);
  }
  return out;
}

Result<Event> event_from_json(const Json& json, const std::string& where) {
  if (!json.is_array() || json.size() != 2 || !json[0].is_string()) {
    return damaged(where, "bad event");
  }
  static const std::map<std::string, Event::Kind> kKinds = {
      {"alloc", Event::Kind::kAlloc},
      {"free", Event::Kind::kFree},
      {"release", Event::Kind::kRelease},
      {"drop_grad", Event::Kind::kDropGrad},
      {"transient", Event::Kind::kTransient}};
  const auto kind = kKinds.find(json[0].get<std::string>());
  if (kind == kKinds.end()) return damaged(where, "unknown event");
  Event event;
  event.kind = kind->second;
  if (event.kind == Event::Kind::kTransient) {
    SW_ASSIGN_OR_RETURN(event.bytes, expr_from_json(json[1], where));
    return event;
  }
  if (!json[1].is_number_integer()) return damaged(where, "bad event index");
  const auto index = json[1].get<std::int64_t>();
  if (index < 0 || index > std::numeric_limits<std::int32_t>::max()) {
    return damaged(where, fmt::format("event index {}", index));
  }
  event.index = static_cast<std::int32_t>(index);
  return event;
}

Result<std::vector<Event>> events(const Json& json, const char* key,
                                  const std::string& where) {
  SW_ASSIGN_OR_RETURN(const Json* list, get_array(json, key, where));
  std::vector<Event> out;
  for (const Json& item : *list) {
    SW_ASSIGN_OR_RETURN(Event event, event_from_json(item, where));
    out.push_back(std::move(event));
  }
  return out;
}

Result<std::vector<Kernel>> kernels(const Json& json, const char* key,
                                    const std::string& where) {
  SW_ASSIGN_OR_RETURN(const Json* list, get_array(json, key, where));
  std::vector<Kernel> out;
  for (const Json& item : *list) {
    Kernel kernel;
    SW_ASSIGN_OR_RETURN(kernel.name, get_string(item, "name", where));
    SW_ASSIGN_OR_RETURN(kernel.kernel_class, get_string(item, "class", where));
    for (const auto& [name, expr] : {std::pair{"flops", &kernel.flops},
                                     {"read", &kernel.bytes_read},
                                     {"write", &kernel.bytes_written}}) {
      if (!item.contains(name)) {
        return damaged(where, fmt::format("a kernel without '{}'", name));
      }
      SW_ASSIGN_OR_RETURN(*expr, expr_from_json(item[name], where));
    }
    out.push_back(std::move(kernel));
  }
  return out;
}

Result<MemoryLayout> layout_from_json(const Json& json,
                                      const std::string& where) {
  MemoryLayout layout;
  if (json.is_null()) return layout;
  SW_ASSIGN_OR_RETURN(const std::vector<std::int64_t> order,
                      get_ints(json, "order", where));
  SW_ASSIGN_OR_RETURN(layout.dense, get_bool(json, "dense", where));
  const auto dims = as_permutation(order, order.size());
  if (!dims) return damaged(where, "a layout's order is none of its dims");
  if (!std::is_sorted(dims->begin(), dims->end())) layout.order = *dims;
  return layout;
}

// A list of `count` layouts; absent: all as named.
Result<std::vector<MemoryLayout>> layouts(const Json& json, const char* key,
                                          std::size_t count,
                                          const std::string& where) {
  std::vector<MemoryLayout> out(count);
  if (!json.contains("layouts")) return out;
  SW_ASSIGN_OR_RETURN(const Json* both, get_object(json, "layouts", where));
  SW_ASSIGN_OR_RETURN(const Json* list, get_array(*both, key, where));
  if (list->size() != count) {
    return damaged(where, fmt::format("expected layouts of {} {}, got {}",
                                      count, key, list->size()));
  }
  for (std::size_t i = 0; i < count; ++i) {
    SW_ASSIGN_OR_RETURN(out[i], layout_from_json((*list)[i], where));
  }
  return out;
}

Result<bool> check_handle(const Record& record, const Handle& handle,
                          const std::string& where) {
  if (handle.kind == Handle::Kind::kNew &&
      (handle.index < 0 ||
       static_cast<std::size_t>(handle.index) >= record.sizes.size())) {
    return damaged(where, fmt::format("storage n{} of {}", handle.index,
                                      record.sizes.size()));
  }
  return true;
}

Result<bool> check_record(const Record& record, const std::string& where) {
  for (const auto* list : {&record.results, &record.saved, &record.gradients}) {
    for (const Handle& handle : *list) {
      SW_RETURN_IF_ERROR(check_handle(record, handle, where));
    }
  }
  for (const auto* program : {&record.forward, &record.backward}) {
    for (const Event& event : *program) {
      std::size_t count = record.sizes.size();
      if (event.kind == Event::Kind::kTransient) continue;
      if (event.kind == Event::Kind::kRelease) count = record.saved.size();
      if (event.kind == Event::Kind::kDropGrad) count = record.results.size();
      if (event.index < 0 || static_cast<std::size_t>(event.index) >= count) {
        return damaged(where, "an event names a storage that is not there");
      }
    }
  }
  if (const auto wrong = internal::impossible_order(record)) {
    return damaged(where, *wrong);
  }
  return true;
}

bool in_range(std::int32_t index, std::size_t count) {
  return index >= 0 && static_cast<std::size_t>(index) < count;
}

// Whole numbers that doubles hold exactly, so that sums and products of them
// can be judged before 64-bit numbers are used.
constexpr double kLargestCount = 9e15;
// FLOPs and traffic of one kernel: far above any, and sums stay finite.
constexpr double kLargestWork = 1e30;

// Whether the expression names factors of `sizes` only and is at most `most`,
// its conditions left aside, at these sizes and so at smaller ones.
bool stays_below(const Expr& expr, const std::vector<std::int64_t>& sizes,
                 double most) {
  double sum = 0;
  const auto size_of = [&sizes](std::int32_t factor) {
    return static_cast<double>(sizes[static_cast<std::size_t>(factor)]);
  };
  for (const Term& term : expr.terms) {
    double product = term.coefficient;
    for (const std::int32_t factor : term.factors) {
      if (!in_range(factor, sizes.size())) return false;
      product *= std::max(1.0, size_of(factor));
    }
    for (const Rounded& part : term.rounded) {
      if (!in_range(part.factor, sizes.size())) return false;
      const double rounded = static_cast<double>(part.times) *
                                 std::max(1.0, size_of(part.factor)) +
                             static_cast<double>(part.unit);
      if (rounded > kLargestCount) return false;
      product *= rounded;
    }
    for (const Condition& condition : term.conditions) {
      if (!in_range(condition.factor, sizes.size()) ||
          static_cast<double>(condition.times) * size_of(condition.factor) >
              kLargestCount) {
        return false;
      }
    }
    sum += product;
  }
  return sum <= most;
}

bool stays_below(const std::vector<Event>& program,
                 const std::vector<std::int64_t>& sizes, double most) {
  return std::ranges::all_of(program, [&](const Event& event) {
    return stays_below(event.bytes, sizes, most);
  });
}

bool stays_below(const std::vector<Kernel>& kernels,
                 const std::vector<std::int64_t>& sizes, double most) {
  return std::ranges::all_of(kernels, [&](const Kernel& kernel) {
    return stays_below(kernel.flops, sizes, most) &&
           stays_below(kernel.bytes_read, sizes, most) &&
           stays_below(kernel.bytes_written, sizes, most);
  });
}

bool is_usable(const Record& record, const std::vector<std::int64_t>& sizes) {
  const auto most = static_cast<double>(ir::kLargestValueBytes);
  return std::ranges::all_of(record.sizes,
                             [&](const Expr& size) {
                               return stays_below(size, sizes, most);
                             }) &&
         stays_below(record.forward, sizes, most) &&
         stays_below(record.backward, sizes, most) &&
         stays_below(record.kernels_forward, sizes, kLargestWork) &&
         stays_below(record.kernels_backward, sizes, kLargestWork);
}

}  // namespace

Result<bool> check_fits(const Record& record, std::size_t num_operands,
                        std::size_t num_results,
                        const std::vector<std::int64_t>& factor_sizes,
                        const std::string& where) {
  if (record.results.size() != num_results ||
      record.gradients.size() != num_operands) {
    return damaged(
        where, fmt::format("expected {} operands and {} results, got {} "
                           "and {}",
                           num_operands, num_results, record.gradients.size(),
                           record.results.size()));
  }
  for (const auto* list : {&record.results, &record.saved, &record.gradients}) {
    for (const Handle& handle : *list) {
      const bool operand = handle.kind == Handle::Kind::kOperand;
      const bool gradient = handle.kind == Handle::Kind::kGradient;
      if ((operand && !in_range(handle.index, num_operands)) ||
          (gradient && !in_range(handle.index, num_results))) {
        return damaged(where,
                       "a handle names an operand or a result that is "
                       "not there");
      }
    }
  }
  if (!is_usable(record, factor_sizes)) {
    return damaged(
        where, fmt::format("a size is beyond all measure, or depends on more "
                           "than the {} factors [{}] of the op's rule",
                           factor_sizes.size(), fmt::join(factor_sizes, ", ")));
  }
  for (const RecordAtOne& small : record.at_one) {
    for (const std::int32_t factor : small.factors) {
      if (!in_range(factor, factor_sizes.size())) {
        return damaged(where, fmt::format("a record at size 1 of factor {}, of "
                                          "{} factors",
                                          factor, factor_sizes.size()));
      }
    }
    SW_RETURN_IF_ERROR(check_fits(small.record, num_operands, num_results,
                                  factor_sizes, where + " at size 1"));
  }
  for (const auto& [name, variant] : record.variants) {
    SW_RETURN_IF_ERROR(check_fits(variant, num_operands, num_results,
                                  factor_sizes,
                                  fmt::format("{} variant {}", where, name)));
  }
  return true;
}

Result<bool> check_ranks(const Record& record, const ir::Graph& graph,
                         const ir::Op& op, const std::string& where) {
  for (const auto* list : {&record.result_layouts, &record.gradient_layouts}) {
    for (std::size_t r = 0; r < list->size() && r < op.results.size(); ++r) {
      const std::size_t dims = (*list)[r].order.size();
      const std::size_t rank = graph.value(op.results[r]).shape.size();
      if (dims == 0 || dims == rank) continue;
      return damaged(where, fmt::format("expected a layout of {} dims for "
                                        "result {}, got {}",
                                        rank, r, dims));
    }
  }
  return true;
}

double Expr::value(const std::vector<std::int64_t>& sizes) const {
  const auto size = [&sizes](std::int32_t factor) {
    SW_CHECK(factor >= 0 && static_cast<std::size_t>(factor) < sizes.size(),
             fmt::format("factor {} of {}", factor, sizes.size()));
    return sizes[static_cast<std::size_t>(factor)];
  };
  double sum = 0;
  for (const Term& term : terms) {
    const bool counts = std::ranges::all_of(
        term.conditions, [&size](const Condition& condition) {
          const std::int64_t n = condition.times * size(condition.factor);
          return condition.low <= n && n <= condition.high;
        });
    if (!counts) continue;
    double product = term.coefficient;
    for (const std::int32_t factor : term.factors) {
      product *= static_cast<double>(size(factor));
    }
    for (const Rounded& part : term.rounded) {
      const std::int64_t n = part.times * size(part.factor);
      const std::int64_t units = (n + part.unit - 1) / part.unit;
      product *= static_cast<double>(units * part.unit);
    }
    sum += product;
  }
  return sum;
}

const Record* Record::of_variant(const std::string& variant) const {
  // A random op is itself, run under a stateless seed.
  if (variant.empty() || variant == "random") return this;
  const auto found = variants.find(variant);
  return found == variants.end() ? nullptr : &found->second;
}

const Record& Record::at(const std::vector<std::int64_t>& local) const {
  const auto fits = [&local](const RecordAtOne& small) {
    return std::ranges::all_of(small.factors, [&local](std::int32_t factor) {
      return in_range(factor, local.size()) &&
             local[static_cast<std::size_t>(factor)] == 1;
    });
  };
  const auto found = std::ranges::find_if(at_one, fits);
  return found == at_one.end() ? *this : found->record;
}

namespace {

Result<RecordAtOne> at_one_from_json(const Json& json,
                                     const std::string& where) {
  RecordAtOne small;
  SW_ASSIGN_OR_RETURN(const std::vector<std::int64_t> factors,
                      get_ints(json, "factors", where));
  for (const std::int64_t factor : factors) {
    if (factor < 0 || factor > std::numeric_limits<std::int32_t>::max()) {
      return damaged(where,
                     fmt::format("a record at size 1 of factor {}", factor));
    }
    small.factors.push_back(static_cast<std::int32_t>(factor));
  }
  SW_ASSIGN_OR_RETURN(const Json* record, get_object(json, "record", where));
  // One level: what is small already has no smaller shard of its own.
  if (record->contains("at_one")) {
    return damaged(where, "a record at size 1 within another");
  }
  SW_ASSIGN_OR_RETURN(small.record,
                      record_from_json(*record, where + " at size 1"));
  return small;
}

}  // namespace

Result<Record> record_from_json(const Json& json, const std::string& where) {
  Record record;
  SW_ASSIGN_OR_RETURN(const Json* sizes, get_array(json, "sizes", where));
  for (const Json& item : *sizes) {
    SW_ASSIGN_OR_RETURN(Expr expr, expr_from_json(item, where));
    record.sizes.push_back(std::move(expr));
  }
  SW_ASSIGN_OR_RETURN(record.results, handles(json, "results", where));
  SW_ASSIGN_OR_RETURN(record.saved, handles(json, "saved", where));
  SW_ASSIGN_OR_RETURN(record.forward, events(json, "forward", where));
  SW_ASSIGN_OR_RETURN(record.backward, events(json, "backward", where));
  SW_ASSIGN_OR_RETURN(record.gradients, handles(json, "gradients", where));
  record.gradients_in_place.assign(record.gradients.size(), false);
  if (json.contains("gradients_in_place")) {
    SW_ASSIGN_OR_RETURN(const Json* list,
                        get_array(json, "gradients_in_place", where));
    for (std::size_t k = 0; k < record.gradients.size() && k < list->size();
         ++k) {
      record.gradients_in_place[k] =
          (*list)[k].is_boolean() && (*list)[k].get<bool>();
    }
  }
  SW_ASSIGN_OR_RETURN(record.result_layouts,
                      layouts(json, "results", record.results.size(), where));
  SW_ASSIGN_OR_RETURN(record.gradient_layouts,
                      layouts(json, "gradients", record.results.size(), where));
  SW_ASSIGN_OR_RETURN(record.kernels_forward,
                      kernels(json, "kernels_forward", where));
  SW_ASSIGN_OR_RETURN(record.kernels_backward,
                      kernels(json, "kernels_backward", where));
  if (json.contains("scalable")) {
    SW_ASSIGN_OR_RETURN(record.scalable, get_bool(json, "scalable", where));
  }
  if (json.contains("at_one")) {
    SW_ASSIGN_OR_RETURN(const Json* list, get_array(json, "at_one", where));
    for (const Json& item : *list) {
      SW_ASSIGN_OR_RETURN(RecordAtOne small, at_one_from_json(item, where));
      record.at_one.push_back(std::move(small));
    }
  }
  if (json.contains("variants")) {
    SW_ASSIGN_OR_RETURN(const Json* variants,
                        get_object(json, "variants", where));
    for (const auto& [name, item] : variants->items()) {
      SW_ASSIGN_OR_RETURN(
          Record variant,
          record_from_json(item, fmt::format("{} variant {}", where, name)));
      record.variants.emplace(name, std::move(variant));
    }
  }
  SW_RETURN_IF_ERROR(check_record(record, where));
  return record;
}

}  // namespace shardwright::cost
