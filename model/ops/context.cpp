#include "model/ops/context.h"

#include "model/ops/product_state.h"

namespace trireme::model {

Products::Products() : state_(std::make_unique<State>()) {}
Products::~Products() = default;
Products::Products(Products&&) noexcept = default;
Products& Products::operator=(Products&&) noexcept = default;

}  // namespace trireme::model
