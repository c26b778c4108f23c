// The input is a config.json. It is refused with the code for bad data, or it is a model that is written and read back.
#include <cstdlib>
#include <string>

#include "core/error.h"
#include "train/huggingface/config_json.h"
#include "train/model_json.h"

using trireme::core::Error;
using trireme::core::ExitCode;

namespace {

void demand(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto config = trireme::train::config_from_hf(trireme::train::parse_json(text, "config.json"), "config.json");
    const std::string written = trireme::train::config_to_hf(config, "float32", text);
    const auto again = trireme::train::config_from_hf(trireme::train::parse_json(written, "again"), "again");
    demand(trireme::train::model_to_json(again) == trireme::train::model_to_json(config));
  } catch (const Error& error) {
    demand(error.code() == ExitCode::bad_data);
    demand(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
