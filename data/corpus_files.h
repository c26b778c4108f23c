#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trireme::data {

/// What a corpus path stands for.
struct CorpusFiles {
  std::string format;                        ///< indexed, llmc or raw-u16
  std::string prefix;                        ///< indexed
  std::vector<std::filesystem::path> files;  ///< else, in byte order of their names
};

/// Finds the files of `path` and recognises their format. Throws Error(bad_data) starting with `key` where nothing is
/// there.
CorpusFiles find_corpus(const std::string& path, const std::string& format, const std::string& key);

/// Raises this process's limit of open files as far as the system allows, if `count` files of `path` may need that.
/// Throws Error(machine) where it is not enough.
void allow_open_files(std::size_t count, const std::string& path);

}  // namespace trireme::data
