#pragma once

#include <cstdint>

namespace trireme::data {

/// Calls of operator new in this program so far.
std::int64_t allocation_count();

}  // namespace trireme::data
