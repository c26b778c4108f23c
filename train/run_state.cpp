#include "train/run_state.h"

#include <nlohmann/json.hpp>

#include "train/model_json.h"

namespace trireme::train {

using core::ExitCode;
using nlohmann::json;

namespace {

json optimizer_json(const Config& c) {
  return {{"name", c.optimizer.name},   {"lr", c.optimizer.lr},    {"beta1", c.optimizer.beta1},
          {"beta2", c.optimizer.beta2}, {"eps", c.optimizer.eps},  {"weight_decay", c.optimizer.weight_decay},
          {"clip", c.optimizer.clip},   {"batch", c.batch.global}, {"dropout", c.model.dropout}};
}

json schedule_json(const Config& c) {
  return {{"kind", c.schedule.kind},
          {"warmup_steps", c.schedule.warmup_steps},
          {"decay_steps", c.schedule.decay_steps},
          {"decay_shape", c.schedule.decay_shape},
          {"min_lr", c.schedule.min_lr},
          {"steps", total_steps(c)}};
}

std::vector<std::string> changes(const char* section, const json& before, const json& now) {
  std::vector<std::string> out;
  for (const auto& [key, value] : now.items())
    if (before.is_object() && before.contains(key) && before[key] != value)
      out.push_back(fmt::format("changed: {}.{} {} -> {}", section, key, before[key].dump(), value.dump()));
  return out;
}

}  // namespace

CheckpointMeta checkpoint_meta(const Config& config, const Counters& counters, const data::Dataset& dataset) {
  CheckpointMeta meta;
  meta.run_id = counters.run_id;
  meta.run_name = config.run.name;
  meta.attempt = counters.attempt;
  meta.step = counters.step;
  meta.updates = counters.updates;
  meta.samples = counters.samples;
  meta.tokens = counters.tokens;
  meta.seed = static_cast<std::uint64_t>(config.run.seed);
  meta.data = dataset.state(counters.samples);
  meta.schedule = schedule_json(config);
  meta.optimizer = optimizer_json(config);
  meta.model = model_to_json(config.model);
  meta.guard = json::object();
  meta.goodput = json::object();
  meta.layout = {{"ranks", 1}, {"tensor", 1},         {"context", 1},   {"pipeline", 1},
                 {"data", 1},  {"virtual_stages", 1}, {"zero_stage", 0}};
  meta.config_toml = print_config(config);
  return meta;
}

Counters counters_of(const CheckpointMeta& meta) {
  return {.run_id = meta.run_id,
          .attempt = meta.attempt + 1,
          .step = meta.step,
          .updates = meta.updates,
          .samples = meta.samples,
          .tokens = meta.tokens};
}

std::vector<std::string> check_resume(const Config& config, core::DType compute, const data::Dataset& dataset,
                                      const Manifest& manifest) {
  const CheckpointMeta& meta = manifest.meta;
  const std::string at = fmt::format("checkpoint of step {}", meta.step);
  core::require(meta.kind == "full", ExitCode::no_checkpoint, "{} holds weights only; use it as model.initial_weights",
                at);
  const json now = model_to_json(config.model);
  for (const auto& [key, value] : now.items())
    core::require(meta.model.contains(key) && meta.model[key] == value, ExitCode::usage,
                  "model.{} is {}, the {} has {}", key, value.dump(), at,
                  meta.model.contains(key) ? meta.model[key].dump() : "nothing");
  const core::DType masters = core::accumulate_dtype(compute);
  for (const StoredTensor& tensor : manifest.tensors)
    core::require(tensor.dtype == masters, ExitCode::usage, "precision.compute: masters are {}, the {} has {}",
                  core::name_of(masters), at, core::name_of(tensor.dtype));
  std::vector<std::string> lines = changes("optimizer", meta.optimizer, optimizer_json(config));
  for (std::string& line : changes("schedule", meta.schedule, schedule_json(config))) lines.push_back(std::move(line));
  for (const std::string& difference : data::Dataset::differences(meta.data, dataset.state(meta.samples))) {
    core::require(config.data.allow_change, ExitCode::bad_data,
                  "data changed since the {}: {} (data.allow_change goes on all the same)", at, difference);
    lines.push_back("changed: " + difference);
  }
  return lines;
}

}  // namespace trireme::train
