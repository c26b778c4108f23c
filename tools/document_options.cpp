#include "tools/document_options.h"

#include <algorithm>
#include <thread>

namespace trireme::tools {

void DocumentFlags::add_to(CLI::App& command) {
  command.add_flag("--jsonl", jsonl, "Inputs are JSONL whatever their names; by default those named *.jsonl");
  command.add_option("--key", key, "Key of the text in a JSONL object")->capture_default_str();
  command.add_option("--document-separator", separator,
                     "Cuts plain text into documents where this stands, and is removed [one file is one document]");
  command
      .add_option("--invalid-utf8", invalid,
                  "Bytes that are not UTF-8: keep them, replace each broken part by U+FFFD, or end with an error")
      ->check(CLI::IsMember({"keep", "replace", "error"}))
      ->capture_default_str();
  command.add_option("--threads", threads, "Threads; the result does not depend on them [the cores of the machine]")
      ->check(CLI::Range(1, 4096));
}

data::DocumentOptions DocumentFlags::options() const {
  const data::InvalidUtf8 policy = invalid == "replace" ? data::InvalidUtf8::replace
                                   : invalid == "error" ? data::InvalidUtf8::error
                                                        : data::InvalidUtf8::keep;
  return {.jsonl = jsonl, .key = key, .separator = separator, .invalid = policy};
}

int DocumentFlags::thread_count() const {
  return threads > 0 ? threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace trireme::tools
