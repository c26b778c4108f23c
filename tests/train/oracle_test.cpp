#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "data/loader.h"
#include "micro_model.h"
#include "model/ops/adamw.h"
#include "train/huggingface/directory.h"
#include "train/huggingface/tensor_names.h"
#include "train/model_state.h"
#include "train/step.h"

// Models with known losses: the micro-model of the format description, and two Hugging Face directories with the
// losses, norms and gradients that an independent fp64 program computed from them.
namespace trireme::train {

namespace fs = std::filesystem;
using core::DType;

struct Training {
  Training(const model::ModelConfig& config, DType compute, std::int64_t micro, model::Recompute mode)
      : config(config),
        state(this->config, compute, true),
        gpt(this->config, state.weights(), compute, {mode, -1}, {config.sequence_length, micro, true}) {}

  StepOutcome step(const StepPlan& plan, data::BatchSource& batches) {
    StepOutcome outcome = accumulate_gradients(plan, batches, gpt, [] {});
    update_weights(plan, state, outcome);
    return outcome;
  }

  model::ModelConfig config;
  ModelState state;
  model::Gpt gpt;
};

/// The same batch again and again.
class OneBatch : public data::BatchSource {
 public:
  OneBatch(const std::vector<std::int32_t>& stream, std::int64_t samples, std::int64_t sequence) {
    tokens_.assign(stream.begin(), stream.end() - 1);
    targets_.assign(stream.begin() + 1, stream.end());
    batch_ = {.samples = samples,
              .sequence = sequence,
              .tokens = tokens_.data(),
              .targets = targets_.data(),
              .targets_counted = samples * sequence};
  }
  const data::Batch& next() override { return batch_; }

 private:
  std::vector<std::int32_t> tokens_, targets_;
  data::Batch batch_;
};

const std::vector<double> kMicroLosses{4.3496126642, 4.0680377855, 3.9368203887, 3.8574337115,
                                       3.7933930626, 3.7352806477, 3.6775131066, 3.6159755423,
                                       3.5482141150, 3.4763618503, 3.4117483713};
const std::vector<double> kMicroNorms{4.02503065, 2.21743081, 2.37044094, 1.24345128, 1.22539401, 1.31861957,
                                      1.46149252, 1.75284604, 2.28442026, 2.27495979, 1.34320450};

/// What a value may differ by: half a unit of the last digit that is known, and a part of the value.
struct Tolerance {
  double digit = 0, relative = 0;
  double of(double value) const { return digit + relative * value; }
};

void expect_micro_model(DType compute, Tolerance loss, Tolerance norm) {
  Training training(micro_model_config(), compute, 2, model::Recompute::none);
  fill_micro_model(training.state.table(), training.state.master());
  OneBatch batch(micro_model_corpus(), 2, 16);
  for (std::size_t k = 0; k < kMicroLosses.size(); ++k) {
    const StepOutcome outcome = training.step({.lr = 1e-3, .update = static_cast<std::int64_t>(k) + 1}, batch);
    EXPECT_NEAR(outcome.loss, kMicroLosses[k], loss.of(kMicroLosses[k])) << "step " << k + 1;
    EXPECT_NEAR(outcome.grad_norm, kMicroNorms[k], norm.of(kMicroNorms[k])) << "step " << k + 1;
  }
}

TEST(MicroModel, TrainsWithTheKnownLossesInFp64) { expect_micro_model(DType::f64, {.digit = 6e-11}, {.digit = 6e-9}); }

// Relative: some gradients are zero but for rounding, and AdamW's first steps turn their signs into whole steps.
// Weights rounded to fp32 with every sum in fp64 already move the third norm by 5e-5.
TEST(MicroModel, TrainsWithTheKnownLossesInFp32) {
  expect_micro_model(DType::f32, {.relative = 1e-5}, {.relative = 1e-4});
}

TEST(MicroModel, HasTheKnownLogitsLossesAndGradients) {
  Training training(micro_model_config(), DType::f64, 2, model::Recompute::none);
  fill_micro_model(training.state.table(), training.state.master());
  OneBatch source(micro_model_corpus(), 2, 16);
  const data::Batch& batch = source.next();
  const model::MicroBatch micro{.ids = {2, 16, batch.tokens}, .targets = batch.targets};
  std::vector<double> logits(static_cast<std::size_t>(32 * training.gpt.columns()));
  training.gpt.logits(micro, core::view(logits.data(), {32, training.gpt.columns()}));
  const double expected[] = {1.0759804780, 0.4021208841, -0.4747375377, -1.1119387932};
  for (std::size_t id = 0; id < 4; ++id) EXPECT_NEAR(logits[id], expected[id], 6e-11);

  accumulate_gradients({}, source, training.gpt, [] {});
  const double norms[] = {1.333535524, 0.8979843206, 0.04467014955, 0.03325492614, 0.8693203602, 0.1431432807,
                          2.304097899, 0.4514661830, 0.03043037261, 0.05679920530, 1.217943927,  0.3740668052,
                          2.315155095, 0.5211127307, 0.1678600446,  0.1924491890};
  const auto tensors = micro_model_tensors();
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    double squares = 0;
    for (const std::string& name : tensors[k])
      squares += model::sum_of_squares(training.state.table().in(training.state.gradient(), name));
    EXPECT_NEAR(std::sqrt(squares) / 32, norms[k], 1e-9 * norms[k]) << tensors[k][0];
  }
}

struct Case {
  const char* name;
  DType compute;
  std::int64_t micro;
  model::Recompute mode;
};

class Oracle : public testing::TestWithParam<Case> {
 protected:
  const fs::path directory = fs::path(TRIREME_TEST_ORACLE) / GetParam().name;
  const nlohmann::json expected = nlohmann::json::parse(std::ifstream(directory / "expected.json"));
  const model::ModelConfig config = read_hf_config(directory / "hf");

  /// The whole corpus is one global batch.
  data::Dataset open() const {
    data::DataConfig data;
    data.train = {{.path = (directory / "corpus").string(), .weight = 1, .format = ""}};
    return data::Dataset(data, {.sequence = config.sequence_length, .vocab_size = config.vocab_size, .seed = 1});
  }
};

TEST_P(Oracle, LossesAndNormsOfEveryStepAgree) {
  const Case& c = GetParam();
  const nlohmann::json& recipe = expected["case"];
  const std::int64_t global = recipe["batch"];
  Training training(config, c.compute, c.micro, c.mode);
  read_hf_weights(directory / "hf", config, training.state.table(), training.state.master());
  const data::Dataset dataset = open();
  data::TrainLoader loader(dataset, c.micro, 0);
  const double tolerance = c.compute == DType::f64 ? 1e-9 : 2e-5;
  for (std::size_t k = 0; k < expected["loss"].size(); ++k) {
    const StepOutcome outcome = training.step({.micro_batches = global / c.micro,
                                               .lr = recipe["lr"],
                                               .weight_decay = recipe["wd"],
                                               .clip = recipe["clip"],
                                               .update = static_cast<std::int64_t>(k) + 1},
                                              loader);
    const double loss = expected["loss"][k], norm = expected["grad_norm_before_clip"][k];
    EXPECT_NEAR(outcome.loss, loss, tolerance * loss) << "step " << k + 1;
    EXPECT_NEAR(outcome.grad_norm, norm, tolerance * norm) << "step " << k + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(, Oracle,
                         testing::Values(Case{"gpt2-a", DType::f64, 1, model::Recompute::none},
                                         Case{"gpt2-a", DType::f64, 2, model::Recompute::selective},
                                         Case{"gpt2-a", DType::f64, 4, model::Recompute::full},
                                         Case{"gpt2-a", DType::f32, 1, model::Recompute::full},
                                         Case{"gpt2-a", DType::f32, 2, model::Recompute::none},
                                         Case{"gpt2-a", DType::f32, 4, model::Recompute::none},
                                         Case{"llama-a", DType::f64, 1, model::Recompute::none},
                                         Case{"llama-a", DType::f64, 2, model::Recompute::selective},
                                         Case{"llama-a", DType::f64, 8, model::Recompute::full},
                                         Case{"llama-a", DType::f32, 1, model::Recompute::full},
                                         Case{"llama-a", DType::f32, 2, model::Recompute::none},
                                         Case{"llama-a", DType::f32, 8, model::Recompute::none}),
                         [](const auto& info) {
                           std::string name = fmt::format("{}_{}_micro{}", info.param.name,
                                                          core::name_of(info.param.compute), info.param.micro);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class OracleGradients : public Oracle {};
INSTANTIATE_TEST_SUITE_P(, OracleGradients,
                         testing::Values(Case{"gpt2-a", DType::f64, 4, model::Recompute::none},
                                         Case{"llama-a", DType::f64, 8, model::Recompute::none}));

TEST_P(OracleGradients, OfEveryTensorAgreeAtStepZero) {
  const std::int64_t global = expected["case"]["batch"];
  Training training(config, DType::f64, global, model::Recompute::none);
  read_hf_weights(directory / "hf", config, training.state.table(), training.state.master());
  const data::Dataset dataset = open();
  data::TrainLoader loader(dataset, global, 0);
  const StepOutcome outcome = accumulate_gradients({}, loader, training.gpt, [] {});
  std::size_t compared = 0;
  const HfKind kind = hf_kind(config);
  for (const HfTensor& tensor : hf_tensors(kind, training.state.table())) {
    double squares = 0;
    for (const model::Parameter* part : tensor.parts)
      squares += model::sum_of_squares(training.state.table().in(training.state.gradient(), part->name));
    // expected.json has one norm for each tensor that the file stores.
    const double norm = std::sqrt(squares) / static_cast<double>(outcome.targets);
    const double wanted = expected["grad_norm_by_tensor_step_0"].at(tensor.name);
    EXPECT_NEAR(norm, wanted, 1e-8 * wanted) << tensor.name;
    ++compared;
  }
  EXPECT_EQ(compared, expected["grad_norm_by_tensor_step_0"].size());
}

TEST(OracleControl, AWrongDecayIsSeen) {
  const fs::path directory = fs::path(TRIREME_TEST_ORACLE) / "llama-a";
  const auto expected = nlohmann::json::parse(std::ifstream(directory / "expected.json"));
  Training training(read_hf_config(directory / "hf"), DType::f64, 8, model::Recompute::none);
  read_hf_weights(directory / "hf", training.config, training.state.table(), training.state.master());
  data::DataConfig data;
  data.train = {{.path = (directory / "corpus").string(), .weight = 1, .format = ""}};
  const data::Dataset dataset(data, {.sequence = 24, .vocab_size = 97, .seed = 1});
  data::TrainLoader loader(dataset, 8, 0);
  training.step({.lr = 1e-3, .weight_decay = 0.0, .clip = 1, .update = 1}, loader);
  const StepOutcome second = training.step({.lr = 1e-3, .weight_decay = 0.0, .clip = 1, .update = 2}, loader);
  const double wanted = expected["loss"][1];
  EXPECT_GT(std::abs(second.loss - wanted), 1e-9 * wanted);
}

}  // namespace trireme::train
