#pragma once

#include <string>
#include <string_view>

namespace trireme::data {

struct JsonTextOptions {
  std::string_view key;
  bool replace_surrogates = false;  ///< a lone surrogate escape becomes U+FFFD, else it is an error
};

/// The string under `key` of a line that is one JSON object (the last, where the key is repeated). Bytes that are not
/// UTF-8 stay as they are. Throws Error(bad_data), for `where` = "notes.jsonl:17":
/// `notes.jsonl:17: not a JSON object (column 40: unterminated string)`, columns are bytes from 1;
/// `notes.jsonl:17: no key "text" (has: body, id)`; `notes.jsonl:17: "text" is a number`.
std::string read_json_text(std::string_view line, const JsonTextOptions& options, const std::string& where);

}  // namespace trireme::data
