#include <atomic>

#include "core/parallel_for.h"
#include "model/ops/product_packed.h"
#include "model/ops/product_tile.h"

namespace trireme::model {

namespace {

constexpr std::int64_t kDepth = 384;  // steps of k summed in registers: a panel of b nearly stays in the first cache
constexpr std::int64_t kLongDepth = 11 * kDepth;  // steps of k packed at a time
constexpr std::int64_t kSharedBytes = 12 << 20;   // packed part of b
constexpr std::int64_t kSideBySide = 8;           // panels packed at once: long runs, few cache lines of one set
constexpr std::int64_t kBlockPanels = 16;         // row panels of a that stay in the second cache

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Calls body with a value of the element type: double where sums are double, else float or bf16.
template <class S, class Body>
void with_element(core::DType dtype, const Body& body) {
  if constexpr (std::is_same_v<S, double>)
    body(double());
  else if (dtype == core::DType::bf16)
    body(core::bf16());
  else
    body(float());
}

/// Part of the product that is packed at a time: columns [n0, n0 + n), depth [k0, k0 + k).
struct Part {
  std::int64_t n0 = 0, n = 0, k0 = 0, k = 0;
  bool first = true, last = true;  ///< of the parts along k
};

template <class S>
class Multiplication {
 public:
  Multiplication(PackedWorkspace& workspace, const PackedProduct& product) : p_(product), workspace_(workspace) {
    part_depth_ = std::min(p_.k, kLongDepth);
    const std::int64_t fitting = kSharedBytes / (part_depth_ * std::int64_t{sizeof(S)}) / kColumns * kColumns;
    part_columns_ = std::min(divide_up(p_.n, kColumns) * kColumns, std::max<std::int64_t>(fitting, kColumns));
    const std::int64_t threads = core::thread_count();
    const std::int64_t panels = divide_up(p_.m, kTileRows);
    const std::int64_t blocks = divide_up(panels, kBlockPanels);
    block_panels_ = divide_up(panels, blocks < 4 * threads ? divide_up(blocks, threads) * threads : blocks);
    row_blocks_ = divide_up(panels, block_panels_);
  }

  void run() {
    for (std::int64_t n0 = 0; n0 < p_.n; n0 += part_columns_)
      for (std::int64_t k0 = 0; k0 < p_.k; k0 += part_depth_)
        run_part({n0, std::min(part_columns_, p_.n - n0), k0, std::min(part_depth_, p_.k - k0), k0 == 0,
                  k0 + part_depth_ >= p_.k});
  }

 private:
  static constexpr int kColumns = kTileColumns<S>;

  void run_part(const Part& part);
  void pack_b(const Part& part, S* to) const;
  void pack_a(std::int64_t row, std::int64_t rows, std::int64_t k0, std::int64_t depth, S* to) const;
  void add_row_sums(std::int64_t row, std::int64_t rows, std::int64_t depth, const S* packed) const;
  void multiply_block(const Part& part, std::int64_t block, const S* b, S* a, S* c) const;
  void multiply_panels(const S* a, const S* b, std::int64_t panels, std::int64_t depth, std::int64_t n, S* c,
                       bool add) const;
  template <class T>
  void finish(const Part& part, std::int64_t row, std::int64_t rows, const S* c) const;

  bool a_by_rows() const { return p_.a.row_stride != 1; }

  const PackedProduct& p_;
  PackedWorkspace& workspace_;
  std::int64_t part_depth_ = 0, part_columns_ = 0, block_panels_ = 0, row_blocks_ = 0;
};

template <class S>
void Multiplication<S>::pack_b(const Part& part, S* to) const {
  const std::int64_t panels = divide_up(part.n, kColumns), steps = divide_up(part.k, kDepth);
  const std::int64_t groups = divide_up(panels, kSideBySide);
  core::parallel_for(groups * steps, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t first = item % groups * kSideBySide, k = item / groups * kDepth;
      const std::int64_t depth = std::min(kDepth, part.k - k), stride = depth * kColumns;
      const std::int64_t columns = std::min(kSideBySide * kColumns, part.n - first * kColumns);
      S* panel = to + k * panels * kColumns + first * stride;
      with_element<S>(p_.b.dtype, [&]<class T>(T) {
        const T* from = static_cast<const T*>(p_.b.data) + (part.k0 + k) * p_.b.row_stride +
                        (part.n0 + first * kColumns) * p_.b.column_stride;
        if (p_.b.column_stride == 1) return pack_rows<kColumns>(from, p_.b.row_stride, columns, depth, panel, stride);
        for (std::int64_t c = 0; c < columns; c += kColumns, panel += stride)
          pack_transposed(from + c * p_.b.column_stride, p_.b.column_stride,
                          static_cast<int>(std::min<std::int64_t>(kColumns, columns - c)), depth, panel);
      });
    }
  });
}

template <class S>
void Multiplication<S>::pack_a(std::int64_t row, std::int64_t rows, std::int64_t k0, std::int64_t depth, S* to) const {
  with_element<S>(p_.a.dtype, [&]<class T>(T) {
    const T* from = static_cast<const T*>(p_.a.data) + row * p_.a.row_stride + k0 * p_.a.column_stride;
    if (!a_by_rows()) {
      constexpr std::int64_t kGroup = kSideBySide * kTileRows;
      for (std::int64_t r = 0; r < rows; r += kGroup)
        pack_rows<kTileRows>(from + r, p_.a.column_stride, std::min(kGroup, rows - r), depth, to + r * kDepth,
                             kTileRows * kDepth);
      return;
    }
    for (std::int64_t r = 0; r < divide_up(rows, kTileRows) * kTileRows; ++r)
      if (r < rows)
        widen(from + r * p_.a.row_stride, depth, to + r * kDepth);
      else
        std::fill_n(to + r * kDepth, depth, S(0));
  });
}

template <class S>
void Multiplication<S>::add_row_sums(std::int64_t row, std::int64_t rows, std::int64_t depth, const S* packed) const {
  S* to = static_cast<S*>(p_.row_sums) + row;
  for (std::int64_t r = 0; r < rows; r += kTileRows, packed += kTileRows * kDepth) {
    S sums[4][kTileRows] = {};
    for (std::int64_t k = 0; k < depth; ++k)
      for (int i = 0; i < kTileRows; ++i) sums[k % 4][i] += packed[k * kTileRows + i];
    const int some = static_cast<int>(std::min<std::int64_t>(kTileRows, rows - r));
    for (int i = 0; i < some; ++i) to[r + i] += (sums[0][i] + sums[1][i]) + (sums[2][i] + sums[3][i]);
  }
}

template <class S>
void Multiplication<S>::multiply_panels(const S* a, const S* b, std::int64_t panels, std::int64_t depth, std::int64_t n,
                                        S* c, bool add) const {
  const std::int64_t pitch = divide_up(n, kColumns) * kColumns;
  // While one panel of b is multiplied, the next one is brought near, a part with each tile.
  const std::int64_t part = divide_up(depth * kColumns * std::int64_t{sizeof(S)}, panels);
  const int each = static_cast<int>(divide_up(part, kTileRows));
  for (std::int64_t column = 0; column < n; column += kColumns, b += depth * kColumns)
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      const S* rows = a + panel * kTileRows * kDepth;
      S* to = c + panel * kTileRows * pitch + column;
      const Ahead next{reinterpret_cast<const char*>(b + depth * kColumns) + panel * part, each};
      if (a_by_rows())
        multiply_tile<kDepth, 1>(rows, b, depth, to, pitch, add, next);
      else
        multiply_tile<1, kTileRows>(rows, b, depth, to, pitch, add, next);
    }
}

template <class S>
template <class T>
void Multiplication<S>::finish(const Part& part, std::int64_t row, std::int64_t rows, const S* c) const {
  const std::int64_t pitch = divide_up(part.n, kColumns) * kColumns;
  T* to = static_cast<T*>(p_.c) + row * p_.c_pitch + part.n0;
  for (std::int64_t r = 0; r < rows; ++r, to += p_.c_pitch, c += pitch) {
    if (p_.add)
      for (std::int64_t i = 0; i < part.n; ++i) to[i] = T(S(to[i]) + c[i]);
    else if (p_.bias)
      with_element<S>(p_.a.dtype, [&]<class B>(B) {
        const B* bias = static_cast<const B*>(p_.bias) + part.n0;
        for (std::int64_t i = 0; i < part.n; ++i) to[i] = T(c[i] + S(bias[i]));
      });
    else
      for (std::int64_t i = 0; i < part.n; ++i) to[i] = T(c[i]);
  }
}

template <class S>
void Multiplication<S>::multiply_block(const Part& part, std::int64_t block, const S* b, S* a, S* c) const {
  const std::int64_t row = block * block_panels_ * kTileRows;
  const std::int64_t rows = std::min(block_panels_ * kTileRows, p_.m - row);
  const std::int64_t panels = divide_up(rows, kTileRows);
  const std::int64_t width = divide_up(part.n, kColumns) * kColumns;
  for (std::int64_t k = 0; k < part.k; k += kDepth) {
    const std::int64_t depth = std::min(kDepth, part.k - k);
    pack_a(row, rows, part.k0 + k, depth, a);
    if (p_.row_sums && part.n0 == 0) add_row_sums(row, rows, depth, a);
    multiply_panels(a, b + k * width, panels, depth, part.n, c, k > 0 || !part.first);
  }
  if (part.last) with_element<S>(p_.c_dtype, [&]<class T>(T) { finish<T>(part, row, rows, c); });
}

template <class S>
void Multiplication<S>::run_part(const Part& part) {
  const auto threads = static_cast<std::size_t>(core::thread_count());
  const std::int64_t width = divide_up(part.n, kColumns) * kColumns;
  const std::int64_t block_rows = block_panels_ * kTileRows;
  // Sums that wait for the next part along k are kept for all rows, others only for the block at hand.
  const bool partial = !(part.first && part.last);
  const std::int64_t kept = partial ? row_blocks_ * block_rows * width : 0;
  const std::int64_t a_elements = block_rows * kDepth;
  S* b = static_cast<S*>(workspace_.shared(static_cast<std::size_t>(part.k * width) * sizeof(S)));
  S* sums = static_cast<S*>(workspace_.sums(static_cast<std::size_t>(kept) * sizeof(S)));
  for (std::size_t i = 0; i < threads; ++i)
    workspace_.own(i, threads, static_cast<std::size_t>(a_elements + (partial ? 0 : block_rows * width)) * sizeof(S));
  pack_b(part, b);
  std::atomic<std::int64_t> next = 0;
  core::parallel_for(static_cast<std::int64_t>(threads), 1, [&](std::int64_t thread, std::int64_t) {
    S* a = static_cast<S*>(workspace_.own(static_cast<std::size_t>(thread), threads, 0));
    for (std::int64_t block = next++; block < row_blocks_; block = next++)
      multiply_block(part, block, b, a, partial ? sums + block * block_rows * width : a + a_elements);
  });
}

}  // namespace

void* PackedWorkspace::shared(std::size_t bytes) {
  if (bytes > shared_.bytes()) shared_ = core::Buffer(bytes, "packed operands of products");
  return shared_.data();
}

void* PackedWorkspace::sums(std::size_t bytes) {
  if (bytes > sums_.bytes()) sums_ = core::Buffer(bytes, "partial sums of products");
  return sums_.data();
}

void* PackedWorkspace::own(std::size_t thread, std::size_t threads, std::size_t bytes) {
  if (own_.size() < threads) own_.resize(threads);
  if (bytes > own_[thread].bytes()) own_[thread] = core::Buffer(bytes, "blocks of products");
  return own_[thread].data();
}

void multiply_packed(PackedWorkspace& workspace, const PackedProduct& product) {
  core::check(product.m > 0 && product.n > 0 && product.k > 0, "empty product {} x {} x {}", product.m, product.n,
              product.k);
  if (product.a.dtype == core::DType::f64)
    Multiplication<double>(workspace, product).run();
  else
    Multiplication<float>(workspace, product).run();
}

}  // namespace trireme::model
