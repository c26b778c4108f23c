#include "core/log.h"
#include "tools/command.h"
#include "train/evaluation.h"
#include "train/setup.h"

namespace trireme::tools {

namespace {

struct EvalOptions {
  std::string checkpoint, data, format = "auto", compute = "auto";
  std::int64_t micro = 4, samples = 0, threads = 0;
  double part = 0;
};

void evaluate(const EvalOptions& options) {
  train::choose_threads(options.threads);
  const core::DType compute = train::choose_precision(options.compute);
  const train::LoadedModel loaded = train::load_model(options.checkpoint, compute);
  const model::ModelConfig& config = *loaded.config;
  const auto corpus = std::make_shared<data::Corpus>(data::CorpusOptions{
      .path = options.data, .format = options.format, .key = "--data", .vocab_size = config.vocab_size});
  data::Part part{corpus, 0, corpus->tokens()};
  if (options.part > 0) {
    part.tokens = data::validation_tokens(corpus->tokens(), options.part);
    part.begin = corpus->tokens() - part.tokens;
  }
  core::require(part.tokens >= 2, core::ExitCode::bad_data, "{}: {} tokens, evaluation needs at least 2", options.data,
                part.tokens);
  model::Gpt gpt(config, loaded.state->weights(), compute, {}, {config.sequence_length, options.micro, false});
  data::ValidLoader loader(part, config.sequence_length, options.micro, options.samples, false);
  const train::EvaluationResult result = train::evaluate(loader, gpt, [] { return false; }).result();
  core::info(fmt::format("{} | loss {:.6f} | perplexity {:.4f} | {} targets", loaded.source, result.loss,
                         result.perplexity(), result.targets));
}

}  // namespace

void add_eval(CLI::App& app) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* command = app.add_subcommand("eval", "Loss and perplexity over a whole corpus");
  command->option_defaults()->always_capture_default();
  command->add_option("CHECKPOINT", options->checkpoint, "Checkpoint, run directory or Hugging Face directory")
      ->required();
  command->add_option("--data", options->data, "Corpus: PREFIX, file, glob or folder")->required();
  command->add_option("--format", options->format, "auto, indexed, llmc or raw-u16");
  command
      ->add_option("--part", options->part, "Only the last part of the corpus, as data.valid = PART holds out; 0: all")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--samples", options->samples, "Samples at most; 0: all")->check(CLI::NonNegativeNumber);
  command->add_option("--micro", options->micro, "Sequences a micro-batch; the loss does not depend on it")
      ->check(CLI::PositiveNumber);
  command->add_option("--compute", options->compute, "auto, bf16, fp32 or fp64")
      ->check(CLI::IsMember({"auto", "bf16", "fp32", "fp64"}));
  command->add_option("--threads", options->threads, "Threads; 0: one a core")->check(CLI::NonNegativeNumber);
  command->callback([options] { evaluate(*options); });
}

}  // namespace trireme::tools
