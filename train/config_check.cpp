#include "train/config_check.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"

namespace trireme::train {

void Problems::raise(const std::string& file) const {
  if (found_.empty()) return;
  auto sorted = found_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> lines;
  for (const auto& [line, text] : sorted)
    lines.push_back(line > 0 ? fmt::format("{}:{}: {}", file, line, text) : fmt::format("{}: {}", file, text));
  if (lines.size() == 1) core::fail(core::ExitCode::usage, "{}", lines[0]);
  core::fail(core::ExitCode::usage, "{} problems in {}\n  {}", lines.size(), file, fmt::join(lines, "\n  "));
}

void Problems::contradict(const std::string& key, std::string text) {
  const auto concerns = [&](const auto& problem) { return problem.second.starts_with(key + ":"); };
  const bool sure = places_.contains(key) && std::none_of(found_.begin(), found_.end(), concerns);
  if (!partial_ || sure) add_at(key, std::move(text));
}

std::string describe_range(core::IntegerRange range) {
  if (range.maximum == std::numeric_limits<std::int64_t>::max()) return fmt::format("an integer >= {}", range.minimum);
  return fmt::format("an integer from {} to {}", range.minimum, range.maximum);
}

std::string describe_range(core::NumberRange range) {
  const std::string low = fmt::format("{} {}", range.open_minimum ? ">" : ">=", range.minimum);
  if (range.maximum == std::numeric_limits<double>::max()) return fmt::format("a finite number {}", low);
  return fmt::format("a finite number {} and {} {}", low, range.open_maximum ? "<" : "<=", range.maximum);
}

namespace {

/// Collects `key: text` with the key's line.
class Check {
 public:
  explicit Check(Problems& problems) : problems_(problems) {}
  template <class... Args>
  void operator()(bool good, const char* key, fmt::format_string<Args...> text, Args&&... args) {
    if (!good) problems_.contradict(key, fmt::format("{}: {}", key, fmt::format(text, std::forward<Args>(args)...)));
  }

 private:
  Problems& problems_;
};

void check_model(const Config& c, Problems& problems) {
  if (!c.model.initial_weights.empty() && c.model.layers == 0) return;
  for (const std::string& text : model::problems(c.model)) problems.contradict(text.substr(0, text.find(':')), text);
}

void check_parallel(const parallel::ParallelConfig& p, Check& check) {
  const auto single = [&](const char* key, std::int64_t value) {
    check(value == 1, key, "{} needs several ranks, which this version does not run; 1 is accepted", value);
  };
  single("parallel.tensor", p.tensor);
  single("parallel.pipeline", p.pipeline);
  single("parallel.context", p.context);
  single("parallel.virtual_stages", p.virtual_stages);
}

void check_batch(const Config& c, Check& check) {
  check(c.batch.global >= 1, "batch.global", "{} must be at least 1 sequence a step", c.batch.global);
  if (c.batch.global < 1 || c.batch.micro == 0) return;
  check(c.batch.global % c.batch.micro == 0, "batch.micro", "batch.global = {} is not a multiple of batch.micro = {}",
        c.batch.global, c.batch.micro);
}

void check_schedule(const Config& c, Check& check) {
  const std::int64_t steps = total_steps(c);
  const std::int64_t warmup = c.schedule.warmup_steps;
  check(c.run.steps > 0 || c.run.tokens > 0, "run.steps", "give run.steps or run.tokens");
  check(c.run.steps == 0 || c.run.tokens == 0, "run.tokens", "give run.steps or run.tokens, not both");
  check(c.schedule.min_lr <= c.optimizer.lr, "schedule.min_lr", "{} is above optimizer.lr = {}", c.schedule.min_lr,
        c.optimizer.lr);
  if (c.schedule.kind == "constant" || steps == 0) return;
  check(warmup < steps, "schedule.warmup_steps", "{} is not below the run's {} steps", warmup, steps);
  const std::int64_t decay = c.schedule.decay_steps ? c.schedule.decay_steps : steps / 5;
  check(c.schedule.kind != "wsd" || warmup + decay <= steps, "schedule.decay_steps",
        "warm-up {} and decay {} do not fit in {} steps", warmup, decay, steps);
}

void check_rest(const Config& c, Check& check) {
  check(c.device.kind != "cuda", "device.kind", "this version is built without CUDA; cpu and auto are accepted");
  check(!c.optimizer.offload, "optimizer.offload", "nothing to offload from without CUDA");
  const bool minutes_wanted = c.checkpoint.every_minutes != "auto";
  double minutes = 0;
  const char* end = c.checkpoint.every_minutes.data() + c.checkpoint.every_minutes.size();
  const auto parsed = std::from_chars(c.checkpoint.every_minutes.data(), end, minutes);
  check(!minutes_wanted || (parsed.ec == std::errc() && parsed.ptr == end && minutes >= 0 && minutes < 1e9),
        "checkpoint.every_minutes", "\"{}\" is neither \"auto\" nor a number of minutes", c.checkpoint.every_minutes);
  check(c.checkpoint.every_steps == 0 || !minutes_wanted, "checkpoint.every_minutes",
        "give checkpoint.every_steps or checkpoint.every_minutes, not both");
  const bool valid = !c.data.valid.empty() || c.data.valid_fraction > 0;
  check(valid || c.eval.every_steps == 0, "eval.every_steps", "needs validation data (data.valid)");
  check(c.eval.sample_prompts.empty() || !c.data.tokenizer.empty(), "eval.sample_prompts", "needs data.tokenizer");
}

}  // namespace

void check_config(const Config& config, Problems& problems) {
  problems.end_reading();
  Check check(problems);
  check_model(config, problems);
  check_parallel(config.parallel, check);
  check_batch(config, check);
  check_schedule(config, check);
  check_rest(config, check);
}

}  // namespace trireme::train
