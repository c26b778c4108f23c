#include "data/corpus_files.h"

#include <glob.h>

#include <algorithm>
#include <cstring>

#include "core/file.h"
#include "data/llmc_format.h"

namespace trireme::data {

namespace fs = std::filesystem;
using core::ExitCode;

namespace {

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::vector<fs::path> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<fs::path> files;
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
    for (std::size_t i = 0; i < found.gl_pathc; ++i)
      if (fs::is_regular_file(found.gl_pathv[i])) files.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  return files;
}

std::vector<fs::path> list_files(const std::string& path) {
  std::vector<fs::path> files;
  if (fs::is_directory(path)) {
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.is_regular_file() && entry.path().extension() == ".bin") files.push_back(entry.path());
  } else if (fs::is_regular_file(path)) {
    files.emplace_back(path);
  } else {
    files = matches(path);
  }
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.filename().native() < b.filename().native(); });
  return files;
}

/// The prefix of an indexed dataset, or empty.
std::string index_prefix(const std::string& path) {
  for (const char* suffix : {".idx", ".bin"})
    if (ends_with(path, suffix) && fs::exists(path.substr(0, path.size() - 4) + ".idx"))
      return path.substr(0, path.size() - 4);
  return fs::exists(path + ".idx") || fs::exists(path + ".bin") ? path : "";
}

void check_recognised(const fs::path& file) {
  const core::ReadFile open(file);
  std::int32_t word = 0;
  if (open.size() >= sizeof(word)) open.read(std::as_writable_bytes(std::span(&word, 1)), 0);
  core::require(word == kLlmcMagicU16 || word == kLlmcMagicU32, ExitCode::bad_data,
                "{}: unknown kind; a plain uint16 array needs data.format = \"raw-u16\"", open.path());
}

}  // namespace

CorpusFiles find_corpus(const std::string& path, const std::string& format, const std::string& key) {
  for (const char* text : {".txt", ".jsonl"})
    core::require(!ends_with(path, text), ExitCode::bad_data,
                  "{}: {} is text; make a corpus of it with `trireme tokenize` first", key, path);
  const std::string prefix = index_prefix(path);
  const bool indexed = format == "indexed" || (format == "auto" && !prefix.empty() && fs::exists(prefix + ".idx"));
  if (indexed || (!prefix.empty() && format == "auto" && !fs::exists(path))) {
    const std::string base = prefix.empty() ? path : prefix;
    const bool bin = fs::exists(base + ".bin"), index = fs::exists(base + ".idx");
    core::require(bin || index, ExitCode::bad_data, "{}: no corpus at {} (looked for {}.idx, {}.bin, {}/*.bin)", key,
                  path, base, base, path);
    core::require(index, ExitCode::bad_data, "{}.idx: not found beside {}.bin", base, base);
    core::require(bin, ExitCode::bad_data, "{}.bin: not found beside {}.idx", base, base);
    return {"indexed", base, {}};
  }
  const std::vector<fs::path> files = list_files(path);
  core::require(!files.empty(), ExitCode::bad_data, "{}: no corpus at {} (looked for {}.idx, {}.bin, {}/*.bin)", key,
                path, path, path, path);
  if (format == "raw-u16") return {format, "", files};
  if (format == "auto")
    for (const fs::path& file : files) check_recognised(file);
  return {"llmc", "", files};
}

}  // namespace trireme::data
