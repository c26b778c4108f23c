#pragma once

#include <string>

#include "train/checkpoint/checkpoint.h"

// What must hold between the parts of a manifest. Both throw Error(no_checkpoint) starting with `where`.
namespace trireme::train {

/// Shards are numbered without a gap; every chunk lies inside its shard and no two share bytes.
void check_places(const Manifest& manifest, const std::string& where);

/// Tensors, states, shapes and ties are those of the model that the manifest describes: masters of every parameter,
/// moments of every parameter or none (kind weights), nothing else.
void check_model_tensors(const Manifest& manifest, const std::string& where);

}  // namespace trireme::train
