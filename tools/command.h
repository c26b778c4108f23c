#pragma once

#include <CLI/CLI.hpp>

namespace trireme::tools {

// Each adds one subcommand to `app`. Its callback does the work and throws core::Error; main prints and exits.
void add_train(CLI::App& app);
void add_bench(CLI::App& app);
void add_eval(CLI::App& app);
void add_generate(CLI::App& app);
void add_tokenizer(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_import(CLI::App& app);
void add_export(CLI::App& app);
void add_inspect(CLI::App& app);

}  // namespace trireme::tools
