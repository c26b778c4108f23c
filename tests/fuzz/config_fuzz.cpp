// The input is a configuration file. It is refused with the code for usage, or its print parses to the same print.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/error.h"
#include "train/config.h"

using trireme::core::Error;
using trireme::core::ExitCode;
using trireme::train::Config;

namespace {

void demand(bool condition) {
  if (!condition) std::abort();
}

/// Outside the try block below: a print that is refused ends the program.
void check_print(const Config& config) {
  const std::string printed = trireme::train::print_config(config);
  const Config again = trireme::train::parse_config(printed, "print", "/other", {});
  demand(trireme::train::print_config(again) == printed);
}

bool accepted(std::string_view text, Config& config) {
  try {
    config = trireme::train::parse_config(text, "input", "/folder", {});
    return true;
  } catch (const Error& error) {
    demand(error.code() == ExitCode::usage);
    demand(std::string_view(error.what()).find("input") != std::string_view::npos);
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Config config;
  if (accepted({reinterpret_cast<const char*>(data), size}, config)) check_print(config);
  return 0;
}
