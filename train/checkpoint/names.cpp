#include "train/checkpoint/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <random>

namespace trireme::train {

namespace {
bool digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}
constexpr std::string_view kStep = "step-";
constexpr std::string_view kShard = "shard-";
constexpr std::string_view kShardEnd = ".h5";
}  // namespace

std::string step_name(std::int64_t step) { return fmt::format("{}{:09}", kStep, step); }
std::string shard_name(std::int64_t shard) { return fmt::format("{}{:05}{}", kShard, shard, kShardEnd); }

std::optional<std::int64_t> step_of(std::string_view name) {
  if (name.size() != kStep.size() + 9 || !name.starts_with(kStep) || !digits(name.substr(kStep.size()))) return {};
  return std::stoll(std::string(name.substr(kStep.size())));
}

std::optional<std::int64_t> shard_of(std::string_view name) {
  if (!name.starts_with(kShard) || !name.ends_with(kShardEnd) || name.size() < kShard.size() + kShardEnd.size())
    return {};
  const std::string_view number = name.substr(kShard.size(), name.size() - kShard.size() - kShardEnd.size());
  if (!digits(number) || number.size() > 9) return {};
  const std::int64_t shard = std::stoll(std::string(number));
  return shard_name(shard) == name ? std::optional(shard) : std::nullopt;
}

bool is_tensor_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_'; });
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; });
}

std::string make_nonce() {
  std::random_device random;
  return fmt::format("{:08x}", random());
}

}  // namespace trireme::train
