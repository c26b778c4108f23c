#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "data/tokenizer/documents.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme::data {

struct EncodeOptions {
  DocumentOptions documents;
  SpecialText special = SpecialText::parse;
  std::optional<std::int32_t> end_of_document;  ///< none: nothing is put between documents
  bool end_comes_first = false;                 ///< at the start of each document instead of its end
  int threads = 1;
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;  ///< bytes; may throw to stop
};

struct EncodeSummary {
  std::int64_t documents = 0;
  std::int64_t empty = 0;  ///< skipped
  std::int64_t tokens = 0;
  std::int64_t special = 0;  ///< special tokens parsed in texts
  std::uint64_t bytes = 0;
};

/// Gives the ids of each document, in order and whatever the number of threads the same. Throws Error(bad_data)
/// naming file and position, and `no documents in N inputs`.
EncodeSummary encode_corpus(const std::vector<std::filesystem::path>& inputs, const Tokenizer& tokenizer,
                            const EncodeOptions& options,
                            const std::function<void(std::span<const std::int32_t>)>& add_document);

}  // namespace trireme::data
