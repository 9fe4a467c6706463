#include "shardwright/cost/footprint.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace shardwright::cost {
namespace {

std::int64_t bytes_of(const Expr& expr,
                      const std::vector<std::int64_t>& sizes) {
  // Rounded up: a local size is never under-counted.
  return static_cast<std::int64_t>(std::ceil(expr.value(sizes) - 1e-6));
}

struct Walk {
  std::int64_t peak = 0;   // highest level above the start
  std::int64_t level = 0;  // level at the end
};

// Walks a program. `releases_count` says whether dropping saved tensors and
// incoming gradients lowers the level: it does not here, since closed lives
// keep them alive over the whole position.
Walk walk(const std::vector<Event>& program,
          const std::vector<std::int64_t>& storage_bytes,
          const std::vector<std::int64_t>& factor_sizes) {
  Walk out;
  for (const Event& event : program) {
    switch (event.kind) {
      case Event::Kind::kAlloc:
        out.level += storage_bytes[static_cast<std::size_t>(event.index)];
        break;
      case Event::Kind::kFree:
        out.level -= storage_bytes[static_cast<std::size_t>(event.index)];
        break;
      case Event::Kind::kTransient:
        out.peak =
            std::max(out.peak, out.level + bytes_of(event.bytes, factor_sizes));
        break;
      case Event::Kind::kRelease:
      case Event::Kind::kDropGrad:
        break;
    }
    out.peak = std::max(out.peak, out.level);
  }
  return out;
}

}  // namespace

Footprint footprint_of(const Record& record,
                       const std::vector<std::int64_t>& factor_sizes,
                       std::size_t num_operands, std::size_t num_results) {
  Footprint out;
  out.result_bytes.assign(num_results, 0);
  out.result_alias.assign(num_results, -1);
  out.saves_operand.assign(num_operands, false);
  out.saves_result.assign(num_results, false);
  out.gradient_bytes.assign(num_operands, 0);
  out.gradient_alias.assign(num_operands, -1);
  out.saves_anything = !record.saved.empty();

  std::vector<std::int64_t> storage(record.sizes.size());
  for (std::size_t j = 0; j < storage.size(); ++j) {
    storage[j] = bytes_of(record.sizes[j], factor_sizes);
  }
  std::set<std::int32_t> result_storages;
  std::int64_t stays_forward = 0;
  for (std::size_t r = 0; r < num_results && r < record.results.size(); ++r) {
    const Handle& handle = record.results[r];
    if (handle.kind == Handle::Kind::kOperand) {
      out.result_alias[r] = handle.index;
    } else if (handle.kind == Handle::Kind::kNew &&
               result_storages.insert(handle.index).second) {
      out.result_bytes[r] = storage[static_cast<std::size_t>(handle.index)];
      stays_forward += out.result_bytes[r];
    }
  }
  std::set<std::int32_t> internals;
  for (const Handle& handle : record.saved) {
    if (handle.kind == Handle::Kind::kOperand) {
      out.saves_operand[static_cast<std::size_t>(handle.index)] = true;
    } else if (handle.kind == Handle::Kind::kNew) {
      if (!result_storages.contains(handle.index)) {
        internals.insert(handle.index);
        continue;
      }
      for (std::size_t r = 0; r < num_results; ++r) {
        if (record.results[r] == handle) out.saves_result[r] = true;
      }
    }
  }
  for (const std::int32_t j : internals) {
    out.internal_bytes += storage[static_cast<std::size_t>(j)];
  }
  const Walk forward = walk(record.forward, storage, factor_sizes);
  out.forward_temporary = std::max<std::int64_t>(
      0, forward.peak - stays_forward - out.internal_bytes);

  std::int64_t stays_backward = 0;
  std::set<std::int32_t> gradient_storages;
  for (std::size_t k = 0; k < num_operands && k < record.gradients.size();
       ++k) {
    const Handle& handle = record.gradients[k];
    if (handle.kind == Handle::Kind::kGradient) {
      out.gradient_alias[k] = handle.index;
    } else if (handle.kind == Handle::Kind::kNew &&
               gradient_storages.insert(handle.index).second) {
      out.gradient_bytes[k] = storage[static_cast<std::size_t>(handle.index)];
      stays_backward += out.gradient_bytes[k];
    }
  }
  const Walk backward = walk(record.backward, storage, factor_sizes);
  out.backward_temporary =
      std::max<std::int64_t>(0, backward.peak - stays_backward);
  return out;
}

}  // namespace shardwright::cost
