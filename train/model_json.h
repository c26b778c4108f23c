#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "model/config.h"

namespace trireme::train {

/// The keys of `[model]` that decide a model's shape or arithmetic, under their configuration names. Not in it:
/// preset, dropout, init_std and initial_weights.
nlohmann::json model_to_json(const model::ModelConfig& config);

/// The reverse. Every key must be there, of its type and in its range, and no other; contradictions are refused too.
/// Throws Error(bad_data) naming `where`, key and value.
model::ModelConfig model_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace trireme::train
