#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Names of a checkpoint directory.
namespace trireme::train {

inline constexpr std::string_view kManifestName = "MANIFEST.json";
inline constexpr std::string_view kViewName = "model.h5";

std::string step_name(std::int64_t step);    ///< step-000000123
std::string shard_name(std::int64_t shard);  ///< shard-00000.h5
/// The step of a candidate's name; nothing for any other name.
std::optional<std::int64_t> step_of(std::string_view name);
bool is_shard_name(std::string_view name);
/// A bare name of letters, digits, '.', '_' and '-' that does not begin with a dot.
bool is_file_name(std::string_view name);
/// Eight random hexadecimal digits.
std::string make_nonce();

}  // namespace trireme::train
