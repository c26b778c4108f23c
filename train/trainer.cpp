#include "train/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/clock.h"
#include "core/file.h"
#include "core/log.h"
#include "model/generator.h"
#include "model/ops/product.h"
#include "train/checkpoint/candidates.h"
#include "train/checkpoint/names.h"
#include "train/checkpoint/store.h"
#include "train/evaluation.h"
#include "train/lr_schedule.h"
#include "train/metrics.h"
#include "train/run_state.h"
#include "train/setup.h"
#include "train/step.h"
#include "train/tensorboard.h"

namespace trireme::train {

namespace fs = std::filesystem;
using core::ExitCode;

namespace {

constexpr std::int64_t kSampleTokens = 100;
constexpr double kGiB = 1024.0 * 1024 * 1024;

Config resolved(Config config) {
  if (config.batch.micro == 0) config.batch.micro = config.batch.global;
  if (config.run.name.empty()) config.run.name = fs::path(config.run.directory).filename().string();
  if (config.log.every_steps == 0) config.log.every_steps = ::isatty(STDOUT_FILENO) ? 1 : 10;
  if (!config.model.initial_weights.empty() && config.model.layers == 0) {
    const model::ModelConfig given = config.model;
    config.model = initial_shape(given.initial_weights);
    config.model.initial_weights = given.initial_weights;
    config.model.dropout = given.dropout;
    if (given.sequence_length > 0) config.model.sequence_length = given.sequence_length;
  }
  return config;
}

}  // namespace

/// A run's parts, in the order in which they are made.
struct Trainer::Run {
  Run(const Config& given, const StopSignals& stop_signals);

  void make_directory() const;
  void restore();
  void describe();
  ExitCode train();
  void one_step();
  void record(const StepOutcome& outcome, double lr);
  void skip(const StepOutcome& outcome);
  void evaluate();
  void write_samples();
  bool save_due() const;
  void save();
  bool stop_asked();
  ExitCode stop();

  Config config;
  const StopSignals& signals;
  core::DType compute;
  std::int64_t steps;
  int threads;
  fs::path directory;
  std::unique_ptr<CheckpointStore> store;
  data::Dataset dataset;
  std::vector<SideFile> side_files;
  std::optional<data::Tokenizer> tokenizer;
  ModelState state;
  model::Gpt gpt;
  std::unique_ptr<MetricsFile> metrics;
  std::unique_ptr<TensorBoardFile> board;
  std::unique_ptr<data::TrainLoader> loader;
  Counters counters;
  double peak_flops = 0;
  double started = core::now(), last_save = core::now(), last_log = core::now();
  double eval_seconds = 0;
  std::int64_t logged_step = 0, saved_step = -1, skipped = 0, skipped_in_row = 0, failed_saves = 0;
  std::int64_t first_step = 0;
  bool stop_said = false;
  std::string stop_reason;
};

Trainer::Run::Run(const Config& given, const StopSignals& stop_signals)
    : config(resolved(given)),
      signals(stop_signals),
      compute(choose_precision(config.precision.compute)),
      steps(total_steps(config)),
      threads(choose_threads(config.device.threads)),
      directory(config.run.directory),
      dataset(config.data, {.sequence = config.model.sequence_length,
                            .vocab_size = config.model.vocab_size,
                            .seed = static_cast<std::uint64_t>(config.run.seed),
                            .between =
                                [&stop_signals] {
                                  if (stop_signals.requested())
                                    core::fail(ExitCode::stopped, "stopped by {} while reading data",
                                               stop_signals.name());
                                }}),
      side_files(collect_side_files(config)),
      state(config.model, compute, true),
      gpt(config.model, state.weights(), compute, recompute_plan(config.parallel),
          {config.model.sequence_length, config.batch.micro, true}) {
  if (!config.data.tokenizer.empty()) {
    tokenizer = data::Tokenizer::load(config.data.tokenizer);
    core::require(tokenizer->vocab_size() <= config.model.vocab_size, ExitCode::bad_data,
                  "{}: {} ids, model.vocab_size is {}", config.data.tokenizer, tokenizer->vocab_size(),
                  config.model.vocab_size);
  }
  make_directory();
  restore();
  core::log_to_file((directory / "log.txt").string());
  core::write_whole(directory / "config.toml", print_config(config), true);
  metrics = std::make_unique<MetricsFile>(directory / "metrics.jsonl");
  if (config.log.tensorboard) board = std::make_unique<TensorBoardFile>(directory / "tensorboard");
  loader = std::make_unique<data::TrainLoader>(dataset, config.batch.micro, counters.samples);
  describe();
}

void Trainer::Run::make_directory() const {
  std::error_code error;
  fs::create_directories(directory, error);
  core::require(fs::is_directory(directory) && ::access(directory.c_str(), W_OK) == 0, ExitCode::run_directory,
                "run.directory: {} cannot be written", directory.string());
}

void Trainer::Run::restore() {
  const fs::path root =
      config.checkpoint.directory.empty() ? directory / "checkpoints" : fs::path(config.checkpoint.directory);
  counters.run_id = make_nonce() + make_nonce();
  store = std::make_unique<CheckpointStore>(root, counters.run_id);
  const ResumeChoice choice = choose_resume(config.run.resume, root, directory);
  const std::optional<CheckpointReader>& found = choice.checkpoint;
  for (const std::string& line : choice.rejected) core::warning(line);
  if (found) {
    const CheckpointMeta& meta = found->manifest().meta;
    for (const std::string& line : check_resume(config, compute, dataset, found->manifest())) core::info(line);
    auto chunks = state.chunks(true);
    found->read(chunks);
    counters = counters_of(meta);
    saved_step = meta.step;
    store->mark_verified(meta.step);
    core::info(fmt::format("resuming from step {}: {}", meta.step, found->directory().string()));
  } else if (!config.model.initial_weights.empty()) {
    read_initial_weights(config.model.initial_weights, config.model, state);
    core::info(fmt::format("initial weights from {}", config.model.initial_weights));
  } else {
    model::initialise(state.table(), config.model, static_cast<std::uint64_t>(config.run.seed), state.master());
  }
  for (const std::string& line : store->set_aside_after(found ? counters.step : -1)) core::warning(line);
  state.round_weights();
}

void Trainer::Run::describe() {
  const double memory = static_cast<double>(ModelState::bytes(config.model, compute, true));
  core::info(fmt::format("model: {} layers, hidden {}, heads {}/{}, vocabulary {}, sequence {}: {} parameters",
                         config.model.layers, config.model.hidden, config.model.heads, config.model.kv_heads,
                         config.model.vocab_size, config.model.sequence_length, state.table().count()));
  const std::int64_t run_samples = steps * config.batch.global;
  for (const std::string& line : dataset.describe(run_samples)) core::info(line);
  for (const std::string& line : dataset.warnings(run_samples)) core::warning(line);
  core::info(fmt::format("compute {} on {} threads; memory {:.3f} GiB weights and optimizer, {:.3f} GiB activations",
                         core::name_of(compute), threads, memory / kGiB,
                         static_cast<double>(gpt.activation_bytes()) / kGiB));
  peak_flops = model::measure_product_rate(gpt.context(), compute);
  core::info(
      fmt::format("MFU against {:.1f} GFLOP/s, measured on a large {} product; {:.4g} FLOPs a token "
                  "(forward and backward, causal attention; {:.4g} with full attention)",
                  peak_flops / 1e9, core::name_of(compute), model::flops_per_token(config.model),
                  model::flops_per_token(config.model, true)));
}

bool Trainer::Run::stop_asked() {
  if (signals.requested() && stop_reason.empty()) stop_reason = signals.name();
  const double elapsed_minutes = (core::now() - started) / 60;
  if (config.run.max_minutes > 0 && elapsed_minutes >= config.run.max_minutes && stop_reason.empty())
    stop_reason = "run.max_minutes";
  std::error_code error;
  if (stop_reason.empty() && fs::remove(directory / "STOP", error)) stop_reason = "the file STOP";
  if (!stop_reason.empty() && !stop_said) {
    core::info(fmt::format("stopping: {}; finishing step {}, then saving", stop_reason, counters.step + 1));
    stop_said = true;
  }
  return !stop_reason.empty();
}

ExitCode Trainer::Run::train() {
  metrics->run(counters.step > 0 ? "resume" : "start", counters.step, "");
  first_step = logged_step = counters.step;
  started = last_save = last_log = core::now();
  while (counters.step < steps) {
    if (stop_asked()) return stop();
    one_step();
    const bool last = counters.step == steps;
    if (last || (config.eval.every_steps > 0 && counters.step % config.eval.every_steps == 0)) evaluate();
    if (save_due() && !last) save();
  }
  if (saved_step != counters.step) save();
  core::require(saved_step == counters.step, ExitCode::storage, "the last checkpoint of the run could not be saved");
  metrics->run("stop", counters.step, "done");
  core::info(fmt::format("done: {} steps, {} tokens", counters.step, counters.tokens));
  return ExitCode::ok;
}

ExitCode Trainer::Run::stop() {
  if (saved_step != counters.step) save();
  core::require(saved_step == counters.step, ExitCode::storage, "the last checkpoint of the run could not be saved");
  metrics->run("stop", counters.step, stop_reason);
  core::info(
      fmt::format("stopped by {} after step {}; the same command goes on from there", stop_reason, counters.step));
  return ExitCode::stopped;
}

void Trainer::Run::one_step() {
  const double lr = learning_rate(config.schedule, config.optimizer.lr, steps, counters.step);
  const StepPlan plan{.micro_batches = config.batch.global / config.batch.micro,
                      .lr = lr,
                      .beta1 = config.optimizer.beta1,
                      .beta2 = config.optimizer.beta2,
                      .eps = config.optimizer.eps,
                      .weight_decay = config.optimizer.weight_decay,
                      .clip = config.optimizer.clip,
                      .update = counters.updates + 1,
                      .dropout = {.rate = config.model.dropout, .seed = static_cast<std::uint64_t>(config.run.seed)}};
  StepOutcome outcome = accumulate_gradients(plan, *loader, gpt, [this] {
    if (config.log.samples) write_samples();
    stop_asked();
  });
  update_weights(plan, state, outcome);
  ++counters.step;
  counters.samples += config.batch.global;
  counters.tokens += config.batch.global * config.model.sequence_length;
  if (outcome.applied) {
    ++counters.updates;
    skipped_in_row = 0;
  } else {
    skip(outcome);
  }
  if (counters.step % config.log.every_steps == 0 || counters.step == steps) record(outcome, lr);
}

void Trainer::Run::skip(const StepOutcome& outcome) {
  ++skipped;
  ++skipped_in_row;
  core::warning(fmt::format("step {}: loss {} and gradient norm {} are not finite; update skipped (samples from {})",
                            counters.step, outcome.loss, outcome.grad_norm, counters.samples - config.batch.global));
  core::require(skipped_in_row < std::max<std::int64_t>(config.fault.skip_nonfinite, 1), ExitCode::bad_data,
                "step {}: {} non-finite steps in a row (fault.skip_nonfinite); nothing non-finite was saved",
                counters.step, skipped_in_row);
}

void Trainer::Run::write_samples() {
  nlohmann::ordered_json ids = nlohmann::ordered_json::array();
  for (const data::SampleId& id : loader->ids()) ids.push_back({id.corpus, id.epoch, id.sample});
  metrics->write({{"kind", "samples"}, {"step", counters.step + 1}, {"ids", ids}});
}

void Trainer::Run::record(const StepOutcome& outcome, double lr) {
  const double now = core::now();
  const auto done = static_cast<double>(counters.step - logged_step);
  const double seconds = (now - last_log - eval_seconds) / done;
  const double tokens = static_cast<double>(config.batch.global * config.model.sequence_length);
  const StepRecord step{.step = counters.step,
                        .steps = steps,
                        .loss = outcome.loss,
                        .grad_norm = outcome.grad_norm,
                        .lr = lr,
                        .tokens = counters.tokens,
                        .samples = counters.samples,
                        .step_seconds = seconds,
                        .tokens_per_second = tokens / seconds,
                        .mfu = model::flops_per_token(config.model) * tokens / seconds / peak_flops,
                        .memory_bytes_peak = peak_resident_bytes(),
                        .data_wait_seconds = loader->take_wait_seconds() / done,
                        .skipped = skipped,
                        .eta_seconds = static_cast<double>(steps - counters.step) * seconds};
  metrics->step(step);
  core::info(console_line(step));
  if (board) {
    board->scalar("train/loss", step.step, step.loss);
    board->scalar("train/grad_norm", step.step, step.grad_norm);
    board->scalar("train/lr", step.step, step.lr);
    board->scalar("speed/tokens_per_second", step.step, step.tokens_per_second);
    board->scalar("speed/mfu", step.step, step.mfu);
  }
  last_log = now;
  logged_step = counters.step;
  eval_seconds = 0;
}

void Trainer::Run::evaluate() {
  if (dataset.validation().empty()) return;
  const double begin = core::now();
  LossSum all;
  for (const data::Part& part : dataset.validation()) {
    data::ValidLoader valid(part, config.model.sequence_length, config.batch.micro, config.eval.samples,
                            dataset.document_mask());
    const LossSum sum = train::evaluate(valid, gpt, [this] { return stop_asked(); });
    if (!stop_reason.empty() && counters.step < steps) return;
    if (dataset.validation().size() > 1)
      core::info(fmt::format("eval {} | {} | loss {:.4f}", counters.step, part.corpus->path(), sum.result().loss));
    all.merge(sum);
  }
  const EvaluationResult result = all.result();
  core::info(fmt::format("eval {} | loss {:.4f} | perplexity {:.2f} | {} targets", counters.step, result.loss,
                         result.perplexity(), result.targets));
  metrics->eval(counters.step, result.loss, result.perplexity(), result.targets);
  if (board) board->scalar("eval/loss", counters.step, result.loss);
  for (const std::string& prompt : config.eval.sample_prompts) {
    model::Generator generator(gpt, tokenizer->vocab_size());
    std::vector<std::int32_t> ids = tokenizer->encode(prompt);
    if (ids.empty()) continue;
    generator.start(ids, {.temperature = 0.8, .top_k = 50, .seed = static_cast<std::uint64_t>(config.run.seed)});
    for (std::int64_t i = 0; i < kSampleTokens; ++i) ids.push_back(generator.next());
    const std::string text = tokenizer->decode(ids);
    core::info(fmt::format("sample {} | {}", counters.step, text));
    if (board) board->text("sample", counters.step, text);
  }
  eval_seconds += core::now() - begin;
}

bool Trainer::Run::save_due() const {
  if (saved_step == counters.step || skipped_in_row > 0) return false;
  if (config.checkpoint.every_steps > 0) return counters.step % config.checkpoint.every_steps == 0;
  const double interval = config.checkpoint.interval_seconds();
  return interval > 0 && core::now() - last_save >= interval;
}

void Trainer::Run::save() {
  const double begin = core::now();
  try {
    const SaveResult saved = store->save(checkpoint_meta(config, counters, dataset), state.chunks(true), state.ties(),
                                         side_files, config.checkpoint.sha256);
    saved_step = counters.step;
    failed_saves = 0;
    metrics->checkpoint(counters.step, saved.bytes, saved.seconds, true);
    core::info(fmt::format("saved {} | {:.1f} MB in {:.2f} s", saved.directory.string(),
                           static_cast<double>(saved.bytes) / 1e6, saved.seconds));
    store->retain(config.checkpoint.keep, config.checkpoint.keep_every);
  } catch (const core::Error& error) {
    if (error.code() != ExitCode::storage) throw;
    ++failed_saves;
    metrics->checkpoint(counters.step, 0, core::now() - begin, false);
    core::warning(fmt::format("step {} was not saved: {}", counters.step, error.what()));
    core::require(failed_saves < config.checkpoint.max_failed_saves, ExitCode::storage,
                  "{} saves failed in a row (checkpoint.max_failed_saves): {}", failed_saves, error.what());
  }
  last_save = core::now();
  eval_seconds += core::now() - begin;
}

Trainer::Trainer(const Config& config, const StopSignals& signals) : run_(std::make_unique<Run>(config, signals)) {}
Trainer::~Trainer() { core::log_to_file(""); }
ExitCode Trainer::run() { return run_->train(); }

}  // namespace trireme::train
