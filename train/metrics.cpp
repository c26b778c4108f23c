#include "train/metrics.h"

#include <sys/resource.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"

namespace trireme::train {

using nlohmann::ordered_json;

namespace {

bool ends_torn(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path) || std::filesystem::file_size(path) == 0) return false;
  const core::ReadFile file(path, core::ExitCode::run_directory);
  std::byte last{};
  file.read(std::span(&last, 1), file.size() - 1);
  return last != std::byte{'\n'};
}

std::string short_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  const std::int64_t minutes = (whole + 30) / 60;
  if (whole < 60) return fmt::format("{}s", whole);
  if (minutes < 60) return fmt::format("{}m", minutes);
  if (minutes < 48 * 60) return fmt::format("{}h{:02}m", minutes / 60, minutes % 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole % 86400 / 3600);
}

std::string short_rate(double value) {
  if (value >= 1e6) return fmt::format("{:.2f}M", value / 1e6);
  return value >= 1e3 ? fmt::format("{:.1f}k", value / 1e3) : fmt::format("{:.0f}", value);
}

/// 5.9e-4 rather than 5.9e-04.
std::string short_scientific(double value) {
  std::string text = fmt::format("{:.1e}", value);
  const std::size_t zero = text.find_first_of("+-", 1);
  if (zero != std::string::npos && text[zero + 1] == '0') text.erase(zero + 1, 1);
  return text;
}

std::string short_duration(double seconds) {
  if (seconds < 0.01) return fmt::format("{:.2f} ms", seconds * 1e3);
  return seconds < 10 ? fmt::format("{:.0f} ms", seconds * 1e3) : fmt::format("{:.1f} s", seconds);
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path) : path_(path.string()) {
  const bool torn = ends_torn(path);
  file_ = std::fopen(path_.c_str(), "ae");
  core::require(file_ != nullptr, core::ExitCode::run_directory, "{}: cannot be opened: {}", path_,
                std::strerror(errno));
  if (torn) std::fputc('\n', file_);
}

MetricsFile::~MetricsFile() { std::fclose(file_); }

void MetricsFile::write(const ordered_json& record) {
  const std::string line = record.dump() + "\n";
  const bool written = std::fwrite(line.data(), 1, line.size(), file_) == line.size() && std::fflush(file_) == 0;
  core::require(written, core::ExitCode::storage, "{}: cannot be written: {}", path_, std::strerror(errno));
}

void MetricsFile::step(const StepRecord& r) {
  ordered_json record{{"kind", "train"}};
  record["step"] = r.step;
  record["loss"] = r.loss;
  record["grad_norm"] = r.grad_norm;
  record["lr"] = r.lr;
  record["tokens"] = r.tokens;
  record["samples"] = r.samples;
  record["step_seconds"] = r.step_seconds;
  record["tokens_per_second"] = r.tokens_per_second;
  record["tokens_per_second_per_device"] = r.tokens_per_second;
  record["mfu"] = r.mfu;
  record["memory_bytes_peak"] = r.memory_bytes_peak;
  record["data_wait_seconds"] = r.data_wait_seconds;
  record["skipped"] = r.skipped;
  write(record);
}

void MetricsFile::eval(std::int64_t step, double loss, double perplexity, std::int64_t tokens) {
  write({{"kind", "eval"}, {"step", step}, {"loss", loss}, {"perplexity", perplexity}, {"tokens", tokens}});
}

void MetricsFile::checkpoint(std::int64_t step, std::uint64_t bytes, double seconds, bool committed) {
  write({{"kind", "checkpoint"},
         {"step", step},
         {"bytes", bytes},
         {"stall_seconds", seconds},
         {"total_seconds", seconds},
         {"committed", committed}});
}

void MetricsFile::run(const std::string& event, std::int64_t step, const std::string& reason) {
  write({{"kind", "run"},
         {"event", event},
         {"step", step},
         {"reason", reason},
         {"layout", {{"ranks", 1}, {"tensor", 1}, {"context", 1}, {"pipeline", 1}, {"data", 1}}}});
}

std::string console_line(const StepRecord& r) {
  return fmt::format("step {}/{} | loss {:.4f} | norm {:.2f} | lr {} | {} | {} tok/s | MFU {:.1f} % | eta {}", r.step,
                     r.steps, r.loss, r.grad_norm, short_scientific(r.lr), short_duration(r.step_seconds),
                     short_rate(r.tokens_per_second), r.mfu * 100, short_time(r.eta_seconds));
}

std::uint64_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace trireme::train
