#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Names of a checkpoint directory.
namespace trireme::train {

inline constexpr std::string_view kManifestName = "MANIFEST.json";
inline constexpr std::string_view kViewName = "model.h5";

inline constexpr std::int64_t kLastStep = 999'999'999;  ///< nine digits
std::string step_name(std::int64_t step);               ///< step-000000123
std::string shard_name(std::int64_t shard);             ///< shard-00000.h5
/// The step of a candidate's name; nothing for any other name.
std::optional<std::int64_t> step_of(std::string_view name);
/// The number of a shard's name; nothing for any other name, or one of other digits than `shard_name` gives.
std::optional<std::int64_t> shard_of(std::string_view name);
/// A bare name of letters, digits, '.', '_' and '-' that does not begin with a dot.
bool is_file_name(std::string_view name);
/// What a tensor or state may be called: letters, digits, '.' and '_', no dot in front; it is part of a dataset's path.
bool is_tensor_name(std::string_view name);
/// Eight random hexadecimal digits.
std::string make_nonce();

}  // namespace trireme::train
