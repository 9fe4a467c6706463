#include "shardwright/verify/lives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "shardwright/verify/gathered_again.h"

namespace shardwright::verify::internal {
namespace {

using cost::Handle;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// A region that is run again and has something to run again for.
bool is_recomputed(const Program& program, std::int32_t region) {
  const auto found = program.last_again.find(region);
  return found != program.last_again.end() && found->second >= 0;
}

// One storage: who makes it, and everything that keeps it.
struct Storage {
  std::int64_t bytes = 0;
  std::int32_t maker = 0;             // step
  std::vector<std::int32_t> readers;  // steps that read it under any name
  std::vector<std::int32_t> keepers;  // steps whose backward keeps it
  std::int32_t put_out_until = -1;    // position: an output, or the loss
};

class Storages {
 public:
  Storages(const Program& program, const Positions& positions)
      : p_(program), positions_(positions) {
    of_buffer_.assign(program.buffers.size(), -1);
    for (std::size_t s = 0; s < program.steps.size(); ++s) make(s);
    for (std::size_t b = 0; b < program.buffers.size(); ++b) note_readers(b);
  }

  std::vector<Life> lives() const {
    std::vector<Life> out;
    for (const Storage& storage : storages_) {
      out.push_back(first_life(storage));
      if (runs_again(storage)) out.push_back(second_life(storage));
    }
    return out;
  }

 private:
  std::int32_t add(std::int64_t bytes, std::size_t maker) {
    Storage storage;
    storage.bytes = bytes;
    storage.maker = static_cast<std::int32_t>(maker);
    storages_.push_back(std::move(storage));
    return static_cast<std::int32_t>(storages_.size() - 1);
  }

  void make(std::size_t s) {
    const ProgramStep& step = p_.steps[s];
    if (step.op == nullptr) {
      of_buffer_[at(step.out[0])] = step.step->forward.empty()
                                        ? of_buffer_[at(step.in[0])]
                                        : add(p_.buffer(step.out[0]).bytes, s);
      return;
    }
    std::map<std::int32_t, std::int32_t> made;  // new storage of the record
    const auto storage_of = [&](const Handle& handle) -> std::int32_t {
      if (handle.kind == Handle::Kind::kOperand) {
        return of_buffer_[at(step.in[at(handle.index)])];
      }
      if (handle.kind != Handle::Kind::kNew) return -1;
      const auto found = made.find(handle.index);
      if (found != made.end()) return found->second;
      const std::int32_t id =
          add(bytes_at(step.record->sizes[at(handle.index)], step), s);
      made.emplace(handle.index, id);
      return id;
    };
    for (std::size_t r = 0; r < step.out.size(); ++r) {
      of_buffer_[at(step.out[r])] = storage_of(step.record->results[r]);
    }
    for (const Handle& handle : step.record->saved) {
      if (handle.kind == Handle::Kind::kOperand &&
          !gathering_of(p_, step.in[at(handle.index)]).empty()) {
        continue;
      }
      const std::int32_t id = storage_of(handle);
      if (id >= 0) {
        storages_[at(id)].keepers.push_back(static_cast<std::int32_t>(s));
      }
    }
  }

  void note_readers(std::size_t b) {
    const std::int32_t id = of_buffer_[b];
    if (id < 0) return;
    const Buffer& buffer = p_.buffers[b];
    Storage& storage = storages_[at(id)];
    storage.readers.insert(storage.readers.end(), buffer.readers.begin(),
                           buffer.readers.end());
    for (const plan::Output& output : p_.plan->outputs) {
      if (output.buffer == buffer.name && !p_.steps.empty()) {
        storage.put_out_until =
            std::max(storage.put_out_until, positions_.forward.back());
      }
    }
    if (p_.loss == static_cast<std::int32_t>(b)) {
      storage.put_out_until = positions_.optimizer;
    }
  }

  [[nodiscard]] std::int32_t region_of(std::int32_t step) const {
    return p_.steps[at(step)].step->region;
  }
  // Read or kept by a step of the storage's own recomputed region.
  [[nodiscard]] bool inside(const Storage& storage, std::int32_t step) const {
    const std::int32_t region = region_of(storage.maker);
    return region_of(step) == region && is_recomputed(p_, region);
  }
  [[nodiscard]] bool runs_again(const Storage& storage) const {
    return positions_.again[at(storage.maker)] >= 0;
  }

  // As made by the forward pass: until its last reader, until the backward of
  // what keeps it, until the end of a recomputed region that reads it.
  [[nodiscard]] Life first_life(const Storage& storage) const {
    Life life{positions_.forward[at(storage.maker)], 0, storage.bytes};
    life.last = std::max(life.first, storage.put_out_until);
    for (const std::int32_t step : storage.readers) {
      life.last = std::max(life.last, positions_.forward[at(step)]);
      if (!inside(storage, step) && is_recomputed(p_, region_of(step))) {
        life.last =
            std::max(life.last, positions_.region_end.at(region_of(step)));
      }
    }
    for (const std::int32_t step : storage.keepers) {
      if (is_recomputed(p_, region_of(step))) continue;
      life.last = std::max(life.last, positions_.backward[at(step)]);
    }
    return life;
  }

  // As made again: until its last reader inside the region or the backward of
  // what keeps it; until the recompute is over where it has no reader inside,
  // and where it is read or put out behind the region, which returns it.
  [[nodiscard]] Life second_life(const Storage& storage) const {
    Life life{positions_.again[at(storage.maker)], 0, storage.bytes};
    life.last = life.first;
    bool dropped_inside = false;
    bool returned = storage.put_out_until >= 0;
    for (const std::int32_t step : storage.readers) {
      returned = returned || !inside(storage, step);
      if (!inside(storage, step)) continue;
      const std::int32_t again = positions_.again[at(step)];
      dropped_inside = dropped_inside || again >= 0;
      life.last = std::max(
          life.last, again >= 0
                         ? again
                         : positions_.again_end.at(region_of(storage.maker)));
    }
    if (returned || !dropped_inside) {
      life.last = positions_.again_end.at(region_of(storage.maker));
    }
    for (const std::int32_t step : storage.keepers) {
      if (!inside(storage, step)) continue;
      life.last = std::max(life.last, positions_.backward[at(step)]);
    }
    return life;
  }

  const Program& p_;
  const Positions& positions_;
  std::vector<Storage> storages_;
  std::vector<std::int32_t> of_buffer_;  // -1: there all the time, or none
};

}  // namespace

std::int64_t bytes_at(const cost::Expr& expr, const ProgramStep& step) {
  return static_cast<std::int64_t>(
      std::ceil(expr.value(step.step->local_factors) - 1e-6));
}

Positions positions_of(const Program& program) {
  Positions out;
  const std::size_t n = program.steps.size();
  out.backward.assign(n, -1);
  out.again.assign(n, -1);
  for (std::size_t s = 0; s < n; ++s) {
    out.forward.push_back(static_cast<std::int32_t>(s));
  }
  auto position = static_cast<std::int32_t>(n);
  for (std::size_t s = n; s-- > 0;) {
    const ProgramStep& step = program.steps[s];
    const std::int32_t region = step.step->region;
    const bool asks = is_recomputed(program, region) &&
                      program.has_backward(s) && step.op != nullptr &&
                      !step.record->saved.empty();
    if (asks && !out.again_end.contains(region)) {
      std::size_t begin = s;
      while (begin > 0 && program.steps[begin - 1].step->region == region) {
        --begin;
      }
      for (std::size_t t = begin; t <= at(program.last_again.at(region)); ++t) {
        out.again[t] = position++;
      }
      out.again_end[region] = position - 1;
    }
    out.backward[s] = position++;
    if (is_recomputed(program, region)) {
      out.region_end[region] = out.backward[s];
    }
  }
  out.optimizer = position;
  return out;
}

std::string position_text(const Program& program, const Positions& positions,
                          std::int32_t position) {
  if (position >= positions.optimizer) return "optimizer step";
  const auto search = [&](const std::vector<std::int32_t>& list,
                          const char* phase) -> std::string {
    const auto found = std::find(list.begin(), list.end(), position);
    if (found == list.end()) return {};
    const auto s = static_cast<std::size_t>(found - list.begin());
    return fmt::format("{} of {}", phase, step_name(*program.plan, s));
  };
  for (const auto& [list, phase] : {std::pair{&positions.forward, "forward"},
                                    std::pair{&positions.backward, "backward"},
                                    std::pair{&positions.again, "recompute"}}) {
    std::string text = search(*list, phase);
    if (!text.empty()) return text;
  }
  return "the step";
}

std::vector<Life> storage_lives(const Program& program,
                                const Positions& positions) {
  return Storages(program, positions).lives();
}

}  // namespace shardwright::verify::internal
