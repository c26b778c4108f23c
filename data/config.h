#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/fields.h"

namespace trireme::data {

/// One corpus of `data.train` or `data.valid`.
struct CorpusEntry {
  std::string path;
  double weight = 1;   ///< share of samples, relative to the other entries
  std::string format;  ///< empty: data.format
};

/// Section [data]: which tokens, in which order. `train` and `valid` are arrays of tables, read by the configuration.
struct DataConfig {
  std::vector<CorpusEntry> train;
  std::vector<CorpusEntry> valid;
  double valid_fraction = 0;    ///< `valid = 0.1`: this part at the end of each training corpus
  std::string format = "auto";  ///< auto, indexed, llmc, raw-u16
  std::string tokenizer;        ///< tokenizer.json or its folder; for sample prompts, travels with checkpoints
  bool document_mask = false;
  std::int64_t separator_id = -1;     ///< document separator where the format has no boundaries; -1: none
  std::string separator_at = "auto";  ///< auto (llmc: start, raw-u16: end), start, end
  bool allow_change = false;
  bool allow_unused_bytes = false;
  std::string verify = "sampled";  ///< sampled, full: tokens that enter the fingerprint of large files

  void fields(core::FieldVisitor& visit);
};

/// What is wrong with the values together: weights, formats, contradictions; "data.train[1].weight: ..." each.
std::vector<std::string> problems(const DataConfig& config);

/// The formats a corpus entry may name.
std::vector<std::string> corpus_formats();

}  // namespace trireme::data
