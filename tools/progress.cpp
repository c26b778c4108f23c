#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "core/clock.h"
#include "core/error.h"

namespace trireme::tools {

namespace {
constexpr double kTerminalSeconds = 0.2;
constexpr double kLineSeconds = 10;

std::string shorten(double value, const std::string& unit) {
  const char* prefix = "";
  for (const char* next : {"k", "M", "G", "T"}) {
    if (value < 1000) break;
    value /= 1000;
    prefix = next;
  }
  return *prefix ? fmt::format("{:.1f} {}{}", value, prefix, unit) : fmt::format("{:.0f} {}", value, unit);
}

std::string shorten_seconds(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
}
}  // namespace

Progress::Progress(std::string unit) : unit_(std::move(unit)), terminal_(::isatty(STDERR_FILENO) == 1) {}
Progress::~Progress() { clear_line(); }

void Progress::clear_line() {
  if (line_open_) std::fputs("\r\033[K", stderr);
  line_open_ = false;
}

void Progress::show(std::string_view stage, std::uint64_t done, std::uint64_t total) {
  core::require(!signals_.requested(), core::ExitCode::stopped, "stopped by {}: nothing was written", signals_.name());
  const double time = core::now();
  if (stage != stage_) {
    stage_ = stage;
    stage_start_ = last_ = time;
  }
  if (time - last_ < (terminal_ ? kTerminalSeconds : kLineSeconds)) return;
  last_ = time;
  const double part = total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 0;
  const double rate = static_cast<double>(done) / std::max(1e-9, time - stage_start_);
  const double left = rate > 0 ? static_cast<double>(total - std::min(done, total)) / rate : 0;
  const std::string figures =
      fmt::format("{:3.0f} % | {} of {} | {}/s | {} left", 100 * part, shorten(static_cast<double>(done), unit_),
                  shorten(static_cast<double>(total), unit_), shorten(rate, unit_), shorten_seconds(left));
  if (!terminal_) {
    fmt::print(stderr, "{}: {}\n", stage_, figures);
    return;
  }
  constexpr int kWidth = 24;
  const int filled = static_cast<int>(part * kWidth);
  fmt::print(stderr, "\r\033[K{} [{:=<{}}{: <{}}] {}", stage_, "", filled, "", kWidth - filled, figures);
  std::fflush(stderr);
  line_open_ = true;
}

}  // namespace trireme::tools
