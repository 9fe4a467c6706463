// Lives: how long a copy of a value must exist, by what its readers do.
//
// A copy has a home: the slot that makes it and the region of that slot. Its
// readers need it
//  - internally (same region as home): in forward, and at their backward if
//    they save it. If the region is recomputed these needs are met by the
//    recomputed copy;
//  - externally (another region): at their backward if they save it (level 1),
//    or until the end of their region's backward if that region is recomputed,
//    since a recomputed region holds its inputs (level 2).
// An op whose result shares its operand's storage (a view) passes on the needs
// of the result's readers: they are taken at their latest.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/planner/model.h"

namespace shardwright::planner {

// What a choice of readers demands of a copy.
struct Need {
  bool internal = false;
  std::int32_t external = 0;  // 0 nothing, 1 saved, 2 held by a recompute

  void merge(const Need& other);
  auto operator<=>(const Need&) const = default;
};

// Latest ends over everything the readers might do.
struct Life {
  std::int32_t home_slot = -1;     // -1: persists (input, buffer, parameter)
  std::int32_t home_region = -1;   // recomputable region, else -1
  std::int32_t last_forward = -1;  // slot
  std::int32_t last_internal_slot = -1;  // last reader inside the region
  std::int32_t internal_end = -1;        // backward position, -1: none
  std::int32_t external_saved_end = -1;  // level 1
  std::int32_t external_held_end = -1;   // level 2
};

// The life of a value as produced.
Life life_of_value(const Model& model, ValueId value);
// The life of a converted copy, made at its slot.
Life life_of_copy(const Model& model, std::int32_t copy);
std::vector<Reader> readers_of(const Model& model, const Copy& copy);
// The life of a gathered parameter, made at its use slot.
Life life_of_use(const Model& model, OpId reader, ValueId parameter);

// What a reader demands of a copy with this home region, by what it runs. Views
// pass on the needs of their results' readers, taken at their latest; that part
// is worked out once.
class ReaderNeeds {
 public:
  ReaderNeeds(const Model& model, const Reader& reader,
              std::int32_t home_region);
  [[nodiscard]] Need of(const PricedStrategy& priced, bool recompute) const;

 private:
  std::vector<std::int32_t> operands_;
  bool inside_;  // the reader is in the home region
  std::vector<Need> through_result_, saved_result_;
};

}  // namespace shardwright::planner
