#include "shardwright/cost/event_order.h"

#include <fmt/format.h>

#include <vector>

namespace shardwright::cost::internal {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

const char* name_of(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::kAlloc:
      return "alloc";
    case Event::Kind::kFree:
      return "free";
    case Event::Kind::kRelease:
      return "release";
    case Event::Kind::kDropGrad:
      return "drop_grad";
    case Event::Kind::kTransient:
      return "transient";
  }
  return "?";
}

// Follows one record; every step says what is wrong, or nothing.
class Follower {
 public:
  explicit Follower(const Record& record)
      : record_(record),
        storages_(record.sizes.size(), State::kUnmade),
        released_(record.saved.size(), false),
        dropped_(record.results.size(), false) {}

  std::optional<std::string> run() {
    if (auto wrong = follow(record_.forward, /*backward=*/false)) return wrong;
    if (auto wrong = results("result", record_.results)) return wrong;
    if (auto wrong = results("saved tensor", record_.saved)) return wrong;
    for (State& state : storages_) {
      if (state == State::kThere) state = State::kOfForward;
    }
    if (auto wrong = follow(record_.backward, /*backward=*/true)) return wrong;
    if (auto wrong = gradients()) return wrong;
    return never_made();
  }

 private:
  enum class State : std::uint8_t { kUnmade, kThere, kOfForward, kFreed };

  static const char* text_of(State state) {
    switch (state) {
      case State::kUnmade:
        return "one that is not made yet";
      case State::kThere:
        return "one that is there";
      case State::kOfForward:
        return "one that forward made";
      case State::kFreed:
        return "one that is freed";
    }
    return "?";
  }

  std::optional<std::string> follow(const std::vector<Event>& events,
                                    bool backward) {
    for (std::size_t i = 0; i < events.size(); ++i) {
      const auto wrong = step(events[i], backward);
      if (!wrong) continue;
      return fmt::format("event {} of {}, {} {}: {}", i,
                         backward ? "backward" : "forward",
                         name_of(events[i].kind), events[i].index, *wrong);
    }
    return std::nullopt;
  }

  std::optional<std::string> step(const Event& event, bool backward) {
    switch (event.kind) {
      case Event::Kind::kAlloc:
        return change(event.index, State::kUnmade, State::kThere,
                      "a storage that is not made yet");
      case Event::Kind::kFree:
        return change(event.index, State::kThere, State::kFreed,
                      "a storage made before in the same pass");
      case Event::Kind::kRelease:
        return once(released_, event.index, backward, "saved tensor");
      case Event::Kind::kDropGrad:
        return once(dropped_, event.index, backward, "incoming gradient");
      case Event::Kind::kTransient:
        return std::nullopt;
    }
    return std::nullopt;
  }

  std::optional<std::string> change(std::int32_t storage, State from, State to,
                                    const char* expected) {
    State& state = storages_[at(storage)];
    if (state != from) {
      return fmt::format("expected {}, got {}", expected, text_of(state));
    }
    state = to;
    return std::nullopt;
  }

  static std::optional<std::string> once(std::vector<bool>& done,
                                         std::int32_t index, bool backward,
                                         const char* what) {
    if (!backward) {
      return fmt::format("expected this in backward only, got it in forward");
    }
    if (done[at(index)]) {
      return fmt::format("expected every {} to go once, got it twice", what);
    }
    done[at(index)] = true;
    return std::nullopt;
  }

  // At the end of forward.
  [[nodiscard]] std::optional<std::string> results(
      const char* what, const std::vector<Handle>& handles) const {
    for (std::size_t i = 0; i < handles.size(); ++i) {
      const Handle& handle = handles[i];
      if (handle.kind == Handle::Kind::kOperand) continue;
      if (handle.kind != Handle::Kind::kNew) {
        return fmt::format(
            "{} {}: expected an operand or a new storage, got {}", what, i,
            handle.kind == Handle::Kind::kNone ? "nothing" : "a gradient");
      }
      const State state = storages_[at(handle.index)];
      if (state == State::kThere) continue;
      return fmt::format(
          "{} {} in storage {}: expected one that forward leaves, got {}", what,
          i, handle.index, text_of(state));
    }
    return std::nullopt;
  }

  // At the end of backward.
  [[nodiscard]] std::optional<std::string> gradients() const {
    for (std::size_t k = 0; k < record_.gradients.size(); ++k) {
      const Handle& handle = record_.gradients[k];
      if (handle.kind == Handle::Kind::kOperand) {
        return fmt::format(
            "gradient of operand {}: expected a new storage or an incoming "
            "gradient, got an operand",
            k);
      }
      if (handle.kind != Handle::Kind::kNew) continue;
      const State state = storages_[at(handle.index)];
      if (state == State::kThere) continue;
      return fmt::format(
          "gradient of operand {} in storage {}: expected one that backward "
          "leaves, got {}",
          k, handle.index, text_of(state));
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<std::string> never_made() const {
    for (std::size_t j = 0; j < storages_.size(); ++j) {
      if (storages_[j] != State::kUnmade) continue;
      return fmt::format("storage {}: expected an alloc event, got none", j);
    }
    return std::nullopt;
  }

  const Record& record_;
  std::vector<State> storages_;
  std::vector<bool> released_, dropped_;
};

}  // namespace

std::optional<std::string> impossible_order(const Record& record) {
  return Follower(record).run();
}

}  // namespace shardwright::cost::internal
