#include "data/dataset.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/tokenizer/tokenizer.h"

namespace trireme::data {

using core::ExitCode;
using core::require;

std::int64_t validation_tokens(std::int64_t tokens, double fraction) {
  constexpr __int128 billion = 1'000'000'000;
  const auto part = static_cast<__int128>(std::llround(fraction * 1e9));
  return static_cast<std::int64_t>((static_cast<__int128>(tokens) * part + billion - 1) / billion);
}

Dataset::Dataset(const DataConfig& config, const DatasetOptions& options) : config_(config), options_(options) {
  const std::vector<std::string> wrong = problems(config);
  require(wrong.empty(), ExitCode::usage, "{}", fmt::join(wrong, "; "));
  require(!config.train.empty(), ExitCode::usage, "data.train: no corpus; give data.train = [{{ path = \"...\" }}]");
  require(config.separator_id < options.vocab_size, ExitCode::usage,
          "data.separator_id: {} is not an id, model.vocab_size is {}", config.separator_id, options.vocab_size);
  core::check(options.sequence > 0, "samples of {} tokens", options.sequence);
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

std::string Dataset::fingerprint(const Corpus& corpus) const {
  return corpus.fingerprint(config_.verify == "full", options_.between);
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
    fingerprints_.push_back(fingerprint(*corpus));
  }
}

void Dataset::open_validation() {
  for (std::size_t i = 0; i < config_.valid.size(); ++i) {
    const auto corpus = open(config_.valid[i], fmt::format("data.valid[{}].path", i));
    require(corpus->tokens() >= 2, ExitCode::bad_data, "{}: {} tokens, validation needs at least 2",
            config_.valid[i].path, corpus->tokens());
    validation_.push_back({corpus, 0, corpus->tokens()});
    valid_fingerprints_.push_back(fingerprint(*corpus));
  }
}

std::int64_t Dataset::samples(std::size_t corpus) const { return (training_[corpus].tokens - 1) / options_.sequence; }

SampleId Dataset::sample(std::size_t corpus, std::int64_t pick) const {
  const std::int64_t n = samples(corpus);
  const std::int64_t epoch = pick / n;
  return {corpus, epoch,
          permute(options_.seed, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(corpus), n, pick % n)};
}

std::string Dataset::epoch_progress(const std::vector<std::int64_t>& drawn) const {
  std::string out;
  for (std::size_t i = 0; i < drawn.size(); ++i)
    out += fmt::format("{}{:.2f}", i > 0 ? ", " : "", static_cast<double>(drawn[i]) / static_cast<double>(samples(i)));
  return (drawn.size() > 1 ? "epochs " : "epoch ") + out;
}

std::vector<std::string> Dataset::describe(std::int64_t run_samples) const {
  const std::vector<double> shares = shares_of(weights_);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < training_.size(); ++i) {
    const Corpus& corpus = *training_[i].corpus;
    const std::string documents = corpus.documents() ? fmt::format(", {} documents", corpus.documents()) : "";
    lines.push_back(fmt::format("train {}: {} tokens{}, {} samples, share {:.4g}, {:.3g} epochs expected",
                                corpus.path(), training_[i].tokens, documents, samples(i), shares[i],
                                shares[i] * static_cast<double>(run_samples) / static_cast<double>(samples(i))));
  }
  for (const Part& part : validation_)
    lines.push_back(fmt::format("valid {}: {} tokens, {} targets", part.corpus->path(), part.tokens, part.tokens - 1));
  return lines;
}

std::vector<std::string> Dataset::warnings(std::int64_t run_samples) const {
  std::vector<std::string> lines;
  warn_of_weights(run_samples, lines);
  for (std::size_t i = 0; i < training_.size(); ++i) {
    const Corpus& corpus = *training_[i].corpus;
    if (corpus.empty_documents() > 0)
      lines.push_back(fmt::format("{}: {} empty documents", corpus.path(), corpus.empty_documents()));
    const std::int64_t left = training_[i].tokens - 1 - samples(i) * options_.sequence;
    if (left > 0) lines.push_back(fmt::format("{}: {} tokens after the last whole sample", corpus.path(), left));
  }
  warn_of_tokenizers(lines);
  return lines;
}

void Dataset::warn_of_weights(std::int64_t run_samples, std::vector<std::string>& lines) const {
  const std::vector<double> shares = shares_of(weights_);
  const double smallest = *std::min_element(shares.begin(), shares.end());
  // Counts stay within a sample or so of their share: only a small one has to be replayed.
  if (smallest * static_cast<double>(run_samples) > static_cast<double>(shares.size() + 1)) return;
  Blend blend(weights_);
  blend.advance_to(run_samples);
  for (std::size_t i = 0; i < training_.size(); ++i)
    if (blend.counts()[i] == 0)
      lines.push_back(fmt::format("data.train[{}].weight: {} gets no sample among the {} of this run", i, weights_[i],
                                  run_samples));
}

void Dataset::warn_of_tokenizers(std::vector<std::string>& lines) const {
  std::vector<std::pair<std::string, std::string>> known;  // what, SHA-256
  if (!config_.tokenizer.empty())
    known.emplace_back("data.tokenizer = " + config_.tokenizer, Tokenizer::load(config_.tokenizer).sha256());
  for (const auto* parts : {&training_, &validation_})
    for (const Part& part : *parts)
      if (!part.corpus->tokenizer_sha256().empty())
        known.emplace_back(part.corpus->path(), part.corpus->tokenizer_sha256());
  for (std::size_t i = 1; i < known.size(); ++i)
    if (known[i].second != known[0].second)
      lines.push_back(fmt::format("{}: made with another tokenizer (SHA-256 {}) than {} ({})", known[i].first,
                                  known[i].second, known[0].first, known[0].second));
}

nlohmann::json Dataset::state(std::int64_t consumed) const {
  nlohmann::json out;
  out["consumed_samples"] = consumed;
  out["seed"] = options_.seed;
  out["sequence_length"] = options_.sequence;
  if (config_.valid.empty())
    out["valid"] = config_.valid_fraction;
  else
    out["valid"] = valid_fingerprints_;
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
  compare("run.seed", field(before, "seed"), field(now, "seed"));
  compare("model.sequence_length", field(before, "sequence_length"), field(now, "sequence_length"));
  compare("data.valid", field(before, "valid"), field(now, "valid"));
  const nlohmann::json old_corpora = field(before, "corpora"), corpora = field(now, "corpora");
  compare("the number of data.train", old_corpora.size(), corpora.size());
  if (old_corpora.size() != corpora.size()) return out;
  for (std::size_t i = 0; i < corpora.size(); ++i)
    for (const char* key : {"fingerprint", "weight", "tokens"})
      compare(fmt::format("data.train[{}] {}", i, key), field(old_corpora[i], key), field(corpora[i], key));
  return out;
}

}  // namespace trireme::data
