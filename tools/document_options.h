#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "data/tokenizer/documents.h"

namespace trireme::tools {

/// How `tokenize` and `tokenizer train` read their inputs.
struct DocumentFlags {
  bool jsonl = false;
  std::string key = "text";
  std::string separator;
  std::string invalid = "keep";
  int threads = 0;  ///< 0: one a core

  void add_to(CLI::App& command);
  data::DocumentOptions options() const;
  int thread_count() const;
};

}  // namespace trireme::tools
