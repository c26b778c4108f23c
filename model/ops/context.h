#pragma once

#include <memory>

#include "core/memory.h"
#include "core/profile.h"

namespace trireme::model {

/// Matrix products with their library handles and a cache of prepared kernels by shape (see product.h).
class Products {
 public:
  Products();
  ~Products();
  Products(Products&&) noexcept;
  Products& operator=(Products&&) noexcept;
  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/// What an operator needs besides its tensors. One per process and device; operators are called from one thread and
/// use all of `core::thread_count()` inside.
struct Context {
  Products products;
  core::Profile profile;
};

}  // namespace trireme::model
