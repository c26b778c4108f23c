#include <cstdio>

#include "model/generator.h"
#include "tools/command.h"
#include "train/setup.h"

namespace trireme::tools {

namespace {

struct GenerateOptions {
  std::string checkpoint, prompt, tokenizer, compute = "auto";
  std::int64_t tokens = 200, threads = 0;
  model::Sampling sampling;
};

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void generate(GenerateOptions& options) {
  train::choose_threads(options.threads);
  const core::DType compute = train::choose_precision(options.compute);
  train::LoadedModel loaded = train::load_model(options.checkpoint, compute);
  if (!options.tokenizer.empty()) loaded.tokenizer = data::Tokenizer::load(options.tokenizer);
  core::require(loaded.tokenizer.has_value(), core::ExitCode::bad_data,
                "{}: no tokenizer came with the weights; give --tokenizer", loaded.source);
  const data::Tokenizer& tokenizer = *loaded.tokenizer;
  core::require(tokenizer.vocab_size() <= loaded.config->vocab_size, core::ExitCode::bad_data,
                "the tokenizer has {} ids, the model {}", tokenizer.vocab_size(), loaded.config->vocab_size);
  std::vector<std::int32_t> prompt = tokenizer.encode(options.prompt);
  if (prompt.empty() && tokenizer.end_of_document()) prompt.push_back(*tokenizer.end_of_document());
  core::require(!prompt.empty(), core::ExitCode::usage, "--prompt: empty, and the tokenizer has no end of document");
  model::Gpt gpt(*loaded.config, loaded.state->weights(), compute, {}, {loaded.config->sequence_length, 1, false});
  model::Generator generator(gpt, tokenizer.vocab_size());
  generator.start(prompt, options.sampling);
  data::StreamDecoder decoder(tokenizer);
  print(options.prompt);
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const std::int32_t id = generator.next();
    if (id == tokenizer.end_of_document()) break;
    print(decoder.push(id));
  }
  print(decoder.finish() + "\n");
}

}  // namespace

void add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand("generate", "Continues a text");
  command->option_defaults()->always_capture_default();
  command->add_option("CHECKPOINT", options->checkpoint, "Checkpoint, run directory or Hugging Face directory")
      ->required();
  command->add_option("--prompt", options->prompt, "Text to continue")->required();
  command->add_option("--tokens", options->tokens, "Tokens to write at most")->check(CLI::NonNegativeNumber);
  command->add_option("--temperature", options->sampling.temperature, "0: always the most likely token")
      ->check(CLI::Range(0.0, 1e3));
  command->add_option("--top-k", options->sampling.top_k, "Only the K most likely tokens; 0: all")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--top-p", options->sampling.top_p, "Smallest set of tokens of this probability")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--seed", options->sampling.seed, "Seed of the draws");
  command->add_option("--tokenizer", options->tokenizer, "tokenizer.json, where none came with the weights");
  command->add_option("--compute", options->compute, "auto, bf16, fp32 or fp64")
      ->check(CLI::IsMember({"auto", "bf16", "fp32", "fp64"}));
  command->add_option("--threads", options->threads, "Threads; 0: one a core")->check(CLI::NonNegativeNumber);
  command->callback([options] { generate(*options); });
}

}  // namespace trireme::tools
