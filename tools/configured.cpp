#include "tools/configured.h"

#include <cstdio>

#include "core/error.h"

namespace trireme::tools {

std::shared_ptr<ConfigArguments> add_config_arguments(CLI::App& command) {
  auto arguments = std::make_shared<ConfigArguments>();
  command.add_option("CONFIG", arguments->file, "TOML file; keys below")->required();
  command.add_flag("--print-config", arguments->print, "Prints the resolved configuration and ends");
  command.allow_extras();
  command.footer(
      "Keys of CONFIG, each also as --section.key=value (relative paths are then taken from the current\n"
      "folder, those in CONFIG from its folder):\n" +
      train::config_help());
  return arguments;
}

std::optional<train::Config> read_config(const CLI::App& command, const ConfigArguments& arguments) {
  std::vector<std::string> overrides;
  for (const std::string& extra : command.remaining()) {
    core::require(extra.starts_with("--") && extra.find('=') != std::string::npos, core::ExitCode::usage,
                  "{}: neither an option nor --section.key=value (see --help)", extra);
    overrides.push_back(extra.substr(2));
  }
  train::Config config = train::load_config(arguments.file, overrides);
  if (!arguments.print) return config;
  const std::string text = train::print_config(config);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

}  // namespace trireme::tools
