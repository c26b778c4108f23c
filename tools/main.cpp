#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <new>

#include "core/error.h"
#include "tools/command.h"
#include "tools/processor.h"
#include "tools/version.h"

namespace {

using trireme::core::ExitCode;

int report(ExitCode code, std::string_view message) {
  const std::string line = fmt::format("trireme: error: {}\n", message);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  return static_cast<int>(code);
}

void add_commands(CLI::App& app) {
  using namespace trireme::tools;
  for (const auto add :
       {add_train, add_bench, add_eval, add_generate, add_tokenizer, add_tokenize, add_import, add_export, add_inspect})
    add(app);
  for (const char* name : {"plan", "report", "supervise"}) {
    CLI::App* command = app.add_subcommand(name, "not in this version yet");
    command->allow_extras();
    command->callback([name] {
      trireme::core::fail(ExitCode::usage, "{}: not in this version yet; `trireme --help` lists what is", name);
    });
  }
}

int run(int argc, char** argv) {
  CLI::App app("Trireme pretrains GPT models. COMMAND --help lists a command's options.", "trireme");
  app.set_version_flag("--version", [] { return trireme::tools::version_text(); });
  app.require_subcommand(1);
  add_commands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::RuntimeError& code) {
    return code.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return report(ExitCode::usage, fmt::format("{} (see --help)", error.what()));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* missing = trireme_missing_instructions();
  if (missing)
    return report(
        ExitCode::machine,
        fmt::format("this build needs a processor with {}; configure with -DTRIREME_CPU=x86-64-v3 or lower", missing));
  try {
    return run(argc, argv);
  } catch (const trireme::core::Error& error) {
    return report(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return report(ExitCode::machine, "out of memory (lower batch.micro or model.sequence_length)");
  } catch (const std::exception& error) {
    return report(ExitCode::internal, error.what());
  }
}
