#pragma once

#include <string>

#include "data/tokenizer/definition.h"
#include "data/tokenizer/raw_definition.h"

namespace trireme::data {

/// Reads added_tokens, normalizer, pre_tokenizer and the model's settings. Whatever is not known is refused by name
/// (Error(bad_data)); post_processor, truncation and padding do not act on corpora and may be anything.
void read_sections(const RawDefinition& raw, const std::string& file, TokenizerDefinition& into);

}  // namespace trireme::data
