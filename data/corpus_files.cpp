#include "data/corpus_files.h"

#include <glob.h>
#include <sys/resource.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "core/file.h"
#include "data/llmc_format.h"

namespace trireme::data {

namespace fs = std::filesystem;
using core::ExitCode;
using core::require;

namespace {

bool exists(const std::string& path) {
  std::error_code error;
  const bool there = fs::exists(path, error);
  require(!error, ExitCode::bad_data, "{}: {}", path, error.message());
  return there;
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::vector<fs::path> list_matches(const std::string& pattern) {
  glob_t found{};
  std::vector<fs::path> files;
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &found);
  if (result == 0)
    for (std::size_t i = 0; i < found.gl_pathc; ++i)
      if (is_file(found.gl_pathv[i])) files.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  require(result == 0 || result == GLOB_NOMATCH, ExitCode::bad_data, "{}: the folder cannot be read", pattern);
  return files;
}

std::vector<fs::path> list_folder(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator at(folder, error), last; !error && at != last; at.increment(error))
    if (at->path().extension() == ".bin" && is_file(at->path())) files.push_back(at->path());
  require(!error, ExitCode::bad_data, "{}: {}", folder, error.message());
  return files;
}

/// In byte order of the names; folders decide between equal names.
std::vector<fs::path> list_files(const std::string& path) {
  std::error_code error;
  std::vector<fs::path> files = fs::is_directory(path, error) ? list_folder(path)
                                : is_file(path)               ? std::vector<fs::path>{path}
                                                              : list_matches(path);
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    const int names = a.filename().native().compare(b.filename().native());
    return names != 0 ? names < 0 : a.native() < b.native();
  });
  return files;
}

/// `path` without .bin or .idx.
std::string without_suffix(const std::string& path) {
  return path.ends_with(".bin") || path.ends_with(".idx") ? path.substr(0, path.size() - 4) : path;
}

/// The prefix of the indexed dataset that `path` stands for, whole or half.
std::optional<std::string> find_prefix(const std::string& path, bool said) {
  if (exists(path + ".idx")) return path;
  const std::string stripped = without_suffix(path);
  if (stripped != path && exists(stripped + ".idx")) return stripped;
  if (!said && (exists(path) || path.ends_with(".bin"))) return std::nullopt;
  for (const std::string& prefix : {path, stripped})
    if (exists(prefix + ".bin")) return prefix;
  return std::nullopt;
}

void check_recognised(const fs::path& path) {
  const core::ReadFile file(path);
  std::int32_t word = 0;
  if (file.size() >= sizeof(word)) file.read(std::as_writable_bytes(std::span(&word, 1)), 0);
  if (word == kLlmcMagicU16 || word == kLlmcMagicU32) return;
  const std::string prefix = without_suffix(path.string());
  require(!exists(prefix + ".idx"), ExitCode::bad_data,
          "{}: belongs to an indexed dataset; its path is {}, a corpus of several is a list of them", file.path(),
          prefix);
  core::fail(ExitCode::bad_data, "{}: unknown kind; a plain uint16 array needs data.format = \"raw-u16\"", file.path());
}

}  // namespace

CorpusFiles find_corpus(const std::string& path, const std::string& format, const std::string& key) {
  for (const char* text : {".txt", ".jsonl"})
    require(!path.ends_with(text), ExitCode::bad_data,
            "{}: {} is text; make a corpus of it with `trireme tokenize` first", key, path);
  if (format == "indexed" || format == "auto") {
    if (const auto prefix = find_prefix(path, format == "indexed")) {
      require(exists(*prefix + ".idx"), ExitCode::bad_data, "{0}.idx: not found beside {0}.bin", *prefix);
      require(exists(*prefix + ".bin"), ExitCode::bad_data, "{0}.bin: not found beside {0}.idx", *prefix);
      return {"indexed", *prefix, {}};
    }
  }
  const std::vector<fs::path> files = format == "indexed" ? std::vector<fs::path>{} : list_files(path);
  require(!files.empty(), ExitCode::bad_data, "{}: no corpus at {} (looked for {}.idx, {}.bin, {}/*.bin)", key, path,
          without_suffix(path), without_suffix(path), path);
  if (format == "raw-u16") return {format, "", files};
  if (format == "auto")
    for (const fs::path& file : files) check_recognised(file);
  return {"llmc", "", files};
}

void allow_open_files(std::size_t count, const std::string& path) {
  constexpr rlim_t rest = 256;  // what the process opens besides
  rlimit limit{};
  core::check(::getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
  if (count < rest) return;
  require(limit.rlim_max >= count + rest, ExitCode::machine,
          "{}: {} files need {} open files, the limit is {} (ulimit -Hn)", path, count, count + rest, limit.rlim_max);
  limit.rlim_cur = limit.rlim_max;
  core::check(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
}

}  // namespace trireme::data
