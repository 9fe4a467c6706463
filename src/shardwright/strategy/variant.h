// Special implementations: which one a strategy needs, with which arguments,
// and the collectives it issues itself.
#pragma once

#include "shardwright/strategy/strategy.h"

namespace shardwright::strategy {

// Fills variant, variant_args and collectives of a strategy whose
// factor_of_axis and local_factors are set. False: the strategy would need two
// different special implementations at once.
//
// Collectives, per mesh axis, in this order:
//   cross_entropy      rows of a mean: all_reduce of an int64 count; classes:
//                      all_reduce of the row maxima, then of two numbers per
//                      row (sum of exponentials, target logit)
//   sync_batch_norm    forward twice C numbers, backward once 2 C
//   vocab_parallel_embedding, scaled_mean, random: none
bool assign_variant(const ir::Graph& graph, const ir::Op& op,
                    const rules::Rule& rule, const mesh::DeviceMesh& mesh,
                    Strategy& strategy);

}  // namespace shardwright::strategy
