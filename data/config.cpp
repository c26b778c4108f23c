#include "data/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace trireme::data {

namespace {
constexpr std::array<std::string_view, 4> kFormats{"auto", "indexed", "llmc", "raw-u16"};
constexpr std::array<std::string_view, 3> kSides{"auto", "start", "end"};
constexpr std::array<std::string_view, 2> kVerify{"sampled", "full"};
}  // namespace

void DataConfig::fields(core::FieldVisitor& visit) {
  visit.choice("format", format, kFormats, "kind of the corpora that do not say their own");
  visit.text("tokenizer", tokenizer, "tokenizer.json or its folder: for sample prompts, saved with checkpoints");
  visit.flag("document_mask", document_mask, "attention stays inside a document");
  visit.integer("separator_id", separator_id, {-1, 1 << 30}, "id between documents where no index says; -1: none");
  visit.choice("separator_at", separator_at, kSides, "the separator stands at a document's start or end");
  visit.flag("allow_change", allow_change, "go on although seed or data changed since the checkpoint");
  visit.flag("allow_unused_bytes", allow_unused_bytes, "accept bytes of a .bin that no sequence covers");
  visit.choice("verify", verify, kVerify, "tokens that a large file's fingerprint covers");
}

std::vector<std::string> problems(const DataConfig& config) {
  std::vector<std::string> out;
  const auto check_entry = [&](const CorpusEntry& entry, const std::string& key) {
    if (entry.path.empty()) out.push_back(fmt::format("{}.path: is missing", key));
    if (!entry.format.empty() && std::find(kFormats.begin(), kFormats.end(), entry.format) == kFormats.end())
      out.push_back(fmt::format("{}.format: \"{}\" is none of {}", key, entry.format, fmt::join(kFormats, ", ")));
  };
  double sum = 0;
  for (std::size_t i = 0; i < config.train.size(); ++i) {
    const std::string key = fmt::format("data.train[{}]", i);
    const double weight = config.train[i].weight;
    check_entry(config.train[i], key);
    if (!std::isfinite(weight) || weight <= 0)
      out.push_back(fmt::format("{}.weight: {} must be a finite number above 0", key, weight));
    sum += weight;
  }
  if (out.empty() && !std::isfinite(sum)) out.push_back("data.train: the sum of the weights is not finite");
  for (std::size_t i = 0; i < config.valid.size(); ++i) check_entry(config.valid[i], fmt::format("data.valid[{}]", i));
  if (!(config.valid_fraction >= 0 && config.valid_fraction < 1))
    out.push_back(fmt::format("data.valid: {} is not a fraction from 0 to 1 (1 excluded)", config.valid_fraction));
  if (!config.valid.empty() && config.valid_fraction != 0)
    out.push_back("data.valid: give corpora or a fraction, not both");
  return out;
}

std::vector<std::string> corpus_formats() { return {kFormats.begin(), kFormats.end()}; }

}  // namespace trireme::data
