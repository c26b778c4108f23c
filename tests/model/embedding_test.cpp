#include "model/ops/embedding.h"

#include "tests/model/operator_values.h"

namespace trireme::model {
namespace {

using core::Tensor;
using core::view;

/// 3 samples of 7 tokens, 11 different ones at most, so that ids repeat within and between samples.
template <class T>
struct Embedding {
  using S = core::accumulate_t<T>;
  static constexpr std::int64_t kSamples = 3, kLength = 7, kIds = 11, kPositions = 9;
  std::int64_t h;
  std::vector<std::int32_t> tokens, starts;
  std::vector<T> token_weight, position_weight, out, dout;
  std::vector<S> dtoken, dposition;
  Dropout dropout;
  bool positions = true;

  explicit Embedding(std::int64_t h_) : h(h_) {
    for (std::int32_t i = 0; i < kSamples * kLength; ++i) tokens.push_back(i * i % kIds);
    token_weight = random_values<T>(kIds * h, 1, 2), position_weight = random_values<T>(kPositions * h, 2, 2);
    out.resize(static_cast<std::size_t>(kSamples * kLength * h));
    dout = random_values<T>(kSamples * kLength * h, 3);
    dtoken = random_values<S>(kIds * h, 4), dposition = random_values<S>(kPositions * h, 5);
  }
  TokenIds ids() const { return {kSamples, kLength, tokens.data(), starts.empty() ? nullptr : starts.data()}; }
  Tensor hidden(std::vector<T>& values) { return view(values.data(), {kLength, kSamples, h}); }
  void forward() {
    embedding_forward(ids(), view(token_weight.data(), {kIds, h}),
                      positions ? view(position_weight.data(), {kPositions, h}) : Tensor(), dropout, hidden(out));
  }
  void backward() {
    embedding_backward(ids(), hidden(dout), dropout, view(dtoken.data(), {kIds, h}),
                       positions ? view(dposition.data(), {kPositions, h}) : Tensor());
  }
  /// Calls element(index in [s, b, h], index in the token table, index in the position table, factor).
  template <class Element>
  void for_each(const Element& element) const {
    for (std::int64_t s = 0; s < kLength; ++s)
      for (std::int64_t b = 0; b < kSamples; ++b)
        for (std::int64_t i = 0; i < h; ++i) {
          const std::int64_t token = tokens[static_cast<std::size_t>(b * kLength + s)];
          const std::int64_t position = s - (starts.empty() ? 0 : starts[static_cast<std::size_t>(b * kLength + s)]);
          const auto words = dropout.words(static_cast<std::uint32_t>(i / 4), static_cast<std::uint32_t>(s), b);
          const bool dropped = dropout.active() && words[static_cast<std::size_t>(i % 4)] < dropout.threshold();
          element(static_cast<std::size_t>((s * kSamples + b) * h + i), static_cast<std::size_t>(token * h + i),
                  static_cast<std::size_t>(position * h + i), dropped ? 0 : 1 / (1 - dropout.rate));
        }
  }
};

template <class T>
std::vector<Embedding<T>> cases() {
  std::vector<Embedding<T>> all;
  for (const std::int64_t h : {1, 5, 33, 768, 1000})
    for (const bool documents : {false, true})
      for (const double rate : {0.0, 0.3}) {
        Embedding<T> embedding(h);
        if (documents) embedding.starts = {0, 0, 0, 3, 3, 3, 6, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 6};
        embedding.dropout = {.rate = rate, .seed = 77, .first_position = 5};
        embedding.positions = h != 33;
        all.push_back(embedding);
      }
  return all;
}

template <class T>
class EmbeddingOf : public ::testing::Test {};
TYPED_TEST_SUITE(EmbeddingOf, ComputeTypes);

TYPED_TEST(EmbeddingOf, ForwardAddsTokenAndPosition) {
  using T = TypeParam;
  for (Embedding<T>& embedding : cases<T>()) {
    std::vector<double> expected(embedding.out.size());
    embedding.for_each([&](std::size_t at, std::size_t token, std::size_t position, double factor) {
      const double place = embedding.positions ? static_cast<double>(embedding.position_weight[position]) : 0;
      expected[at] = (static_cast<double>(embedding.token_weight[token]) + place) * factor;
    });
    embedding.forward();
    expect_near(embedding.out, expected, kTolerance<T>);
  }
}

TYPED_TEST(EmbeddingOf, BackwardAddsUpRepeatedTokens) {
  using T = TypeParam;
  for (Embedding<T>& embedding : cases<T>()) {
    std::vector<double> dtoken = doubles(embedding.dtoken), dposition = doubles(embedding.dposition);
    embedding.for_each([&](std::size_t at, std::size_t token, std::size_t position, double factor) {
      const double d = static_cast<double>(of<T>(static_cast<double>(embedding.dout[at]) * factor));
      dtoken[token] += d;
      if (embedding.positions) dposition[position] += d;
    });
    embedding.backward();
    const double tolerance = std::is_same_v<T, core::bf16> ? 1e-2 : kTolerance<T>;
    expect_near(embedding.dtoken, dtoken, embedding.dropout.active() ? tolerance : kTolerance<core::accumulate_t<T>>);
    expect_near(embedding.dposition, dposition, tolerance);
  }
}

TYPED_TEST(EmbeddingOf, ThreadsDoNotChangeBits) {
  using T = TypeParam;
  for (const double rate : {0.0, 0.3}) {
    EXPECT_TRUE(same_for_all_threads([&] {
      Embedding<T> embedding(3001);
      embedding.dropout.rate = rate;
      embedding.forward();
      return embedding.out;
    }));
    EXPECT_TRUE(same_for_all_threads([&] {
      Embedding<T> embedding(3001);
      embedding.dropout.rate = rate;
      embedding.backward();
      embedding.dtoken.insert(embedding.dtoken.end(), embedding.dposition.begin(), embedding.dposition.end());
      return embedding.dtoken;
    }));
  }
}

TEST(Embedding, NanReachesTheTokensThatUseItsRow) {
  Embedding<float> embedding(5);
  embedding.token_weight[4 * 5 + 2] = kNan;
  embedding.forward();
  embedding.for_each([&](std::size_t at, std::size_t token, std::size_t, double) {
    EXPECT_EQ(std::isnan(embedding.out[at]), token == 4 * 5 + 2);
  });
}

TEST(Embedding, RefusesIdsOutsideTheTable) {
  for (const std::int32_t id : {11, -1, 65535}) {
    Embedding<float> embedding(5);
    embedding.tokens[20] = id;
    EXPECT_THROW(embedding.forward(), core::Error) << id;
    EXPECT_THROW(embedding.backward(), core::Error) << id;
  }
}

}  // namespace
}  // namespace trireme::model
