#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "train/config.h"

namespace trireme::tools {

/// What a command that takes CONFIG was given.
struct ConfigArguments {
  std::string file;
  bool print = false;
};

/// Adds CONFIG, --print-config and free --section.key=value to `command`; --help lists every key.
std::shared_ptr<ConfigArguments> add_config_arguments(CLI::App& command);

/// The configuration, or nothing after --print-config printed it.
std::optional<train::Config> read_config(const CLI::App& command, const ConfigArguments& arguments);

}  // namespace trireme::tools
