#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "train/huggingface/safetensors.h"

namespace trireme::train {

/// The weights of a Hugging Face directory: model.safetensors, or the shards that model.safetensors.index.json names.
/// Everything about names and places is checked on opening. Throws Error(bad_data).
class ModelFiles {
 public:
  struct Place {
    const SafetensorsFile* file = nullptr;
    const SafeTensor* tensor = nullptr;
    explicit operator bool() const { return tensor != nullptr; }
  };

  explicit ModelFiles(const std::filesystem::path& directory);
  Place find(const std::string& name) const;  ///< empty when there is none
  const std::map<std::string, Place>& tensors() const { return tensors_; }

 private:
  void open_shards(const std::filesystem::path& index);
  void add(const SafetensorsFile& file);
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place> tensors_;
};

}  // namespace trireme::train
