#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trireme::train {

/// One logged step.
struct StepRecord {
  std::int64_t step = 0, steps = 0;
  double loss = 0, grad_norm = 0, lr = 0;
  std::int64_t tokens = 0, samples = 0;  ///< since the start of the run
  double step_seconds = 0;               ///< mean over the steps since the last record
  double tokens_per_second = 0;
  double mfu = 0;  ///< fraction of the stated peak
  std::uint64_t memory_bytes_peak = 0;
  double data_wait_seconds = 0;
  std::int64_t skipped = 0;  ///< updates skipped so far
  double eta_seconds = 0;
};

/// metrics.jsonl: one object a line, "kind" first. Only appended to; a line torn by a kill is closed first.
class MetricsFile {
 public:
  /// Throws Error(run_directory).
  explicit MetricsFile(const std::filesystem::path& path);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void step(const StepRecord& record);
  void eval(std::int64_t step, double loss, double perplexity, std::int64_t tokens);
  void checkpoint(std::int64_t step, std::uint64_t bytes, double seconds, bool committed);
  /// start, resume or stop, with reason and layout.
  void run(const std::string& event, std::int64_t step, const std::string& reason);
  void write(const nlohmann::ordered_json& record);

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

/// `step 120/2000 | loss 3.4812 | norm 0.84 | lr 5.9e-4 | 412 ms | 39.8k tok/s | MFU 41.2 % | eta 12m`
std::string console_line(const StepRecord& record);

/// Largest resident memory of this process so far, bytes.
std::uint64_t peak_resident_bytes();

}  // namespace trireme::train
