#pragma once

#include <memory>

#include "model/ops/product_packed.h"

namespace trireme::model {

/// Products by oneDNN, for processors whose matrix units or bf16 instructions it can use.
class ProductLibrary {
 public:
  ProductLibrary();
  ~ProductLibrary();
  ProductLibrary(ProductLibrary&&) noexcept;
  ProductLibrary& operator=(ProductLibrary&&) noexcept;

  /// Whether it multiplies `dtype` faster than `multiply_packed` on this processor: a matter of its instructions, not
  /// of a measurement, so that every run takes the same way.
  static bool preferred(core::DType dtype);

  /// False when oneDNN cannot form this product; nothing has been written then.
  bool multiply(const PackedProduct& product);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::model
