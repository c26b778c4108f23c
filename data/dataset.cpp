#include "data/dataset.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace trireme::data {

using core::ExitCode;
using core::require;

std::int64_t validation_tokens(std::int64_t tokens, double fraction) {
  constexpr __int128 billion = 1'000'000'000;
  const auto part = static_cast<__int128>(std::llround(fraction * 1e9));
  return static_cast<std::int64_t>((static_cast<__int128>(tokens) * part + billion - 1) / billion);
}

Dataset::Dataset(const DataConfig& config, const DatasetOptions& options) : config_(config), options_(options) {
  open_training();
  open_validation();
}

std::shared_ptr<const Corpus> Dataset::open(const CorpusEntry& entry, const std::string& key) const {
  auto corpus = std::make_shared<Corpus>(CorpusOptions{.path = entry.path,
                                                       .format = entry.format.empty() ? config_.format : entry.format,
                                                       .key = key,
                                                       .vocab_size = options_.vocab_size,
                                                       .allow_unused_bytes = config_.allow_unused_bytes,
                                                       .separator_id = config_.separator_id,
                                                       .separator_at = config_.separator_at});
  require(!config_.document_mask || corpus->has_documents(), ExitCode::usage,
          "data.document_mask: {} has no document boundaries; give data.separator_id", entry.path);
  if (corpus->scanned_at_start()) corpus->scan(options_.between);
  return corpus;
}

void Dataset::open_training() {
  for (std::size_t i = 0; i < config_.train.size(); ++i) {
    const CorpusEntry& entry = config_.train[i];
    const auto corpus = open(entry, fmt::format("data.train[{}].path", i));
    Part part{corpus, 0, corpus->tokens()};
    if (config_.valid_fraction > 0) {
      const std::int64_t held = validation_tokens(part.tokens, config_.valid_fraction);
      require(held >= 2, ExitCode::bad_data, "data.valid = {}: {} leaves {} token{} for validation, needs at least 2",
              config_.valid_fraction, entry.path, held, held == 1 ? "" : "s");
      part.tokens -= held;
      validation_.push_back({corpus, part.tokens, held});
    }
    require(part.tokens > options_.sequence, ExitCode::bad_data,
            "{}: {} tokens, one sample needs {} (model.sequence_length + 1)", entry.path, part.tokens,
            options_.sequence + 1);
    training_.push_back(part);
    weights_.push_back(entry.weight);
    fingerprints_.push_back(corpus->fingerprint(config_.verify == "full", options_.between));
  }
}

void Dataset::open_validation() {
  for (std::size_t i = 0; i < config_.valid.size(); ++i) {
    const auto corpus = open(config_.valid[i], fmt::format("data.valid[{}].path", i));
    require(corpus->tokens() >= 2, ExitCode::bad_data, "{}: {} tokens, validation needs at least 2",
            config_.valid[i].path, corpus->tokens());
    validation_.push_back({corpus, 0, corpus->tokens()});
  }
}

std::int64_t Dataset::samples(std::size_t corpus) const { return (training_[corpus].tokens - 1) / options_.sequence; }

SampleId Dataset::sample(std::size_t corpus, std::int64_t pick) const {
  const std::int64_t n = samples(corpus);
  const std::int64_t epoch = pick / n;
  return {corpus, epoch,
          permute(options_.seed, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(corpus), n, pick % n)};
}

std::vector<std::string> Dataset::describe(std::int64_t run_samples) const {
  double sum = 0;
  for (const double weight : weights_) sum += weight;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < training_.size(); ++i) {
    const Corpus& corpus = *training_[i].corpus;
    const double share = weights_[i] / sum;
    const std::string documents = corpus.documents() ? fmt::format(", {} documents", corpus.documents()) : "";
    lines.push_back(fmt::format("train {}: {} tokens{}, {} samples, share {:.4g}, {:.3g} epochs expected",
                                corpus.path(), training_[i].tokens, documents, samples(i), share,
                                share * static_cast<double>(run_samples) / static_cast<double>(samples(i))));
  }
  for (const Part& part : validation_)
    lines.push_back(fmt::format("valid {}: {} tokens, {} targets", part.corpus->path(), part.tokens, part.tokens - 1));
  return lines;
}

std::vector<std::string> Dataset::warnings(std::int64_t run_samples) const {
  std::vector<std::string> lines;
  double sum = 0;
  for (const double weight : weights_) sum += weight;
  for (std::size_t i = 0; i < training_.size(); ++i) {
    const Corpus& corpus = *training_[i].corpus;
    if (weights_[i] / sum * static_cast<double>(run_samples) < 1)
      lines.push_back(fmt::format("data.train[{}].weight = {} may get no sample in {} samples of this run", i,
                                  weights_[i], run_samples));
    if (corpus.empty_documents() > 0)
      lines.push_back(fmt::format("{}: {} empty documents", corpus.path(), corpus.empty_documents()));
    const std::int64_t left = training_[i].tokens - 1 - samples(i) * options_.sequence;
    if (left > 0) lines.push_back(fmt::format("{}: {} tokens after the last whole sample", corpus.path(), left));
  }
  return lines;
}

nlohmann::json Dataset::state(std::int64_t consumed) const {
  nlohmann::json out;
  out["consumed_samples"] = consumed;
  out["seed"] = options_.seed;
  out["sequence_length"] = options_.sequence;
  out["valid_fraction"] = config_.valid_fraction;
  for (std::size_t i = 0; i < training_.size(); ++i)
    out["corpora"].push_back(
        {{"fingerprint", fingerprints_[i]}, {"weight", weights_[i]}, {"tokens", training_[i].corpus->tokens()}});
  return out;
}

std::vector<std::string> Dataset::differences(const nlohmann::json& before, const nlohmann::json& now) {
  std::vector<std::string> out;
  const auto compare = [&](const std::string& name, const nlohmann::json& a, const nlohmann::json& b) {
    if (a != b) out.push_back(fmt::format("{} was {}, is {}", name, a.dump(), b.dump()));
  };
  const auto field = [](const nlohmann::json& from, const char* key) {
    return from.is_object() && from.contains(key) ? from.at(key) : nlohmann::json();
  };
  for (const char* key : {"seed", "sequence_length", "valid_fraction"})
    compare(key, field(before, key), field(now, key));
  const nlohmann::json old_corpora = field(before, "corpora"), corpora = field(now, "corpora");
  compare("number of corpora", old_corpora.size(), corpora.size());
  if (old_corpora.size() != corpora.size()) return out;
  for (std::size_t i = 0; i < corpora.size(); ++i)
    for (const char* key : {"fingerprint", "weight", "tokens"})
      compare(fmt::format("data.train[{}] {}", i, key), field(old_corpora[i], key), field(corpora[i], key));
  return out;
}

}  // namespace trireme::data
