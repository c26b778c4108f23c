#pragma once

#include "model/ops/context.h"
#include "model/ops/product_library.h"
#include "model/ops/product_packed.h"

namespace trireme::model {

struct Products::State {
  PackedWorkspace workspace;
  ProductLibrary library;

  void multiply(const PackedProduct& product) {
    if (ProductLibrary::preferred(product.a.dtype) && library.multiply(product)) return;
    multiply_packed(workspace, product);
  }
};

}  // namespace trireme::model
