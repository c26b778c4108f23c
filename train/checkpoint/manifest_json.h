#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace trireme::train {

/// Parses text as JSON nested at most `deepest` levels, no key twice in an object. Throws Error(no_checkpoint) starting
/// with `where`.
nlohmann::json parse_json(const std::string& text, int deepest, const std::string& where);

/// Appends JSON on one line; doubles with 17 significant digits, so that they read back exactly.
void append_json(const nlohmann::json& value, std::string& out);

}  // namespace trireme::train
