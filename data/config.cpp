#include "data/config.h"

#include <array>
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

std::vector<std::string> corpus_formats() { return {kFormats.begin(), kFormats.end()}; }

}  // namespace trireme::data
