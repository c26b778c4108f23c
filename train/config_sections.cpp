#include <array>
#include <charconv>

#include "core/error.h"
#include "train/config.h"

namespace trireme::train {

namespace {
constexpr core::IntegerRange kCount{0, std::int64_t{1} << 60};
constexpr core::NumberRange kMinutes{0, 1e9};
constexpr std::array<std::string_view, 3> kDevices{"auto", "cpu", "cuda"};
constexpr std::array<std::string_view, 4> kCompute{"auto", "bf16", "fp32", "fp64"};
constexpr std::array<std::string_view, 1> kGradients{"fp32"};
constexpr std::array<std::string_view, 1> kOptimizers{"adamw"};
constexpr std::array<std::string_view, 4> kSchedules{"constant", "cosine", "linear", "wsd"};
constexpr std::array<std::string_view, 3> kShapes{"sqrt", "linear", "cosine"};
}  // namespace

void RunConfig::fields(core::FieldVisitor& visit) {
  visit.text("name", name, "name of the run in logs; empty: the directory's");
  visit.text("directory", directory, "where everything the run writes goes");
  visit.integer("seed", seed, {0, std::numeric_limits<std::int64_t>::max()}, "seed of weights, order and dropout");
  visit.integer("steps", steps, kCount, "optimizer steps of the run; or give tokens");
  visit.integer("tokens", tokens, kCount, "tokens of the run; or give steps");
  visit.text("resume", resume, "auto, must, never, or a checkpoint");
  visit.number("max_minutes", max_minutes, kMinutes, "save and stop in time for this; 0: no limit");
  visit.flag("deterministic", deterministic, "the same bits run after run (always so on CPU)");
}

void DeviceConfig::fields(core::FieldVisitor& visit) {
  visit.choice("kind", kind, kDevices, "what computes");
  visit.integer("threads", threads, {0, 4096}, "threads; 0: one a core");
}

void PrecisionConfig::fields(core::FieldVisitor& visit) {
  visit.choice("compute", compute, kCompute, "type of activations and products; auto: bf16 where it is native");
  visit.choice("gradients", gradients, kGradients, "type of main gradients");
}

void BatchConfig::fields(core::FieldVisitor& visit) {
  visit.integer("global", global, {0, 1 << 30}, "sequences a step");
  visit.integer("micro", micro, {0, 1 << 24}, "sequences a micro-batch; 0: the whole batch at once");
}

void OptimizerConfig::fields(core::FieldVisitor& visit) {
  visit.choice("name", name, kOptimizers, "optimizer");
  visit.number("lr", lr, {0, 1e6, true}, "peak learning rate");
  visit.number("beta1", beta1, {0, 1, false, true}, "decay of the first moment");
  visit.number("beta2", beta2, {0, 1, false, true}, "decay of the second moment");
  visit.number("eps", eps, {0, 1, true}, "added to the root of the second moment");
  visit.number("weight_decay", weight_decay, {0, 1e3}, "decay of tensors of two or more dimensions");
  visit.number("clip", clip, {0, 1e9}, "largest gradient norm; 0: no clipping");
  visit.flag("offload", offload, "keep the optimizer's state in host memory (CUDA)");
}

void ScheduleConfig::fields(core::FieldVisitor& visit) {
  visit.choice("kind", kind, kSchedules, "learning rate after the warm-up");
  visit.integer("warmup_steps", warmup_steps, kCount, "steps of linear warm-up");
  visit.integer("decay_steps", decay_steps, kCount, "length of the decay; 0: to the end (wsd: a fifth of the run)");
  visit.choice("decay_shape", decay_shape, kShapes, "shape of the wsd decay");
  visit.number("min_lr", min_lr, {0, 1e6}, "rate at the end of the decay");
}

void CheckpointConfig::fields(core::FieldVisitor& visit) {
  visit.integer("every_steps", every_steps, kCount, "steps between saves; 0: by minutes");
  visit.text("every_minutes", every_minutes, "minutes between saves, or auto; 0: only at the end");
  visit.integer("keep", keep, {2, 1 << 20}, "newest checkpoints kept");
  visit.integer("keep_every", keep_every, kCount, "keep each whose step is a multiple of this; 0: none");
  visit.flag("async", async, "write in the background");
  visit.text("directory", directory, "where checkpoints go; empty: DIR/checkpoints");
  visit.flag("sha256", sha256, "add SHA-256 sums of the files");
  visit.number("deadline_seconds", deadline_seconds, {0, 1e9}, "a save that takes longer is given up; 0: automatic");
  visit.integer("max_failed_saves", max_failed_saves, {1, 1 << 20}, "failed saves in a row that end the run");
  visit.number("max_minutes", max_minutes, kMinutes, "longest automatic interval");
}

double CheckpointConfig::interval_seconds() const {
  if (every_minutes == "auto") return 600;
  double minutes = 0;
  std::from_chars(every_minutes.data(), every_minutes.data() + every_minutes.size(), minutes);
  return minutes * 60;
}

void EvalConfig::fields(core::FieldVisitor& visit) {
  visit.integer("every_steps", every_steps, kCount, "steps between evaluations; 0: at the end only");
  visit.integer("samples", samples, kCount, "validation samples used; 0: all");
  visit.texts("sample_prompts", sample_prompts, "texts the model continues after each evaluation");
}

void LogConfig::fields(core::FieldVisitor& visit) {
  visit.integer("every_steps", every_steps, kCount, "steps between lines; 0: 1 on a terminal, else 10");
  visit.flag("tensorboard", tensorboard, "write TensorBoard event files");
  visit.integers("trace_steps", trace_steps, kCount, "steps to trace");
  visit.flag("samples", samples, "log the ids of the samples of each step");
  visit.flag("communication", communication, "print the bytes sent by axis");
}

void FaultConfig::fields(core::FieldVisitor& visit) {
  visit.integer("skip_nonfinite", skip_nonfinite, kCount, "non-finite steps in a row that end the run; 0: the first");
}

std::int64_t total_steps(const Config& config) {
  if (config.run.steps > 0) return config.run.steps;
  const std::int64_t step_tokens = config.batch.global * config.model.sequence_length;
  return step_tokens > 0 ? (config.run.tokens + step_tokens - 1) / step_tokens : 0;
}

}  // namespace trireme::train
