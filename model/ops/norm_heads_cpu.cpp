#include "model/ops/norm.h"
#include "model/ops/norm_rows.h"

namespace trireme::model {

namespace {

using core::Tensor;
constexpr std::int64_t kGrain = 8192;  // elements worth a thread

/// Where the normed heads of a token lie: the first a + g of a row of a + 2g.
struct HeadRows {
  explicit HeadRows(const HeadNorm& n) : heads(n.a + n.g), queries(n.a), d(n.d), pitch((n.a + 2 * n.g) * n.d) {}
  std::int64_t heads, queries, d, pitch;
};

template <class T>
void forward(const HeadNorm& norm, const Tensor& qkv, const Tensor& raw, const Tensor& rstd) {
  using S = core::accumulate_t<T>;
  const HeadRows rows(norm);
  const auto eps = static_cast<S>(norm.eps);
  const NormRow<T> query{norm.d, eps, norm.query_weight.as<T>(), nullptr};
  const NormRow<T> key{norm.d, eps, norm.key_weight.as<T>(), nullptr};
  T* const values = qkv.as<T>();
  T* const kept = raw.as<T>();
  S* const scales = rstd.as<S>();
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / rows.pitch);
  core::parallel_for(qkv.elements() / rows.pitch, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t)
      for (std::int64_t head = 0; head < rows.heads; ++head) {
        T* x = values + t * rows.pitch + head * rows.d;
        T* before = kept + (t * rows.heads + head) * rows.d;
        std::copy_n(x, rows.d, before);
        (head < rows.queries ? query : key).forward(before, x, nullptr, scales + t * rows.heads + head);
      }
  });
}

template <class T>
void backward(const HeadNorm& norm, const Tensor& raw, const Tensor& rstd, const Tensor& dqkv, const Tensor& dquery,
              const Tensor& dkey) {
  using S = core::accumulate_t<T>;
  const HeadRows rows(norm);
  const T* const query_weight = norm.query_weight.as<T>();
  const T* const key_weight = norm.key_weight.as<T>();
  const T* const before = raw.as<T>();
  const S* const scales = rstd.as<S>();
  T* const gradient = dqkv.as<T>();
  const RowSums<S> sums(dqkv.elements() / rows.pitch, 2 * rows.d);
  sums.run([=](std::int64_t begin, std::int64_t end, S* own) {
    const NormBackwardRow<T, false, false> query{rows.d, query_weight, own, nullptr};
    const NormBackwardRow<T, false, false> key{rows.d, key_weight, own + rows.d, nullptr};
    for (std::int64_t t = begin; t < end; ++t)
      for (std::int64_t head = 0; head < rows.heads; ++head) {
        T* d = gradient + t * rows.pitch + head * rows.d;
        const std::int64_t at = t * rows.heads + head;
        (head < rows.queries ? query : key).run(before + at * rows.d, d, nullptr, d, S(0), scales[at]);
      }
  });
  sums.add_to(dquery.as<S>(), 0, rows.d);
  sums.add_to(dkey.as<S>(), rows.d, rows.d);
}

void check_heads(const HeadNorm& norm, const Tensor& qkv, const Tensor& raw, const Tensor& rstd) {
  const HeadRows rows(norm);
  const std::int64_t tokens = rstd.elements() / std::max<std::int64_t>(1, rows.heads);
  core::check(norm.d > 0 && norm.query_weight.elements() == norm.d && norm.key_weight.elements() == norm.d &&
                  qkv.elements() == tokens * rows.pitch && raw.elements() == tokens * rows.heads * norm.d &&
                  rstd.elements() == tokens * rows.heads,
              "QK-norm: {} with raw {} and statistics {}", qkv.shape.text(), raw.shape.text(), rstd.shape.text());
}

}  // namespace

void head_norm_forward(const HeadNorm& norm, const Tensor& qkv, const Tensor& raw, const Tensor& rstd) {
  check_heads(norm, qkv, raw, rstd);
  with_type(qkv.dtype, [&](auto type) { forward<decltype(type)>(norm, qkv, raw, rstd); });
}

void head_norm_backward(const HeadNorm& norm, const Tensor& raw, const Tensor& rstd, const Tensor& dqkv,
                        const Tensor& dquery_weight, const Tensor& dkey_weight) {
  check_heads(norm, dqkv, raw, rstd);
  core::check(dquery_weight.elements() == norm.d && dkey_weight.elements() == norm.d,
              "QK-norm: weight gradients {} and {}", dquery_weight.shape.text(), dkey_weight.shape.text());
  with_type(dqkv.dtype,
            [&](auto type) { backward<decltype(type)>(norm, raw, rstd, dqkv, dquery_weight, dkey_weight); });
}

}  // namespace trireme::model
