#pragma once

#include <string>

namespace trireme::tools {

/// Program, compiler and library versions, a line each.
std::string version_text();

}  // namespace trireme::tools
