#pragma once

#include "model/ops/context.h"
#include "model/ops/product_packed.h"

namespace trireme::model {

struct Products::State {
  PackedWorkspace workspace;
};

}  // namespace trireme::model
