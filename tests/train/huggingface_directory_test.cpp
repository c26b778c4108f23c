#include <gmock/gmock.h>

#include <bit>
#include <cstring>
#include <map>
#include <random>

#include "core/memory.h"
#include "tests/train/huggingface_files.h"
#include "tests/train/micro_model.h"
#include "train/huggingface/directory.h"
#include "train/huggingface/model_files.h"

namespace trireme::train {

namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

struct Entry {
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::string bytes;
  bool operator==(const Entry&) const = default;
};
using Entries = std::map<std::string, Entry>;

std::string random_bytes(const std::string& dtype, std::size_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::string out;
  for (std::size_t i = 0; i < elements; ++i) {
    const float value = static_cast<float>(static_cast<int>(random() % 20001) - 10000) / 8192;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (dtype == "F32") out.append(reinterpret_cast<const char*>(&bits), 4);
    if (dtype == "BF16") out.append(reinterpret_cast<const char*>(&bits) + 2, 2);
    // Halves between 2^-1 and 1, any sign and fraction.
    const auto half = static_cast<std::uint16_t>((random() & 0x83ff) | 0x3800);
    if (dtype == "F16") out.append(reinterpret_cast<const char*>(&half), 2);
  }
  return out;
}

Entry entry(const std::string& dtype, std::vector<std::uint64_t> shape) {
  static unsigned seed = 0;
  std::size_t elements = 1;
  for (const std::uint64_t extent : shape) elements *= extent;
  return {dtype, std::move(shape), random_bytes(dtype, elements, ++seed)};
}

json gpt2_config() {
  return {{"model_type", "gpt2"}, {"n_layer", 2},     {"n_embd", 8},  {"n_head", 2},
          {"vocab_size", 11},     {"n_positions", 5}, {"n_inner", 12}};
}

Entries gpt2_entries(const std::string& dtype, const std::string& prefix = "transformer.") {
  Entries out;
  out[prefix + "wte.weight"] = entry(dtype, {11, 8});
  out[prefix + "wpe.weight"] = entry(dtype, {5, 8});
  for (const char* block : {"h.0.", "h.1."})
    for (const auto& [name, shape] :
         std::vector<std::pair<std::string, std::vector<std::uint64_t>>>{{"ln_1.weight", {8}},
                                                                         {"ln_1.bias", {8}},
                                                                         {"ln_2.weight", {8}},
                                                                         {"ln_2.bias", {8}},
                                                                         {"attn.c_attn.weight", {8, 24}},
                                                                         {"attn.c_attn.bias", {24}},
                                                                         {"attn.c_proj.weight", {8, 8}},
                                                                         {"attn.c_proj.bias", {8}},
                                                                         {"mlp.c_fc.weight", {8, 12}},
                                                                         {"mlp.c_fc.bias", {12}},
                                                                         {"mlp.c_proj.weight", {12, 8}},
                                                                         {"mlp.c_proj.bias", {8}}})
      out[prefix + block + name] = entry(dtype, shape);
  out[prefix + "ln_f.weight"] = entry(dtype, {8});
  out[prefix + "ln_f.bias"] = entry(dtype, {8});
  return out;
}

/// Heads x size (4 x 6) is not the hidden size (8), two key/value heads.
json llama_config(bool qwen3) {
  return {{"model_type", qwen3 ? "qwen3" : "llama"},
          {"num_hidden_layers", 2},
          {"hidden_size", 8},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 6},
          {"intermediate_size", 10},
          {"vocab_size", 11},
          {"max_position_embeddings", 5},
          {"rms_norm_eps", 1e-5}};
}

Entries llama_entries(const std::string& dtype, bool qwen3, bool bias = false) {
  Entries out;
  out["model.embed_tokens.weight"] = entry(dtype, {11, 8});
  out["model.norm.weight"] = entry(dtype, {8});
  out["lm_head.weight"] = entry(dtype, {11, 8});
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    const auto add = [&](const std::string& name, std::uint64_t rows, std::uint64_t columns) {
      out[layer + name + ".weight"] = entry(dtype, {rows, columns});
      if (bias) out[layer + name + ".bias"] = entry(dtype, {rows});
    };
    add("self_attn.q_proj", 24, 8);
    add("self_attn.k_proj", 12, 8);
    add("self_attn.v_proj", 12, 8);
    add("self_attn.o_proj", 8, 24);
    add("mlp.gate_proj", 10, 8);
    add("mlp.up_proj", 10, 8);
    add("mlp.down_proj", 8, 10);
    out[std::string(layer) + "input_layernorm.weight"] = entry(dtype, {8});
    out[std::string(layer) + "post_attention_layernorm.weight"] = entry(dtype, {8});
    if (qwen3)
      for (const char* norm : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"})
        out[layer + std::string(norm)] = entry(dtype, {6});
  }
  return out;
}

void write_entries(const fs::path& path, const Entries& entries) {
  FileBuilder builder;
  for (const auto& [name, e] : entries) builder.add(name, e.dtype, e.shape, e.bytes);
  put(path, builder.bytes());
}

void write_directory(const fs::path& directory, const json& config, const Entries& entries) {
  put(directory / "config.json", config.dump());
  write_entries(directory / "model.safetensors", entries);
}

Entries read_entries(const fs::path& directory) {
  Entries out;
  const ModelFiles files(directory);
  for (const auto& [name, place] : files.tensors()) {
    Entry e{place.tensor->dtype, place.tensor->shape, std::string(place.tensor->end - place.tensor->begin, '\0')};
    place.file->read(*place.tensor, 0, std::as_writable_bytes(std::span(e.bytes)));
    out[name] = e;
  }
  return out;
}

/// A model read from a directory.
struct Loaded {
  explicit Loaded(const fs::path& directory, core::DType dtype = core::DType::f32, std::int64_t sequence_length = 0)
      : config(read_hf_config(directory)) {
    if (sequence_length) config.sequence_length = sequence_length;
    table.emplace(config);
    buffer = core::Buffer(static_cast<std::size_t>(table->flat_elements()) * core::size_of(dtype), "weights");
    flat = {buffer.data(), dtype, {table->flat_elements()}};
    read_hf_weights(directory, config, *table, flat);
  }
  float at(const std::string& name, std::int64_t i) const { return table->in(flat, name).as<float>()[i]; }
  model::ModelConfig config;
  std::optional<model::ParameterTable> table;
  core::Buffer buffer;
  core::Tensor flat;
};

std::string load_refusal(const fs::path& directory) {
  return refusal([&] { Loaded loaded(directory); });
}

void expect_round_trip(const json& config, const Entries& entries, const std::string& dtype,
                       core::DType in_memory = core::DType::f32) {
  const Scratch scratch;
  write_directory(scratch / "in", config, entries);
  const Loaded loaded(scratch / "in", in_memory);
  write_hf_directory(scratch / "out", loaded.config, loaded.flat, read_hf_side_files(scratch / "in"), {.dtype = dtype});
  EXPECT_EQ(read_entries(scratch / "out"), entries);
  EXPECT_EQ(read_hf_config(scratch / "out").norm_eps, loaded.config.norm_eps);
  const json written = json::parse(content_of(scratch / "out" / "config.json"));
  EXPECT_EQ(written["torch_dtype"], dtype == "fp32" ? "float32" : "bfloat16");
}

float f32_at(const Entry& e, std::size_t i) {
  float value;
  std::memcpy(&value, e.bytes.data() + 4 * i, 4);
  return value;
}

}  // namespace

TEST(HfDirectory, ComesOutAsItWentIn) {
  for (const auto& [stored, dtype] : {std::pair{"F32", "fp32"}, std::pair{"BF16", "bf16"}}) {
    expect_round_trip(gpt2_config(), gpt2_entries(stored), dtype);
    expect_round_trip(llama_config(false), llama_entries(stored, false), dtype);
    expect_round_trip(llama_config(true), llama_entries(stored, true), dtype);
    expect_round_trip(llama_config(true), llama_entries(stored, true), dtype, core::DType::f64);
    json biased = llama_config(false);
    biased.update({{"attention_bias", true}, {"mlp_bias", true}});
    expect_round_trip(biased, llama_entries(stored, false, true), dtype);
    json tied = llama_config(false);
    tied["tie_word_embeddings"] = true;
    Entries entries = llama_entries(stored, false);
    entries.erase("lm_head.weight");
    expect_round_trip(tied, entries, dtype);
    json untied = gpt2_config();
    untied["tie_word_embeddings"] = false;
    Entries with_head = gpt2_entries(stored);
    with_head["lm_head.weight"] = entry(stored, {11, 8});
    expect_round_trip(untied, with_head, dtype);
  }
}

TEST(HfDirectory, Gpt2ProjectionsAreTransposedAndCutIntoQueryKeyValue) {
  const Scratch scratch;
  const Entries entries = gpt2_entries("F32");
  write_directory(scratch.path(), gpt2_config(), entries);
  const Loaded loaded(scratch.path());
  const Entry& fused = entries.at("transformer.h.1.attn.c_attn.weight");
  const Entry& bias = entries.at("transformer.h.1.attn.c_attn.bias");
  const char* names[] = {"query", "key", "value"};
  for (std::size_t part = 0; part < 3; ++part) {
    const std::string name = std::string("blocks.1.attention.") + names[part];
    for (std::size_t out = 0; out < 8; ++out) {
      EXPECT_EQ(loaded.at(name + ".bias", static_cast<std::int64_t>(out)), f32_at(bias, 8 * part + out));
      for (std::size_t in = 0; in < 8; ++in)
        EXPECT_EQ(loaded.at(name + ".weight", static_cast<std::int64_t>(8 * out + in)),
                  f32_at(fused, 24 * in + 8 * part + out));
    }
  }
  const Entry& up = entries.at("transformer.h.0.mlp.c_fc.weight");
  EXPECT_EQ(loaded.at("blocks.0.mlp.up.weight", 3 * 8 + 5), f32_at(up, 5 * 12 + 3));
  EXPECT_EQ(loaded.at("token_embedding.weight", 13), f32_at(entries.at("transformer.wte.weight"), 13));
}

TEST(HfDirectory, LlamaRowsKeepTheirOrder) {
  const Scratch scratch;
  const Entries entries = llama_entries("F32", true);
  write_directory(scratch.path(), llama_config(true), entries);
  const Loaded loaded(scratch.path());
  for (std::int64_t i = 0; i < 24 * 8; ++i)
    EXPECT_EQ(loaded.at("blocks.1.attention.query.weight", i),
              f32_at(entries.at("model.layers.1.self_attn.q_proj.weight"), static_cast<std::size_t>(i)));
  EXPECT_EQ(loaded.at("blocks.0.attention.key_norm.weight", 4),
            f32_at(entries.at("model.layers.0.self_attn.k_norm.weight"), 4));
}

TEST(HfDirectory, HalvesAreReadExactly) {
  const Scratch scratch;
  const Entries entries = llama_entries("F16", false);
  write_directory(scratch.path(), llama_config(false), entries);
  const Loaded loaded(scratch.path());
  const std::string& bytes = entries.at("model.layers.0.mlp.up_proj.weight").bytes;
  for (std::size_t i = 0; i < 80; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    const float expected = (bits & 0x8000 ? -1.0f : 1.0f) * (0.5f + static_cast<float>(bits & 0x3ff) / 2048);
    EXPECT_EQ(loaded.at("blocks.0.mlp.up.weight", static_cast<std::int64_t>(i)), expected);
  }
}

TEST(HfDirectory, Gpt2PrefixMayBeMissingAndIsWritten) {
  const Scratch scratch;
  Entries entries = gpt2_entries("F32", "");
  entries["h.0.attn.bias"] = entry("F32", {1, 1, 5, 5});
  entries["h.0.attn.masked_bias"] = entry("F32", {});
  write_directory(scratch / "in", gpt2_config(), entries);
  const Loaded loaded(scratch / "in");
  write_hf_directory(scratch / "out", loaded.config, loaded.flat, {}, {});
  const Entries out = read_entries(scratch / "out");
  EXPECT_EQ(out.size(), entries.size() - 2);
  EXPECT_EQ(out.at("transformer.h.1.mlp.c_proj.weight"), entries.at("h.1.mlp.c_proj.weight"));
}

TEST(HfDirectory, RotaryBuffersAreIgnored) {
  const Scratch scratch;
  Entries entries = llama_entries("F32", false);
  entries["model.layers.0.self_attn.rotary_emb.inv_freq"] = entry("F32", {3});
  write_directory(scratch.path(), llama_config(false), entries);
  EXPECT_EQ(load_refusal(scratch.path()), "accepted");
}

TEST(HfDirectory, UnknownMissingAndMisshapenTensorsAreNamed) {
  const Scratch scratch;
  const Entries good = llama_entries("F32", false);
  const auto with = [&](const auto& change) {
    Entries entries = good;
    change(entries);
    write_directory(scratch.path(), llama_config(false), entries);
    return load_refusal(scratch.path());
  };
  EXPECT_EQ(with([](Entries&) {}), "accepted");
  EXPECT_THAT(with([](Entries& e) {
                e["model.layers.2.mlp.up_proj.weight"] = entry("F32", {10, 8});
              }),
              HasSubstr("tensor \"model.layers.2.mlp.up_proj.weight\" [10, 8] is none of this llama model's"));
  EXPECT_THAT(with([](Entries& e) { e["model.layers.1.self_attn.q_norm.weight"] = entry("F32", {6}); }),
              HasSubstr("\"model.layers.1.self_attn.q_norm.weight\" [6]"));
  EXPECT_THAT(with([](Entries& e) { e.erase("model.layers.1.mlp.up_proj.weight"); }),
              HasSubstr("tensor \"model.layers.1.mlp.up_proj.weight\" [10, 8] is missing"));
  EXPECT_THAT(with([](Entries& e) { e["model.norm.weight"] = entry("F32", {9}); }),
              HasSubstr("tensor \"model.norm.weight\" is [9], the model needs [8]"));
  EXPECT_THAT(with([](Entries& e) {
                e["model.layers.0.self_attn.o_proj.weight"] = entry("F32", {24, 8});
              }),
              HasSubstr("is [24, 8], the model needs [8, 24]"));
  EXPECT_THAT(with([](Entries& e) {
                e["model.embed_tokens.weight"] = entry("F32", {12, 8});
              }),
              HasSubstr("is [12, 8], the model needs [11, 8]"));
  EXPECT_THAT(with([](Entries& e) {
                e["model.norm.weight"] = {"I32", {8}, std::string(32, '\0')};
              }),
              HasSubstr("\"model.norm.weight\" is I32, weights are F64, F32, BF16 or F16"));
}

TEST(HfDirectory, TiedHeadsMustBeEqualOrAbsentUntiedOnesPresent) {
  const Scratch scratch;
  json tied = llama_config(false);
  tied["tie_word_embeddings"] = true;
  Entries entries = llama_entries("F32", false);
  write_directory(scratch.path(), tied, entries);
  EXPECT_THAT(load_refusal(scratch.path()), HasSubstr("\"lm_head.weight\" [11, 8] F32 differ"));

  entries["lm_head.weight"] = entries["model.embed_tokens.weight"];
  write_directory(scratch.path(), tied, entries);
  EXPECT_EQ(load_refusal(scratch.path()), "accepted");

  Entries only_head = entries;
  only_head.erase("model.embed_tokens.weight");
  write_directory(scratch.path(), tied, only_head);
  EXPECT_EQ(Loaded(scratch.path()).at("token_embedding.weight", 9), f32_at(entries["lm_head.weight"], 9));
  write_directory(scratch.path(), llama_config(false), only_head);
  EXPECT_THAT(load_refusal(scratch.path()), HasSubstr("\"model.embed_tokens.weight\" [11, 8] is missing"));

  entries.erase("lm_head.weight");
  write_directory(scratch.path(), tied, entries);
  EXPECT_EQ(load_refusal(scratch.path()), "accepted");
  write_directory(scratch.path(), llama_config(false), entries);
  EXPECT_THAT(load_refusal(scratch.path()), HasSubstr("tensor \"lm_head.weight\" [11, 8] is missing"));
}

TEST(HfDirectory, PositionTableMayBeLongerThanTheSequenceNotShorter) {
  const Scratch scratch;
  const Entries entries = gpt2_entries("F32");
  write_directory(scratch.path(), gpt2_config(), entries);
  testing::internal::CaptureStdout();
  const Loaded loaded(scratch.path(), core::DType::f32, 3);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("[5, 8] is used up to model.sequence_length = 3"));
  EXPECT_EQ(loaded.at("position_embedding.weight", 2 * 8 + 7), f32_at(entries.at("transformer.wpe.weight"), 23));
  EXPECT_THAT(refusal([&] { Loaded(scratch.path(), core::DType::f32, 6); }),
              HasSubstr("[5, 8] is shorter than model.sequence_length = 6"));
}

TEST(HfDirectory, DoublesThatDoNotFitAreNamed) {
  const Scratch scratch;
  Entries entries = llama_entries("F32", false);
  const double values[8] = {1e-3, 1e300, 0, 0, 0, 0, 0, 0};
  entries["model.norm.weight"] = {"F64", {8}, std::string(reinterpret_cast<const char*>(values), sizeof values)};
  write_directory(scratch.path(), llama_config(false), entries);
  EXPECT_THAT(load_refusal(scratch.path()), HasSubstr("tensor \"model.norm.weight\" has an F64 value"));
  const Loaded loaded(scratch.path(), core::DType::f64);
  EXPECT_EQ(loaded.table->in(loaded.flat, "final_norm.weight").as<double>()[0], 1e-3);
}

TEST(HfDirectory, ShardsAreWrittenAndReadThroughTheIndex) {
  const Scratch scratch;
  const Entries entries = llama_entries("F32", false);
  write_directory(scratch / "in", llama_config(false), entries);
  const Loaded loaded(scratch / "in");
  write_hf_directory(scratch / "out", loaded.config, loaded.flat, {}, {.shard_size = 1000});
  EXPECT_FALSE(fs::exists(scratch / "out" / "model.safetensors"));
  const json index = json::parse(content_of(scratch / "out" / "model.safetensors.index.json"));
  std::size_t total = 0;
  for (const auto& [name, e] : entries) total += e.bytes.size();
  EXPECT_EQ(index["metadata"]["total_size"], total);
  EXPECT_EQ(index["weight_map"].size(), entries.size());
  EXPECT_EQ(read_entries(scratch / "out"), entries);
  std::size_t files = 0;
  for (const auto& file : fs::directory_iterator(scratch / "out"))
    files += file.path().filename().string().starts_with("model-0");
  EXPECT_TRUE(fs::exists(scratch / "out" / ("model-00001-of-0000" + std::to_string(files) + ".safetensors")) ||
              fs::exists(scratch / "out" / ("model-00001-of-000" + std::to_string(files) + ".safetensors")));
  EXPECT_GT(files, 4u);
}

TEST(HfDirectory, IndexAndShardsMustAgree) {
  const Scratch scratch;
  const Entries entries = llama_entries("F32", false);
  Entries first, second;
  json map = json::object();
  for (const auto& [name, e] : entries) {
    const bool early = first.size() < 5;
    (early ? first : second)[name] = e;
    map[name] = early ? "a.safetensors" : "b.safetensors";
  }
  put(scratch / "config.json", llama_config(false).dump());
  const auto with = [&](const Entries& a, const Entries& b, const json& weight_map) {
    write_entries(scratch / "a.safetensors", a);
    write_entries(scratch / "b.safetensors", b);
    put(scratch / "model.safetensors.index.json",
        json{{"metadata", json::object()}, {"weight_map", weight_map}}.dump());
    return load_refusal(scratch.path());
  };
  EXPECT_EQ(with(first, second, map), "accepted");
  const std::string name = first.begin()->first;
  Entries both = second;
  both[name] = first[name];
  EXPECT_THAT(with(first, both, map), HasSubstr("tensor \"" + name + "\" is in "));
  Entries less = first;
  less.erase(name);
  EXPECT_THAT(with(less, second, map), HasSubstr("tensor \"" + name + "\" is not in a.safetensors"));
  EXPECT_THAT(with(less, both, map), HasSubstr("tensor \"" + name + "\" is not in a.safetensors"));
  json shorter = map;
  shorter.erase(name);
  EXPECT_THAT(with(first, second, shorter), HasSubstr("tensor \"" + name + "\" is not in model.safetensors.index"));
  for (const char* path : {"../a.safetensors", "/etc/passwd", "..", ""}) {
    json escaping = map;
    escaping[name] = path;
    EXPECT_THAT(with(first, second, escaping), HasSubstr("not a bare file name")) << path;
  }
  json missing = map;
  missing[name] = "c.safetensors";
  EXPECT_THAT(with(first, second, missing), HasSubstr("c.safetensors"));
  put(scratch / "model.safetensors.index.json", "{}");
  EXPECT_THAT(load_refusal(scratch.path()), HasSubstr("no object weight_map"));
}

TEST(HfDirectory, PickledWeightsAreNotRead) {
  const Scratch scratch;
  put(scratch / "config.json", llama_config(false).dump());
  EXPECT_THAT(load_refusal(scratch.path()), HasSubstr("no model.safetensors or model.safetensors.index.json"));
  put(scratch / "pytorch_model.bin", "x");
  EXPECT_THAT(load_refusal(scratch.path()), HasSubstr("pickled weights are not read; convert to safetensors"));
}

TEST(HfDirectory, IsToldFromACheckpoint) {
  const Scratch scratch;
  EXPECT_FALSE(is_hf_directory(scratch.path()));
  EXPECT_FALSE(is_hf_directory(scratch / "absent"));
  put(scratch / "config.json", "{}");
  EXPECT_TRUE(is_hf_directory(scratch.path()));
  put(scratch / "MANIFEST.json", "{}");
  EXPECT_FALSE(is_hf_directory(scratch.path()));
}

TEST(HfSideFiles, TravelByteForByte) {
  const Scratch scratch;
  write_directory(scratch / "in", llama_config(false), llama_entries("F32", false));
  const std::map<std::string, std::string> files{{"tokenizer.json", "{\"model\": {\"vocab\": {\"a\": 10}}}\r\n"},
                                                 {"merges.txt", "#version\na b"},
                                                 {"tokenizer_config.json", "\xef\xbb\xbf{ }"},
                                                 {"special_tokens_map.json", ""},
                                                 {"generation_config.json", "{\"x\":1}"}};
  for (const auto& [name, content] : files) put((scratch / "in") / name, content);
  put((scratch / "in") / "README.md", "stays");
  const Loaded loaded(scratch / "in");
  write_hf_directory(scratch / "out", loaded.config, loaded.flat, read_hf_side_files(scratch / "in"), {});
  for (const auto& [name, content] : files) EXPECT_EQ(content_of((scratch / "out") / name), content) << name;
  EXPECT_FALSE(fs::exists((scratch / "out") / "README.md"));
}

TEST(HfSideFiles, TokenizerMayBeSmallerThanTheVocabularyNotLarger) {
  const Scratch scratch;
  write_directory(scratch.path(), llama_config(false), llama_entries("F32", false));
  const auto with = [&](const std::string& name, const json& content) {
    put(scratch / name, content.dump());
    return refusal([&] { read_hf_side_files(scratch.path()); });
  };
  EXPECT_EQ(with("vocab.json", {{"a", 0}, {"b", 10}}), "accepted");
  EXPECT_THAT(with("vocab.json", {{"a", 0}, {"b", 11}}),
              HasSubstr("vocab.json: 12 ids, config.json has vocab_size = 11"));
  EXPECT_EQ(with("tokenizer.json", {{"model", {{"vocab", {{"a", 3}}}}}}), "accepted");
  EXPECT_THAT(with("tokenizer.json", {{"model", {{"vocab", {{"a", 3}}}}}, {"added_tokens", {{{"id", 20}}}}}),
              HasSubstr("tokenizer.json: 21 ids"));
}

TEST(HfDirectory, NothingIsReplacedUnasked) {
  const Scratch scratch;
  write_directory(scratch / "in", llama_config(false), llama_entries("F32", false));
  const Loaded loaded(scratch / "in");
  const auto write = [&](const std::string& name, HfWriteOptions options) {
    return refusal([&] { write_hf_directory(scratch / name, loaded.config, loaded.flat, {}, options); },
                   core::ExitCode::run_directory);
  };
  const std::string before = content_of((scratch / "in") / "model.safetensors");
  EXPECT_THAT(write("in", {}), HasSubstr("exists already (--force replaces it)"));
  EXPECT_EQ(content_of((scratch / "in") / "model.safetensors"), before);
  put(scratch / "weights" / "model-00001-of-00002.safetensors", "old");
  EXPECT_THAT(write("weights", {}), HasSubstr("model-00001-of-00002.safetensors: exists already"));
  put(scratch / "file", "x");
  EXPECT_THAT(write("file", {}), HasSubstr("is no directory"));
  put(scratch / "other" / "README.md", "mine");
  EXPECT_EQ(write("other", {}), "accepted");
  EXPECT_EQ(write("in", {.shard_size = 1000, .overwrite = true}), "accepted");
  EXPECT_FALSE(fs::exists((scratch / "in") / "model.safetensors"));
  EXPECT_EQ(write("in", {.overwrite = true}), "accepted");
  EXPECT_FALSE(fs::exists((scratch / "in") / "model.safetensors.index.json"));
  EXPECT_EQ(content_of((scratch / "other") / "README.md"), "mine");
  EXPECT_EQ(read_entries(scratch / "in"), read_entries(scratch / "other"));
  std::size_t left = 0;
  for (const auto& file : fs::directory_iterator(scratch / "in")) left += file.path().filename() != "";
  EXPECT_EQ(left, 2u);
}

TEST(HfDirectory, AModelOfNoKindLeavesNothingBehind) {
  const Scratch scratch;
  model::ModelConfig config = micro_model_config();
  config.norm = "rmsnorm";
  const std::string text =
      refusal([&] { write_hf_directory(scratch / "out", config, {}, {}, {}); }, core::ExitCode::usage);
  EXPECT_THAT(text, HasSubstr("model.norm = rmsnorm"));
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(MicroModel, HasTheSpecifiedParametersAndValues) {
  const model::ModelConfig config = micro_model_config();
  const model::ParameterTable table(config);
  EXPECT_EQ(table.count(), 27936);
  std::vector<float> values(static_cast<std::size_t>(table.flat_elements()), 7.0f);
  const core::Tensor flat = core::view(values.data(), {table.flat_elements()});
  fill_micro_model(table, flat);
  const auto at = [&](const std::string& name, std::int64_t i) { return table.in(flat, name).as<float>()[i]; };
  EXPECT_EQ(at("token_embedding.weight", 3), static_cast<float>(0.1 * std::sin(0.37 * 3)));
  EXPECT_EQ(at("blocks.1.attention_norm.weight", 5), static_cast<float>(0.1 * std::sin(0.37 * 37 + 2)) + 1.0f);
  EXPECT_EQ(at("blocks.1.attention.key.weight", 1),
            static_cast<float>(0.1 * std::sin(0.37 * (96 * 32 + 32 * 32 + 1) + 4)));
  EXPECT_EQ(at("final_norm.bias", 31), static_cast<float>(0.1 * std::sin(0.37 * 31 + 15)));
  std::int64_t unset = 0;
  for (const model::Parameter& parameter : table.parameters())
    for (std::int64_t i = 0; i < parameter.shape.elements(); ++i) unset += at(parameter.name, i) == 7.0f;
  EXPECT_EQ(unset, 0);
}

TEST(OracleDirectories, ComeOutAsTheyWentIn) {
  const char* root = TRIREME_TEST_ORACLE;
  for (const char* name : {"gpt2-a", "llama-a"}) {
    const fs::path directory = fs::path(root) / name / "hf";
    ASSERT_TRUE(is_hf_directory(directory)) << directory;
    const Scratch scratch;
    const Loaded loaded(directory);
    write_hf_directory(scratch / "out", loaded.config, loaded.flat, read_hf_side_files(directory), {});
    EXPECT_EQ(read_entries(scratch / "out"), read_entries(directory)) << name;
  }
}

}  // namespace trireme::train
