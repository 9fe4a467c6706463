// Profile record of an op: which storages it makes, what autograd keeps, and
// the order in which its forward and backward allocate and release them.
//
// Every number is an expression over the factors of the op's sharding rule and
// is evaluated at local sizes; a record is never scaled by 1/n (statistics,
// saved operands and halos do not scale so). Identity is the *storage*: two
// tensors that share one are one handle.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shardwright/base/json.h"
#include "shardwright/base/result.h"
#include "shardwright/ir/graph.h"

namespace shardwright::cost {

// times * the local size of a factor, rounded up to a multiple of `unit`.
struct Rounded {
  std::int32_t factor = 0;
  std::int64_t times = 1;
  std::int64_t unit = 1;
};

// low <= times * the local size of a factor <= high.
struct Condition {
  std::int32_t factor = 0;
  std::int64_t times = 1;
  std::int64_t low = 0;
  std::int64_t high = 0;
};

// coefficient * product of local factor sizes (a factor may repeat) * product
// of the rounded sizes; 0 unless all conditions hold. Rounding and conditions
// are for scratch of kernels that work in blocks or change their algorithm.
struct Term {
  double coefficient = 0;
  std::vector<std::int32_t> factors;
  std::vector<Rounded> rounded;
  std::vector<Condition> conditions;
};

// A sum of terms; no term: 0.
struct Expr {
  std::vector<Term> terms;

  // Error-free: factors out of range are a bug of the caller (checked).
  [[nodiscard]] double value(const std::vector<std::int64_t>& sizes) const;
};

// A storage seen by an op: its k-th new one, operand k's, or that of the
// gradient of result k.
struct Handle {
  enum class Kind : std::uint8_t { kNone, kNew, kOperand, kGradient };
  Kind kind = Kind::kNone;
  std::int32_t index = -1;

  auto operator<=>(const Handle&) const = default;
};

struct Event {
  enum class Kind : std::uint8_t {
    kAlloc,      // new storage `index`
    kFree,       // the op itself drops new storage `index`
    kRelease,    // autograd drops saved tensor `index`
    kDropGrad,   // the incoming gradient of result `index` is dropped
    kTransient,  // `bytes` alive only inside this moment
  };
  Kind kind = Kind::kAlloc;
  std::int32_t index = -1;
  Expr bytes;  // kTransient only
};

// How a tensor lies in memory.
struct MemoryLayout {
  std::vector<std::int32_t> order;  // dims, slowest first; empty: as named
  bool dense = true;  // its elements fill their memory, each its own

  auto operator<=>(const MemoryLayout&) const = default;
};

struct Kernel {
  std::string name;
  std::string kernel_class;  // gemm, attention, conv, elementwise, ...
  Expr flops;
  Expr bytes_read;
  Expr bytes_written;
};

struct RecordAtOne;

struct Record {
  std::vector<Expr> sizes;  // bytes of each new storage
  std::vector<Handle> results;
  std::vector<Handle> saved;
  std::vector<Event> forward;
  std::vector<Event> backward;
  std::vector<Handle> gradients;  // per operand; kNone: no gradient
  // Whether a later gradient of the same tensor may be added into it.
  std::vector<bool> gradients_in_place;
  // Of each result, and of the gradient it is given.
  std::vector<MemoryLayout> result_layouts;
  std::vector<MemoryLayout> gradient_layouts;
  std::vector<Kernel> kernels_forward;
  std::vector<Kernel> kernels_backward;
  bool scalable = true;
  // Of shards one element long in some dims, which may alias where others copy.
  std::vector<RecordAtOne> at_one;
  std::map<std::string, Record> variants;  // special implementations

  // The record of a variant, or this one when `variant` is empty or "random"
  // (the op itself under a seed); nullptr when there is none.
  [[nodiscard]] const Record* of_variant(const std::string& variant) const;
  // This record, or that of shards with these local sizes of the factors.
  [[nodiscard]] const Record& at(const std::vector<std::int64_t>& local) const;
};

// Replaces a record where all these factors, larger in the whole, are 1.
struct RecordAtOne {
  std::vector<std::int32_t> factors;
  Record record;
};

// Error: kInvalidGraph, also when a handle names a storage that is not there.
Result<Record> record_from_json(const Json& json, const std::string& where);

// Whether the record, variants included, is of an op with so many operands,
// results and such factors of its rule, and stays within what 64 bits can count
// at these sizes and smaller ones: that of another op in a damaged graph would
// break invariants later. Error: kInvalidGraph. O(size of the record).
Result<bool> check_fits(const Record& record, std::size_t num_operands,
                        std::size_t num_results,
                        const std::vector<std::int64_t>& factor_sizes,
                        const std::string& where);

// Whether every layout that is no default orders all dims of the op's result.
// Error: kInvalidGraph.
Result<bool> check_ranks(const Record& record, const ir::Graph& graph,
                         const ir::Op& op, const std::string& where);

}  // namespace shardwright::cost
