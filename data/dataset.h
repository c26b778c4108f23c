#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/sample_order.h"
#include "data/token_file.h"

namespace trireme::data {

/// A sample of the run as it was drawn.
struct SampleId {
  std::size_t corpus = 0;
  std::int64_t epoch = 0;
  std::int64_t sample = 0;
};

/// A part of a corpus's stream.
struct Part {
  std::shared_ptr<const Corpus> corpus;
  std::int64_t begin = 0;
  std::int64_t tokens = 0;
};

/// What the data of a run is opened with.
struct DatasetOptions {
  std::int64_t sequence = 0;
  std::int64_t vocab_size = 0;
  std::uint64_t seed = 0;
  std::function<void()> between = [] {};  ///< called while files are scanned; may throw
};

/// The corpora of a run with their training and validation parts. Corpora up to 1 GiB are scanned whole at opening.
/// Throws Error: bad_data for the files, usage for the configuration.
class Dataset {
 public:
  Dataset(const DataConfig& config, const DatasetOptions& options);

  const std::vector<Part>& training() const { return training_; }
  const std::vector<Part>& validation() const { return validation_; }
  const std::vector<double>& weights() const { return weights_; }
  std::int64_t sequence() const { return options_.sequence; }
  bool document_mask() const { return config_.document_mask; }
  std::int64_t samples(std::size_t corpus) const;  ///< whole training samples of a corpus

  /// The sample that pick `pick` of `corpus` is.
  SampleId sample(std::size_t corpus, std::int64_t pick) const;

  /// How far `drawn` samples of each corpus reach, for the log: "epoch 1.37", or "epochs 1.37, 0.02".
  std::string epoch_progress(const std::vector<std::int64_t>& drawn) const;

  /// One line a corpus: documents, tokens, samples, expected epochs over `samples` samples of the run.
  std::vector<std::string> describe(std::int64_t samples) const;
  /// Warnings worth a line at the start: a weight that gets no sample, empty documents, tokens left over, another
  /// tokenizer than data.tokenizer.
  std::vector<std::string> warnings(std::int64_t samples) const;

  /// What a checkpoint keeps of the data.
  nlohmann::json state(std::int64_t consumed) const;
  /// What differs between two states, except consumed samples: "run.seed was 1, is 2".
  static std::vector<std::string> differences(const nlohmann::json& before, const nlohmann::json& now);

 private:
  void open_training();
  void open_validation();
  std::shared_ptr<const Corpus> open(const CorpusEntry& entry, const std::string& key) const;
  std::string fingerprint(const Corpus& corpus) const;
  void warn_of_weights(std::int64_t samples, std::vector<std::string>& lines) const;
  void warn_of_tokenizers(std::vector<std::string>& lines) const;

  const DataConfig config_;
  const DatasetOptions options_;
  std::vector<Part> training_, validation_;
  std::vector<double> weights_;
  std::vector<std::string> fingerprints_, valid_fingerprints_;
};

/// Tokens of the validation part of T tokens at fraction f: ceil(T F / 10^9) with F = f in whole billionths.
std::int64_t validation_tokens(std::int64_t tokens, double fraction);

}  // namespace trireme::data
