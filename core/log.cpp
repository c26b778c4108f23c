#include "core/log.h"

#include <cstdio>
#include <memory>
#include <mutex>

#include "core/error.h"

namespace trireme::core {

namespace {
struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
std::mutex mutex;
std::unique_ptr<std::FILE, Close> copy;

void write(std::FILE* to, std::string_view prefix, std::string_view line) {
  const std::lock_guard lock(mutex);
  const std::string text = fmt::format("{}{}\n", prefix, line);
  for (std::FILE* file : {to, copy.get()}) {
    if (!file) continue;
    std::fwrite(text.data(), 1, text.size(), file);
    std::fflush(file);
  }
}
}  // namespace

void info(std::string_view line) { write(stdout, "", line); }
void warning(std::string_view line) { write(stderr, "trireme: warning: ", line); }

void log_to_file(const std::string& path) {
  const std::lock_guard lock(mutex);
  copy.reset();
  if (path.empty()) return;
  copy.reset(std::fopen(path.c_str(), "ae"));
  require(copy != nullptr, ExitCode::run_directory, "{}: cannot be opened for writing", path);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out;
}

}  // namespace trireme::core
