#pragma once

#include <string>

namespace trireme::train {

/// A small file that travels with the weights byte for byte: tokenizer, Hugging Face configuration.
struct SideFile {
  std::string name;  ///< bare file name
  std::string content;
};

}  // namespace trireme::train
