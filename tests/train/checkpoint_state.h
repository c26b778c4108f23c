#pragma once

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "model/parameter.h"
#include "tests/train/huggingface_files.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/names.h"
#include "train/checkpoint/store.h"
#include "train/model_json.h"

namespace trireme::train {

namespace fs = std::filesystem;

/// Two layers, small; learned positions and a tied head.
inline model::ModelConfig small_model() {
  model::ModelConfig config;
  config.layers = 2;
  config.hidden = 8;
  config.heads = 2;
  config.vocab_size = 11;
  config.sequence_length = 5;
  model::resolve(config);
  return config;
}

/// Random masters and moments of `small_model()`; everything that is to be saved.
class State {
 public:
  explicit State(std::uint32_t seed, core::DType master = core::DType::f32, core::DType moment = core::DType::f32)
      : config_(small_model()), table_(config_) {
    std::mt19937 random(seed);
    for (const auto& parameter : table_.parameters()) {
      if (!parameter.tied_to.empty()) {
        ties_.push_back({parameter.name, parameter.tied_to});
        continue;
      }
      add(parameter, "master", master, random);
      add(parameter, "adam_m", moment, random);
      add(parameter, "adam_v", moment, random);
    }
    meta_.run_id = "run-of-the-test";
    meta_.run_name = "small";
    meta_.model = model_to_json(config_);
    meta_.seed = 18446744073709551615u;
    meta_.optimizer = {{"lr", 6e-4}, {"beta2", 0.95}};
    meta_.config_toml = "[run]\nname = \"small\"\n";
  }

  std::vector<StateChunk>& chunks() { return chunks_; }
  const std::vector<TiedAlias>& ties() const { return ties_; }
  CheckpointMeta meta(std::int64_t step) const {
    CheckpointMeta meta = meta_;
    meta.step = step;
    meta.updates = step;
    meta.samples = 4 * step;
    meta.tokens = 20 * step;
    return meta;
  }
  void clear() {
    for (auto& memory : memory_) std::fill(memory.begin(), memory.end(), std::byte{0x5a});
  }
  bool operator==(const State& other) const { return memory_ == other.memory_; }
  /// Values of a state as bytes.
  std::vector<std::byte>& bytes(std::size_t chunk) { return memory_[chunk]; }

 private:
  void add(const model::Parameter& parameter, const char* state, core::DType dtype, std::mt19937& random) {
    const auto elements = static_cast<std::size_t>(parameter.shape.elements());
    memory_.emplace_back(elements * core::size_of(dtype));
    std::normal_distribution<double> normal;
    std::uint16_t bits = 0;
    for (std::size_t i = 0; i < elements; ++i) {
      const double value = normal(random);
      std::byte* at = memory_.back().data() + i * core::size_of(dtype);
      const auto narrow = static_cast<float>(value);
      if (dtype == core::DType::f64)
        std::memcpy(at, &value, sizeof value);
      else if (dtype == core::DType::f32)
        std::memcpy(at, &narrow, sizeof narrow);
      else
        std::memcpy(at, &(bits = core::bf16(narrow).bits), sizeof bits);
    }
    StateChunk chunk{.tensor = parameter.name, .state = state, .dtype = dtype, .shape = parameter.shape};
    for (int axis = 0; axis < parameter.shape.rank(); ++axis) {
      chunk.offset.push_back(0);
      chunk.extent.push_back(parameter.shape[axis]);
    }
    chunk.data = memory_.back().data();
    chunks_.push_back(chunk);
  }

  model::ModelConfig config_;
  model::ParameterTable table_;
  CheckpointMeta meta_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<StateChunk> chunks_;
  std::vector<TiedAlias> ties_;
};

inline const std::vector<SideFile>& side_files() {
  static const std::vector<SideFile> files{{"tokenizer.json", "{\"a\": 1}\n"},
                                           {"bytes.bin", std::string("\0\xff\n\r\x80", 5)}};
  return files;
}

inline fs::path save(CheckpointStore& store, State& state, std::int64_t step) {
  return store.save(state.meta(step), state.chunks(), state.ties(), side_files(), false).directory;
}

/// A manifest's text from changed JSON, with a right checksum.
inline std::string signed_text(nlohmann::json root) {
  root.erase("crc32c");
  std::string text = root.dump();
  text.back() = ',';
  text += "\n";
  return text + fmt::format("\"crc32c\": \"{:08x}\"}}\n", crc32c(std::as_bytes(std::span(text))));
}

/// What a checkpoint is refused with; "accepted" if it is not.
template <class Call>
std::string refused(Call call) {
  return refusal(call, core::ExitCode::no_checkpoint);
}

}  // namespace trireme::train
