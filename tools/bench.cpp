#include <algorithm>
#include <cmath>

#include "core/clock.h"
#include "core/log.h"
#include "core/random.h"
#include "model/ops/product.h"
#include "tools/command.h"
#include "tools/configured.h"
#include "train/lr_schedule.h"
#include "train/metrics.h"
#include "train/setup.h"
#include "train/step.h"

namespace trireme::tools {

namespace {

/// Random tokens in place of a corpus.
class RandomBatches : public data::BatchSource {
 public:
  RandomBatches(std::int64_t samples, std::int64_t sequence, std::int64_t vocabulary)
      : samples_(samples), sequence_(sequence), vocabulary_(vocabulary) {
    tokens_.resize(static_cast<std::size_t>(samples * sequence));
    targets_.resize(tokens_.size());
  }

  const data::Batch& next() override {
    const core::RandomKey key(1234, core::kTagData);
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const auto words = key({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(position_), 0, 0});
      tokens_[i] = static_cast<std::int32_t>(words[0] % static_cast<std::uint64_t>(vocabulary_));
      targets_[i] = static_cast<std::int32_t>(words[1] % static_cast<std::uint64_t>(vocabulary_));
    }
    batch_ = {.samples = samples_,
              .sequence = sequence_,
              .tokens = tokens_.data(),
              .targets = targets_.data(),
              .first_position = position_,
              .targets_counted = samples_ * sequence_};
    position_ += samples_;
    return batch_;
  }

 private:
  std::int64_t samples_, sequence_, vocabulary_, position_ = 0;
  std::vector<std::int32_t> tokens_, targets_;
  data::Batch batch_;
};

void print_operators(const core::Profile& profile, std::int64_t steps) {
  std::vector<core::Profile::Entry> entries = profile.entries();
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  double total = 0;
  for (const auto& entry : entries) total += entry.seconds;
  core::info(fmt::format("{:<34}{:>12}{:>9}{:>9}", "operator", "ms a step", "share", "calls"));
  for (const auto& entry : entries)
    core::info(fmt::format("{:<34}{:>12.2f}{:>8.1f}%{:>9}", entry.name,
                           entry.seconds * 1e3 / static_cast<double>(steps), 100 * entry.seconds / total,
                           entry.calls / steps));
}

struct Speed {
  double median_seconds = 0;
  std::uint64_t memory_after_first = 0, memory_at_end = 0;
};

Speed measure(const train::Config& config, std::int64_t steps, train::ModelState& state, model::Gpt& gpt) {
  const std::int64_t micro = config.batch.micro > 0 ? config.batch.micro : config.batch.global;
  RandomBatches batches(micro, config.model.sequence_length, config.model.vocab_size);
  std::vector<double> seconds;
  Speed speed;
  for (std::int64_t step = 0; step <= steps; ++step) {
    if (step == 1) gpt.context().profile.restart();
    const double begin = core::now();
    train::StepPlan plan{.micro_batches = config.batch.global / micro, .lr = config.optimizer.lr};
    plan.weight_decay = config.optimizer.weight_decay;
    plan.clip = config.optimizer.clip;
    plan.update = step + 1;
    plan.dropout = {.rate = config.model.dropout, .seed = static_cast<std::uint64_t>(config.run.seed)};
    train::StepOutcome outcome = train::accumulate_gradients(plan, batches, gpt, [] {});
    train::update_weights(plan, state, outcome);
    gpt.context().profile.lap("norm, clipping and AdamW");
    const double taken = core::now() - begin;
    core::info(fmt::format("step {} | loss {:.4f} | norm {:.3f} | {:.1f} ms | {:.1f} tok/s", step, outcome.loss,
                           outcome.grad_norm, taken * 1e3,
                           static_cast<double>(config.batch.global * config.model.sequence_length) / taken));
    if (step == 0) speed.memory_after_first = train::peak_resident_bytes();
    if (step > 0) seconds.push_back(taken);
  }
  speed.memory_at_end = train::peak_resident_bytes();
  std::nth_element(seconds.begin(), seconds.begin() + std::ssize(seconds) / 2, seconds.end());
  speed.median_seconds = seconds[seconds.size() / 2];
  return speed;
}

void bench(const train::Config& config, std::int64_t steps) {
  const int threads = train::choose_threads(config.device.threads);
  const core::DType compute = train::choose_precision(config.precision.compute);
  const std::int64_t micro = config.batch.micro > 0 ? config.batch.micro : config.batch.global;
  train::ModelState state(config.model, compute, true);
  model::initialise(state.table(), config.model, static_cast<std::uint64_t>(config.run.seed), state.master());
  state.round_weights();
  model::Gpt gpt(config.model, state.weights(), compute, train::recompute_plan(config.parallel),
                 {config.model.sequence_length, micro, true});
  gpt.context().profile.enable();
  const std::size_t planned = train::ModelState::bytes(config.model, compute, true) + gpt.activation_bytes();
  core::info(fmt::format("{} parameters, {} on {} threads, {} x {} tokens a step in micro-batches of {}",
                         state.table().count(), core::name_of(compute), threads, config.batch.global,
                         config.model.sequence_length, micro));
  const Speed speed = measure(config, steps, state, gpt);
  print_operators(gpt.context().profile, steps);
  const double tokens = static_cast<double>(config.batch.global * config.model.sequence_length);
  const double rate = tokens / speed.median_seconds;
  const double ceiling = model::measure_product_rate(gpt.context(), compute);
  core::info(fmt::format("ceiling: {:.1f} GFLOP/s on a large {} product; a step reaches {:.1f} % of it (MFU, causal)",
                         ceiling / 1e9, core::name_of(compute),
                         100 * model::flops_per_token(config.model) * rate / ceiling));
  core::info(fmt::format(
      "memory: {:.3f} GiB for weights, gradients, optimizer and activations; peak resident {:.3f} "
      "GiB ({:+.1f} %), {:+.1f} MiB after the first step",
      static_cast<double>(planned) / (1 << 30), static_cast<double>(speed.memory_at_end) / (1 << 30),
      100 * (static_cast<double>(speed.memory_at_end) / static_cast<double>(planned) - 1),
      (static_cast<double>(speed.memory_at_end) - static_cast<double>(speed.memory_after_first)) / (1 << 20)));
  core::info(fmt::format("median {:.1f} ms a step, {:.1f} tokens/s", speed.median_seconds * 1e3, rate));
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Speed on random tokens; no data needed");
  const auto arguments = add_config_arguments(*command);
  auto steps = std::make_shared<std::int64_t>(10);
  command->add_option("--steps", *steps, "Steps measured, after one to warm up")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->callback([command, arguments, steps] {
    if (const auto config = read_config(*command, *arguments)) bench(*config, *steps);
  });
}

}  // namespace trireme::tools
