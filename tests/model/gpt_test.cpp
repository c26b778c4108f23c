#include "model/gpt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/generator.h"
#include "small_gpt.h"

namespace trireme::model {

using core::DType;

class EachKind : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(GptAndLlama, EachKind, testing::Bool(),
                         [](const auto& info) { return info.param ? "Llama" : "Gpt2"; });

double total(const std::vector<double>& losses) {
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum;
}

bool same_bytes(const core::Tensor& a, const core::Tensor& b) { return std::memcmp(a.data, b.data, a.bytes()) == 0; }

/// Loss of all samples with dropout, no gradients.
double loss(SmallGpt& small) {
  std::vector<double> losses(4);
  small.gpt->evaluate(small.batch(0, 4, 0.1), losses);
  return total(losses);
}

TEST_P(EachKind, GradientsEqualFiniteDifferencesOfTheLoss) {
  SmallGpt small(GetParam(), DType::f64);
  small.train(4, 0.1);
  double* weight = small.master.as<double>();
  for (const Parameter& parameter : small.table.parameters()) {
    if (!parameter.tied_to.empty()) continue;
    for (const std::int64_t j : {std::int64_t{0}, parameter.shape.elements() / 2, parameter.shape.elements() - 1}) {
      const std::int64_t at = parameter.offset + j;
      const double analytic = small.gradient.as<double>()[at];
      const double kept = weight[at];
      const double step = 1e-5;
      weight[at] = kept + step;
      const double above = loss(small);
      weight[at] = kept - step;
      const double below = loss(small);
      weight[at] = kept;
      EXPECT_NEAR(analytic, (above - below) / (2 * step), 1e-6 * std::max(1.0, std::abs(analytic)))
          << parameter.name << " " << j;
    }
  }
}

TEST_P(EachKind, RecomputationGivesTheSameBits) {
  for (const DType compute : {DType::f64, DType::f32, DType::bf16}) {
    SmallGpt kept(GetParam(), compute);
    const auto expected = kept.train(2, 0.1);
    for (const Recompute mode : {Recompute::selective, Recompute::full}) {
      SmallGpt again(GetParam(), compute, mode);
      EXPECT_EQ(again.train(2, 0.1), expected);
      EXPECT_TRUE(same_bytes(again.gradient, kept.gradient));
      EXPECT_LT(again.gpt->activation_bytes(), kept.gpt->activation_bytes());
    }
    SmallGpt without_dropout(GetParam(), compute);
    EXPECT_NE(without_dropout.train(2), expected) << "the comparison above must be able to fail";
    EXPECT_FALSE(same_bytes(without_dropout.gradient, kept.gradient));
  }
}

TEST_P(EachKind, MicroBatchesAddUpToOneBatch) {
  SmallGpt whole(GetParam(), DType::f64);
  const double expected = total(whole.train(4, 0.1));
  for (const std::int64_t micro : {1, 2}) {
    SmallGpt parts(GetParam(), DType::f64);
    EXPECT_NEAR(total(parts.train(micro, 0.1)), expected, 1e-12 * expected);
    for (std::int64_t i = 0; i < whole.table.flat_elements(); ++i)
      ASSERT_NEAR(parts.gradient.as<double>()[i], whole.gradient.as<double>()[i], 1e-12) << i;
  }
}

TEST_P(EachKind, LowerPrecisionsStayNearFp64) {
  SmallGpt exact(GetParam(), DType::f64);
  const double expected = total(exact.train(4));
  SmallGpt fp32(GetParam(), DType::f32);
  EXPECT_NEAR(total(fp32.train(4)), expected, 1e-5 * expected);
  SmallGpt bf16(GetParam(), DType::bf16);
  EXPECT_NEAR(total(bf16.train(4)), expected, 2e-2 * expected);
}

TEST_P(EachKind, EvaluationGivesTheLossOfTraining) {
  SmallGpt small(GetParam(), DType::f32);
  std::vector<double> evaluated(4);
  small.gpt->evaluate(small.batch(0, 4), evaluated);
  EXPECT_EQ(evaluated, small.train(4));
}

TEST_P(EachKind, TargetsThatAreNotCountedDoNotMatter) {
  SmallGpt small(GetParam(), DType::f64);
  std::fill(small.targets.begin(), small.targets.end(), -1);
  EXPECT_EQ(total(small.train(4)), 0);
  for (std::int64_t i = 0; i < small.table.flat_elements(); ++i) ASSERT_EQ(small.gradient.as<double>()[i], 0) << i;
}

TEST_P(EachKind, GeneratorSeesWhatTheWholeForwardPassSees) {
  SmallGpt small(GetParam(), DType::f64);
  std::vector<double> logits(static_cast<std::size_t>(small.config.sequence_length * small.gpt->columns()));
  small.gpt->logits(small.batch(0, 1), core::view(logits.data(), {small.config.sequence_length, small.gpt->columns()}));
  Generator generator(*small.gpt, small.config.vocab_size);
  for (std::int64_t length = 1; length <= small.config.sequence_length; ++length) {
    generator.start(std::span(small.tokens).first(static_cast<std::size_t>(length)), {});
    for (std::int64_t id = 0; id < small.config.vocab_size; ++id)
      ASSERT_NEAR(generator.next_logits()[static_cast<std::size_t>(id)],
                  logits[static_cast<std::size_t>((length - 1) * small.gpt->columns() + id)], 1e-5);
  }
}

TEST_P(EachKind, GenerationGoesOnPastTheContext) {
  SmallGpt small(GetParam(), DType::f32);
  Generator generator(*small.gpt, small.config.vocab_size);
  generator.start(std::span(small.tokens).first(3), {.seed = 7});
  std::vector<std::int32_t> first, second;
  for (int i = 0; i < 40; ++i) first.push_back(generator.next());
  generator.start(std::span(small.tokens).first(3), {.seed = 7});
  for (int i = 0; i < 40; ++i) second.push_back(generator.next());
  EXPECT_EQ(first, second);
}

TEST(DocumentMask, HidesTheFirstDocumentFromTheSecond) {
  for (const bool llama : {false, true}) {
    SmallGpt small(llama, DType::f64);
    const std::int64_t s = small.config.sequence_length;
    std::vector<std::int32_t> start(static_cast<std::size_t>(s), 0);
    std::fill(start.begin() + 6, start.end(), 6);
    const auto logits = [&](bool masked) {
      std::vector<double> out(static_cast<std::size_t>(s * small.gpt->columns()));
      MicroBatch batch = small.batch(0, 1);
      if (masked) batch.ids.document_start = start.data();
      small.gpt->logits(batch, core::view(out.data(), {s, small.gpt->columns()}));
      return std::vector<double>(out.begin() + 6 * small.gpt->columns(), out.end());
    };
    const auto before = logits(true);
    const auto open_before = logits(false);
    for (int i = 0; i < 6; ++i) small.tokens[static_cast<std::size_t>(i)] = 1;
    EXPECT_EQ(logits(true), before);
    EXPECT_NE(logits(false), open_before) << "without the mask the first document must matter";
  }
}

TEST(SampleToken, FollowsTemperatureAndTruncation) {
  const std::vector<float> logits{0.f, 2.f, 1.f, -1.f};
  EXPECT_EQ(sample_token(logits, {.temperature = 0}, 0.99), 1);
  EXPECT_EQ(sample_token(logits, {.top_k = 1}, 0.99), 1);
  EXPECT_EQ(sample_token(logits, {.top_p = 0.1}, 0.99), 1);
  EXPECT_EQ(sample_token(logits, {.top_k = 2}, 0.99), 2);
  EXPECT_EQ(sample_token(logits, {}, 0.9999), 3);
  // e^2 / (1 + e^2 + e + 1/e) = 0.6439
  EXPECT_EQ(sample_token(logits, {}, 0.643), 1);
  EXPECT_EQ(sample_token(logits, {}, 0.645), 2);
}

}  // namespace trireme::model
