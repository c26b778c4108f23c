#include "train/model_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace trireme::train {

namespace {

std::string message_of(const nlohmann::json& json) {
  try {
    model_from_json(json, "M");
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ExitCode::bad_data);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST(ModelJson, ComesBackEqualForEveryPreset) {
  for (const std::string& name : model::preset_names()) {
    model::ModelConfig config = model::preset(name);
    config.norm_eps = 1.0 / 3;
    const nlohmann::json json = model_to_json(config);
    const model::ModelConfig back = model_from_json(nlohmann::json::parse(json.dump()), "M");
    EXPECT_EQ(back.norm_eps, config.norm_eps) << name;
    EXPECT_EQ(back.kv_heads, config.kv_heads) << name;
    EXPECT_EQ(back.norm, config.norm) << name;
    EXPECT_EQ(model_to_json(back), json) << name;
  }
}

TEST(ModelJson, HoldsShapeAndArithmeticOnly) {
  model::ModelConfig config = model::preset("gpt2-124m");
  config.dropout = 0.5;
  config.initial_weights = "elsewhere";
  std::vector<std::string> keys;
  const nlohmann::json json = model_to_json(config);
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, testing::UnorderedElementsAre("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn_hidden",
                                                  "vocab_size", "sequence_length", "norm", "activation", "position",
                                                  "rope_theta", "norm_eps", "bias", "qk_norm", "tied_embeddings"));
}

TEST(ModelJson, NamesWhatItRefuses) {
  const nlohmann::json good = model_to_json(model::preset("gpt2-124m"));
  EXPECT_EQ(message_of(good), "accepted");
  const auto with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json json = good;
    json[key] = value;
    return message_of(json);
  };
  EXPECT_EQ(with("norm", "batchnorm"), "M: norm = \"batchnorm\" is not one of layernorm, rmsnorm");
  EXPECT_EQ(with("layers", "two"), "M: layers = \"two\" is not an integer");
  EXPECT_EQ(with("layers", 1.5), "M: layers = 1.5 is not an integer");
  EXPECT_EQ(with("layers", -1), "M: layers = -1 is outside 0 to 10000");
  EXPECT_THAT(with("layers", 18446744073709551615u), testing::HasSubstr("layers"));
  EXPECT_EQ(with("bias", 1), "M: bias = 1 is not true or false");
  EXPECT_EQ(with("alibi", true), "M: key \"alibi\" is unknown");
  EXPECT_THAT(with("norm_eps", 0), testing::HasSubstr("norm_eps = 0"));
  EXPECT_THAT(with("kv_heads", 5), testing::HasSubstr("model.kv_heads"));
  nlohmann::json json = good;
  json.erase("rope_theta");
  EXPECT_EQ(message_of(json), "M: key \"rope_theta\" is missing");
  EXPECT_THAT(message_of(nlohmann::json::array()), testing::HasSubstr("array"));
}

}  // namespace trireme::train
