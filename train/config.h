#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/fields.h"
#include "data/config.h"
#include "model/config.h"
#include "parallel/config.h"

namespace trireme::train {

struct RunConfig {
  std::string name;
  std::string directory = "run";
  std::int64_t seed = 1234;
  std::int64_t steps = 0;  ///< 0: from tokens
  std::int64_t tokens = 0;
  std::string resume = "auto";  ///< auto, must, never or a checkpoint
  double max_minutes = 0;       ///< 0: no limit
  bool deterministic = false;
  void fields(core::FieldVisitor& visit);
};

struct DeviceConfig {
  std::string kind = "auto";
  std::int64_t threads = 0;  ///< 0: all cores
  void fields(core::FieldVisitor& visit);
};

struct PrecisionConfig {
  std::string compute = "auto";
  std::string gradients = "fp32";
  void fields(core::FieldVisitor& visit);
};

struct BatchConfig {
  std::int64_t global = 0;  ///< sequences a step
  std::int64_t micro = 0;   ///< sequences a micro-batch; 0: the whole batch
  void fields(core::FieldVisitor& visit);
};

struct OptimizerConfig {
  std::string name = "adamw";
  double lr = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip = 1;
  bool offload = false;
  void fields(core::FieldVisitor& visit);
};

/// Learning rate over the steps.
struct ScheduleConfig {
  std::string kind = "cosine";
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;  ///< 0: cosine and linear until the end, wsd a fifth of the steps
  std::string decay_shape = "sqrt";
  double min_lr = 0;
  void fields(core::FieldVisitor& visit);
};

struct CheckpointConfig {
  std::int64_t every_steps = 0;        ///< 0: by minutes
  std::string every_minutes = "auto";  ///< a number, or auto
  std::int64_t keep = 3;
  std::int64_t keep_every = 0;
  bool async = true;
  std::string directory;  ///< empty: DIR/checkpoints
  bool sha256 = false;
  double deadline_seconds = 0;
  std::int64_t max_failed_saves = 3;
  double max_minutes = 60;
  void fields(core::FieldVisitor& visit);
  /// Seconds between saves; 0: at the end only.
  double interval_seconds() const;
};

struct EvalConfig {
  std::int64_t every_steps = 0;  ///< 0: at the end only
  std::int64_t samples = 0;      ///< 0: all
  std::vector<std::string> sample_prompts;
  void fields(core::FieldVisitor& visit);
};

struct LogConfig {
  std::int64_t every_steps = 0;  ///< 0: 1 on a terminal, else 10
  bool tensorboard = true;
  std::vector<std::int64_t> trace_steps;
  bool samples = false;
  bool communication = false;
  void fields(core::FieldVisitor& visit);
};

struct FaultConfig {
  std::int64_t skip_nonfinite = 3;
  void fields(core::FieldVisitor& visit);
};

/// The whole configuration, resolved: one struct a section.
struct Config {
  RunConfig run;
  DeviceConfig device;
  PrecisionConfig precision;
  model::ModelConfig model;
  parallel::ParallelConfig parallel;
  BatchConfig batch;
  data::DataConfig data;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  CheckpointConfig checkpoint;
  EvalConfig eval;
  LogConfig log;
  FaultConfig fault;
};

/// Calls visit(name, section) for every section in the order of print.
template <class Visit>
void for_each_section(Config& config, const Visit& visit) {
  visit("run", config.run);
  visit("device", config.device);
  visit("precision", config.precision);
  visit("model", config.model);
  visit("parallel", config.parallel);
  visit("batch", config.batch);
  visit("data", config.data);
  visit("optimizer", config.optimizer);
  visit("schedule", config.schedule);
  visit("checkpoint", config.checkpoint);
  visit("eval", config.eval);
  visit("log", config.log);
  visit("fault", config.fault);
}

/// Reads `file` and applies the overrides "section.key=value". Relative paths are taken from the file's folder, those
/// of overrides from the current one. All problems are reported at once: Error(usage), a line each with file and line.
Config load_config(const std::filesystem::path& file, const std::vector<std::string>& overrides);
/// The same from text; `name` stands for the file in messages, `folder` for its folder.
Config parse_config(std::string_view text, const std::string& name, const std::filesystem::path& folder,
                    const std::vector<std::string>& overrides);

/// TOML that parses to an equal configuration.
std::string print_config(const Config& config);
/// Every key with type, default, range and one line.
std::string config_help();

/// Steps of the whole run: run.steps, or ceil(run.tokens / (batch.global x model.sequence_length)).
std::int64_t total_steps(const Config& config);

}  // namespace trireme::train
