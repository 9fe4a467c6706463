// Collects what is wrong, in the order it is found.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shardwright/verify/verify.h"

namespace shardwright::verify::internal {

class Findings {
 public:
  void add(std::string where, std::string what) {
    list_.push_back(Finding{std::move(what), std::move(where)});
  }
  [[nodiscard]] std::size_t count() const { return list_.size(); }
  [[nodiscard]] std::vector<Finding> take() { return std::move(list_); }

 private:
  std::vector<Finding> list_;
};

}  // namespace shardwright::verify::internal
