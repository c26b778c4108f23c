#include <gmock/gmock.h>

#include "tests/train/huggingface_files.h"
#include "train/huggingface/config_json.h"
#include "train/model_json.h"

namespace trireme::train {

namespace {

using nlohmann::json;
using testing::HasSubstr;

json gpt2() {
  return {{"model_type", "gpt2"}, {"n_layer", 2},     {"n_embd", 32},
          {"n_head", 2},          {"vocab_size", 61}, {"n_positions", 16}};
}

json llama() {
  return {{"model_type", "llama"},         {"num_hidden_layers", 2},  {"hidden_size", 32},
          {"num_attention_heads", 4},      {"intermediate_size", 88}, {"vocab_size", 97},
          {"max_position_embeddings", 24}, {"rms_norm_eps", 1e-5}};
}

json qwen3() {
  json out = llama();
  out["model_type"] = "qwen3";
  return out;
}

model::ModelConfig read(const json& config) { return config_from_hf(config, "config.json"); }

std::string refused(json config, const json& changes) {
  config.update(changes);
  return refusal([&] { read(config); });
}

}  // namespace

TEST(HfConfig, Gpt2FieldsGiveTheModel) {
  json with = gpt2();
  with.update({{"n_inner", 100}, {"layer_norm_epsilon", 1e-6}, {"activation_function", "gelu_pytorch_tanh"}});
  const model::ModelConfig config = read(with);
  EXPECT_EQ(model_to_json(config), json({{"layers", 2},
                                         {"hidden", 32},
                                         {"heads", 2},
                                         {"kv_heads", 2},
                                         {"head_dim", 16},
                                         {"ffn_hidden", 100},
                                         {"vocab_size", 61},
                                         {"sequence_length", 16},
                                         {"norm", "layernorm"},
                                         {"activation", "gelu"},
                                         {"position", "learned"},
                                         {"rope_theta", 10000.0},
                                         {"norm_eps", 1e-6},
                                         {"bias", true},
                                         {"qk_norm", false},
                                         {"tied_embeddings", true}}));
  json plain = gpt2();
  plain["n_inner"] = nullptr;
  plain["attn_pdrop"] = 0.1;
  EXPECT_EQ(read(plain).ffn_hidden, 128);
  EXPECT_EQ(read(plain).dropout, 0);
  plain["tie_word_embeddings"] = false;
  EXPECT_FALSE(read(plain).tied_embeddings);
}

TEST(HfConfig, LlamaFieldsGiveTheModel) {
  json with = llama();
  with.update({{"num_key_value_heads", 2}, {"head_dim", 20}, {"rope_theta", 5e5}, {"tie_word_embeddings", true}});
  EXPECT_EQ(model_to_json(read(with)), json({{"layers", 2},
                                             {"hidden", 32},
                                             {"heads", 4},
                                             {"kv_heads", 2},
                                             {"head_dim", 20},
                                             {"ffn_hidden", 88},
                                             {"vocab_size", 97},
                                             {"sequence_length", 24},
                                             {"norm", "rmsnorm"},
                                             {"activation", "swiglu"},
                                             {"position", "rope"},
                                             {"rope_theta", 5e5},
                                             {"norm_eps", 1e-5},
                                             {"bias", false},
                                             {"qk_norm", false},
                                             {"tied_embeddings", true}}));
  json plain = llama();
  plain.update({{"num_key_value_heads", nullptr}, {"head_dim", nullptr}});
  EXPECT_EQ(read(plain).kv_heads, 4);
  EXPECT_EQ(read(plain).head_dim, 8);
  EXPECT_EQ(read(plain).rope_theta, 10000);
  EXPECT_FALSE(read(plain).tied_embeddings);
  plain.update({{"attention_bias", true}, {"mlp_bias", true}});
  EXPECT_TRUE(read(plain).bias);
}

TEST(HfConfig, Qwen3HasHeadsOf128AndQkNorm) {
  const model::ModelConfig config = read(qwen3());
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_TRUE(config.qk_norm);
  json own = qwen3();
  own["head_dim"] = 16;
  EXPECT_EQ(read(own).head_dim, 16);
}

TEST(HfConfig, RotaryBaseIsFoundWhereverItIs) {
  json inside = llama();
  inside["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  EXPECT_EQ(read(inside).rope_theta, 1e6);
  inside["rope_theta"] = 1000000;
  EXPECT_EQ(read(inside).rope_theta, 1e6);
  inside["rope_theta"] = 10000.0;
  const std::string text = refusal([&] { read(inside); });
  EXPECT_EQ(text, "config.json: rope_parameters.rope_theta = 1000000 and rope_theta = 10000 differ");
  json scaling = llama();
  scaling["rope_scaling"] = {{"type", "default"}};
  EXPECT_EQ(read(scaling).rope_theta, 10000);
}

TEST(HfConfig, ScaledRotaryPositionsAreRefused) {
  EXPECT_THAT(refused(llama(), {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}}}),
              HasSubstr("rope_scaling.rope_type = \"yarn\" is not supported"));
  EXPECT_THAT(refused(llama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}),
              HasSubstr("rope_scaling.type = \"linear\" is not supported"));
  EXPECT_THAT(refused(llama(), {{"rope_parameters", {{"rope_type", "llama3"}, {"rope_theta", 5e5}}}}),
              HasSubstr("rope_parameters.rope_type = \"llama3\" is not supported"));
  EXPECT_THAT(refused(llama(), {{"rope_scaling", {{"factor", 2.0}}}}), HasSubstr("rope_scaling.factor = 2.0"));
  EXPECT_THAT(refused(llama(), {{"rope_parameters", {{"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}}}}),
              HasSubstr("rope_parameters.partial_rotary_factor = 0.5"));
  EXPECT_THAT(refused(llama(), {{"partial_rotary_factor", 0.25}}), HasSubstr("partial_rotary_factor = 0.25"));
  EXPECT_THAT(refused(llama(), {{"rope_parameters", {{"full_attention", {{"rope_theta", 1e4}}}}}}),
              HasSubstr("rope_parameters.full_attention"));
  EXPECT_EQ(refused(llama(), {{"rope_scaling", nullptr}}), "accepted");
}

TEST(HfConfig, SlidingWindowsAreRefused) {
  EXPECT_EQ(refused(qwen3(), {{"use_sliding_window", false}, {"sliding_window", 4096}}), "accepted");
  EXPECT_EQ(refused(qwen3(), {{"use_sliding_window", true}, {"layer_types", {"full_attention", "full_attention"}}}),
            "accepted");
  EXPECT_THAT(refused(qwen3(), {{"use_sliding_window", true}}), HasSubstr("use_sliding_window = true"));
  EXPECT_THAT(refused(qwen3(), {{"use_sliding_window", true}, {"layer_types", {"full_attention"}}}),
              HasSubstr("use_sliding_window = true"));
  EXPECT_THAT(refused(qwen3(), {{"layer_types", {"full_attention", "sliding_attention"}}}), HasSubstr("layer_types"));
  EXPECT_THAT(refused(llama(), {{"layer_types", {"full_attention", "linear_attention"}}}), HasSubstr("layer_types"));
}

TEST(HfConfig, OtherArithmeticIsRefusedByName) {
  EXPECT_EQ(refused(llama(), {{"model_type", "mistral"}}),
            "config.json: model_type = \"mistral\" is not read (gpt2, llama, qwen3)");
  EXPECT_THAT(refused(gpt2(), {{"model_type", nullptr}}), HasSubstr("model_type is missing"));
  EXPECT_THAT(refused(gpt2(), {{"activation_function", "gelu"}}), HasSubstr("activation_function = \"gelu\""));
  EXPECT_THAT(refused(gpt2(), {{"scale_attn_weights", false}}), HasSubstr("scale_attn_weights = false"));
  EXPECT_THAT(refused(gpt2(), {{"scale_attn_by_inverse_layer_idx", true}}),
              HasSubstr("scale_attn_by_inverse_layer_idx = true"));
  EXPECT_THAT(refused(gpt2(), {{"add_cross_attention", true}}), HasSubstr("add_cross_attention = true"));
  EXPECT_THAT(refused(llama(), {{"hidden_act", "gelu"}}), HasSubstr("hidden_act = \"gelu\""));
  EXPECT_THAT(refused(llama(), {{"attention_bias", true}}), HasSubstr("attention_bias = true"));
  EXPECT_THAT(refused(llama(), {{"mlp_bias", true}}), HasSubstr("mlp_bias = true"));
  EXPECT_THAT(refused(llama(), {{"quantization_config", {{"bits", 4}}}}),
              HasSubstr("quantization_config = {\"bits\":4}"));
  EXPECT_THAT(refused(llama(), {{"logit_scale", 0.5}}), HasSubstr("logit_scale = 0.5"));
}

TEST(HfConfig, BadValuesAreNamed) {
  EXPECT_EQ(refused(gpt2(), {{"n_layer", nullptr}}), "config.json: n_layer is missing");
  EXPECT_EQ(refused(gpt2(), {{"n_layer", 1.5}}), "config.json: n_layer = 1.5 is not an integer");
  EXPECT_THAT(refused(gpt2(), {{"n_layer", 0}}), HasSubstr("n_layer = 0 is outside 1 to"));
  EXPECT_THAT(refused(gpt2(), {{"n_layer", -1}}), HasSubstr("n_layer = -1 is outside"));
  EXPECT_THAT(refused(gpt2(), {{"n_embd", 18446744073709551615u}}), HasSubstr("n_embd = 18446744073709551615"));
  EXPECT_THAT(refused(gpt2(), {{"n_head", 3}}), HasSubstr("model.heads"));
  EXPECT_THAT(refused(llama(), {{"num_key_value_heads", 3}}), HasSubstr("model.kv_heads"));
  EXPECT_THAT(refused(llama(), {{"rms_norm_eps", 0}}), HasSubstr("rms_norm_eps = 0"));
  EXPECT_THAT(refused(llama(), {{"rope_theta", -1}}), HasSubstr("rope_theta = -1"));
  EXPECT_THAT(refused(llama(), {{"tie_word_embeddings", "yes"}}), HasSubstr("is not true or false"));
  EXPECT_THAT(refusal([] { config_from_hf(json::array(), "config.json"); }), HasSubstr("array, not an object"));
}

TEST(HfConfig, FilesThatAreNoJsonAreNamed) {
  const auto parsed = [](const std::string& text) { return refusal([&] { parse_json(text, "T.json"); }); };
  EXPECT_EQ(parsed("{\"a\": 1,}"), "T.json: not JSON at byte 9");
  EXPECT_EQ(parsed("{\"a\": 1, \"a\": 2}"), "T.json: key \"a\" twice");
  EXPECT_EQ(parsed("{\"a\": {\"a\": 2}, \"b\": {\"a\": 1}}"), "accepted");
  EXPECT_THAT(parsed(std::string(100, '[') + std::string(100, ']')), HasSubstr("64 levels"));
  EXPECT_THAT(parsed("[1e999]"), HasSubstr("not JSON"));
  EXPECT_THAT(parsed("{\"a\": \"\xff\"}"), HasSubstr("not JSON"));
}

TEST(HfConfig, WhatIsWrittenDescribesTheSameModel) {
  for (const json& original : {gpt2(), llama(), qwen3()}) {
    json with = original;
    with["tie_word_embeddings"] = false;
    const model::ModelConfig config = read(with);
    const json written = json::parse(config_to_hf(config, "bfloat16", ""));
    EXPECT_EQ(model_to_json(read(written)), model_to_json(config));
    EXPECT_EQ(written["model_type"], original["model_type"]);
    EXPECT_EQ(written["torch_dtype"], "bfloat16");
  }
}

TEST(HfConfig, OtherFieldsAreKeptAndOldOnesCorrected) {
  json original = llama();
  original.update({{"bos_token_id", 7}, {"_note", {{"x", {1, 2}}}}, {"dtype", "float32"}, {"attention_dropout", 0.25}});
  original["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  model::ModelConfig config = read(original);
  config.sequence_length = 12;
  const json written = json::parse(config_to_hf(config, "bfloat16", original.dump()));
  EXPECT_EQ(written["bos_token_id"], 7);
  EXPECT_EQ(written["_note"], original["_note"]);
  EXPECT_EQ(written["attention_dropout"], 0.25);
  EXPECT_EQ(written["dtype"], "bfloat16");
  EXPECT_EQ(written["rope_theta"], 1e6);
  EXPECT_EQ(written["rope_parameters"]["rope_theta"], 1e6);
  EXPECT_EQ(written["max_position_embeddings"], 12);
}

TEST(HfConfig, FieldsOfAnotherKindAreNotKept) {
  json other = gpt2();
  other["_note"] = 1;
  const json written = json::parse(config_to_hf(read(llama()), "float32", other.dump()));
  EXPECT_FALSE(written.contains("_note"));
  EXPECT_FALSE(written.contains("n_embd"));
}

TEST(HfConfig, AModelOfNoKindIsRefusedWithTheKeyThatDoesNotFit) {
  const auto kind = [](model::ModelConfig config) { return refusal([&] { hf_kind(config); }, core::ExitCode::usage); };
  model::ModelConfig config = model::preset("gpt2-124m");
  EXPECT_EQ(hf_kind(config), HfKind::gpt2);
  config.norm = "rmsnorm";
  EXPECT_THAT(kind(config), HasSubstr("model.norm = rmsnorm does not fit gpt2 (layernorm)"));
  config = model::preset("gpt2-124m");
  config.kv_heads = 4;
  EXPECT_THAT(kind(config), HasSubstr("model.kv_heads = 4 does not fit gpt2 (12)"));
  config = model::preset("llama-tiny");
  EXPECT_EQ(hf_kind(config), HfKind::llama);
  config.activation = "gelu";
  EXPECT_THAT(kind(config), HasSubstr("model.activation = gelu does not fit llama (swiglu)"));
  config = model::preset("llama-tiny");
  config.qk_norm = true;
  EXPECT_EQ(hf_kind(config), HfKind::qwen3);
  config.qk_norm = false;
  config.bias = true;
  EXPECT_EQ(hf_kind(config), HfKind::llama);
}

}  // namespace trireme::train
