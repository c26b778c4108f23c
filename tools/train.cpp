#include "tools/command.h"
#include "tools/configured.h"
#include "train/trainer.h"

namespace trireme::tools {

void add_train(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Starts or resumes a run");
  const auto arguments = add_config_arguments(*command);
  command->callback([command, arguments] {
    const std::optional<train::Config> config = read_config(*command, *arguments);
    if (!config) return;
    const train::StopSignals signals;
    train::Trainer trainer(*config, signals);
    if (const core::ExitCode code = trainer.run(); code != core::ExitCode::ok)
      throw CLI::RuntimeError(static_cast<int>(code));
  });
}

}  // namespace trireme::tools
