#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "train/side_file.h"

namespace trireme::train {

/// What travels from a directory through the checkpoint and out again.
inline constexpr std::array kSideFileNames{"config.json",
                                           "tokenizer.json",
                                           "vocab.json",
                                           "merges.txt",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "generation_config.json"};
inline constexpr std::uint64_t kMaximumSideFile = std::uint64_t{256} << 20;

/// Refuses a tokenizer (tokenizer.json, else vocab.json) with ids at or above `vocab_size`. Throws Error(bad_data).
void check_tokenizer_size(const std::vector<SideFile>& files, std::int64_t vocab_size,
                          const std::filesystem::path& directory);

}  // namespace trireme::train
