#include "model/ops/product_library.h"

#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <tuple>

#include "core/parallel_for.h"

namespace trireme::model {

namespace {

using dnnl::memory;

memory::data_type type_of(core::DType dtype) {
  return dtype == core::DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

memory::desc matrix(std::int64_t rows, std::int64_t columns, const Operand& operand) {
  return {{rows, columns}, type_of(operand.dtype), memory::dims{operand.row_stride, operand.column_stride}};
}

/// The interface changed between versions 2 and 3.
dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const PackedProduct& p,
                                      const dnnl::primitive_attr& attributes) {
  const memory::desc a = matrix(p.m, p.k, p.a), b = matrix(p.k, p.n, p.b);
  const memory::desc c = matrix(p.m, p.n, {p.c, p.c_dtype, p.c_pitch, 1});
  const memory::desc bias = p.bias ? memory::desc({1, p.n}, type_of(p.a.dtype), memory::dims{p.n, 1}) : memory::desc();
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, bias, c, attributes};
#else
  return {dnnl::matmul::desc(a, b, bias, c), attributes, engine};
#endif
}

using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                       std::int64_t, core::DType, core::DType, bool, bool>;
Key key_of(const PackedProduct& p) {
  return {p.m,       p.n,       p.k,       p.a.row_stride, p.a.column_stride, p.b.row_stride, p.b.column_stride,
          p.c_pitch, p.a.dtype, p.c_dtype, p.add,          p.bias != nullptr};
}

/// sums [m] += sums over k of a [m, k] (m side by side in memory), k upwards.
template <class T>
void add_row_sums(const PackedProduct& p) {
  constexpr std::int64_t kRows = 64;
  const T* a = static_cast<const T*>(p.a.data);
  float* sums = static_cast<float*>(p.row_sums);
  core::parallel_for((p.m + kRows - 1) / kRows, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t last = std::min(p.m, end * kRows);
    for (std::int64_t k = 0; k < p.k; ++k)
      for (std::int64_t i = begin * kRows; i < last; ++i)
        sums[i] += float(a[i * p.a.row_stride + k * p.a.column_stride]);
  });
}

bool has(dnnl::cpu_isa wanted) {
  const auto bits = static_cast<unsigned>(wanted);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

}  // namespace

struct ProductLibrary::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  struct Prepared {
    dnnl::matmul::primitive_desc description;
    dnnl::matmul primitive;
  };
  std::map<Key, std::optional<Prepared>> prepared;

  const std::optional<Prepared>& prepare(const PackedProduct& product) {
    const auto [at, fresh] = prepared.try_emplace(key_of(product));
    if (!fresh) return at->second;
    dnnl::primitive_attr attributes;
    dnnl::post_ops after;
    if (product.add) after.append_sum(1.0f);
    attributes.set_post_ops(after);
    try {
      const dnnl::matmul::primitive_desc description = describe(engine, product, attributes);
      at->second = Prepared{description, dnnl::matmul(description)};
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented)
        core::fail(core::ExitCode::machine, "oneDNN: {} (product {} x {} x {})", error.what(), product.m, product.n,
                   product.k);
    }
    return at->second;
  }
};

ProductLibrary::ProductLibrary() : state_(std::make_unique<State>()) {}
ProductLibrary::~ProductLibrary() = default;
ProductLibrary::ProductLibrary(ProductLibrary&&) noexcept = default;
ProductLibrary& ProductLibrary::operator=(ProductLibrary&&) noexcept = default;

bool ProductLibrary::preferred(core::DType dtype) {
  if (dtype != core::DType::bf16) return false;
  // Intel's AVX512-BF16 alone multiplies at half the rate of fp32, AMD's at twice.
  return has(dnnl::cpu_isa::avx512_core_amx) || (__builtin_cpu_is("amd") && has(dnnl::cpu_isa::avx512_core_bf16));
}

bool ProductLibrary::multiply(const PackedProduct& product) {
  if (product.a.dtype == core::DType::f64) return false;
  const auto& prepared = state_->prepare(product);
  if (!prepared) return false;
  const auto at = [&](const memory::desc& description, const void* data) {
    return memory(description, state_->engine, const_cast<void*>(data));
  };
  const auto& description = prepared->description;
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, at(description.src_desc(), product.a.data)},
                                            {DNNL_ARG_WEIGHTS, at(description.weights_desc(), product.b.data)},
                                            {DNNL_ARG_DST, at(description.dst_desc(), product.c)}};
  if (product.bias) arguments.emplace(DNNL_ARG_BIAS, at(description.bias_desc(), product.bias));
  try {
    prepared->primitive.execute(state_->stream, arguments);
    state_->stream.wait();
  } catch (const dnnl::error& error) {
    core::fail(core::ExitCode::machine, "oneDNN: {} (product {} x {} x {})", error.what(), product.m, product.n,
               product.k);
  }
  if (product.row_sums)
    product.a.dtype == core::DType::bf16 ? add_row_sums<core::bf16>(product) : add_row_sums<float>(product);
  return true;
}

}  // namespace trireme::model
