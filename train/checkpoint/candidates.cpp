#include "train/checkpoint/candidates.h"

#include <algorithm>
#include <fstream>

#include "core/log.h"
#include "train/checkpoint/names.h"

namespace trireme::train {

namespace fs = std::filesystem;
using core::ExitCode;

namespace {

std::vector<fs::path> entries_of(const fs::path& root) {
  std::vector<fs::path> out;
  std::error_code error;
  if (!fs::is_directory(root, error)) return out;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error))
    out.push_back(entry->path());
  core::require(!error, ExitCode::no_checkpoint, "{}: cannot be listed: {}", root.string(), error.message());
  return out;
}

/// Opens the newest candidate that verifies. Those before it get their reason and are kept in `refused`.
std::optional<CheckpointReader> first_valid(const fs::path& root, const OpenOptions& options,
                                            std::vector<Candidate>& refused) {
  for (Candidate& candidate : list_candidates(root)) {
    try {
      return CheckpointReader(candidate.directory, options);
    } catch (const core::Error& error) {
      candidate.reason = error.what();
      refused.push_back(std::move(candidate));
    }
  }
  return {};
}

std::vector<std::string> lines_of(const std::vector<Candidate>& refused, const std::optional<CheckpointReader>& used) {
  std::vector<std::string> out;
  for (const Candidate& candidate : refused) {
    std::string line = fmt::format("{} is not used: {}", candidate.directory.filename().string(), candidate.reason);
    if (used) line += fmt::format("; {} steps are lost", candidate.step - used->manifest().meta.step);
    out.push_back(std::move(line));
  }
  return out;
}

[[noreturn]] void fail_without(const fs::path& root, const std::vector<Candidate>& refused, const char* advice) {
  std::vector<std::string> reasons;
  for (const Candidate& candidate : refused) reasons.push_back(candidate.reason);
  core::fail(ExitCode::no_checkpoint, "{}: no valid checkpoint among {} candidates{}{}{}", root.string(),
             refused.size(), refused.empty() ? "" : ": ", fmt::join(reasons, "; "), advice);
}

/// Whether anything was ever committed here.
std::string sign_of_earlier_saves(const fs::path& root, const fs::path& run_directory) {
  for (const fs::path& entry : entries_of(root)) {
    const std::string name = entry.filename().string();
    if (name.starts_with("step-") && step_of(name)) return name;
    if (name.starts_with("aside-")) return name;
  }
  std::ifstream metrics(run_directory / "metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {
    if (line.find("\"checkpoint\"") == std::string::npos) continue;
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_object() && record.value("kind", nlohmann::json()) == "checkpoint" &&
        record.value("committed", nlohmann::json()) == true)
      return fmt::format("a commit of step {} in metrics.jsonl", record.value("step", nlohmann::json()).dump());
  }
  return "";
}

}  // namespace

std::vector<Candidate> list_candidates(const fs::path& root) {
  std::vector<Candidate> out;
  for (const fs::path& entry : entries_of(root)) {
    std::error_code error;
    if (const auto step = step_of(entry.filename().string()); step && fs::is_directory(entry, error))
      out.push_back({*step, entry, ""});
  }
  std::sort(out.begin(), out.end(), [](const Candidate& a, const Candidate& b) { return a.step > b.step; });
  return out;
}

std::vector<Candidate> verify_candidates(const fs::path& root, const OpenOptions& options) {
  std::vector<Candidate> out = list_candidates(root);
  for (Candidate& candidate : out) try {
      const CheckpointReader reader(candidate.directory, options);
    } catch (const core::Error& error) {
      candidate.reason = error.what();
    }
  return out;
}

std::optional<CheckpointReader> newest_valid(const fs::path& root, std::vector<std::string>& rejected) {
  std::vector<Candidate> refused;
  auto found = first_valid(root, {}, refused);
  rejected = lines_of(refused, found);
  return found;
}

std::int64_t last_committed(const fs::path& root) {
  std::vector<Candidate> refused;
  const auto found = first_valid(root, {.verify = Verify::sizes}, refused);
  return found ? found->manifest().meta.step : -1;
}

fs::path root_of(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path / "checkpoints", error) ? path / "checkpoints" : path;
}

bool is_checkpoint(const fs::path& path) {
  std::error_code error;
  const fs::path plain = path.has_filename() ? path : path.parent_path();
  return fs::exists(fs::symlink_status(plain / kManifestName, error)) || step_of(plain.filename().string());
}

CheckpointReader open_checkpoint(const fs::path& path, const OpenOptions& options) {
  std::error_code error;
  const fs::path plain = path.has_filename() ? path : path.parent_path();
  core::require(fs::is_directory(plain, error), ExitCode::no_checkpoint, "{}: no such directory", plain.string());
  if (is_checkpoint(plain)) return CheckpointReader(plain, options);
  const fs::path root = root_of(plain);
  std::vector<Candidate> refused;
  std::optional<CheckpointReader> found = first_valid(root, options, refused);
  if (!found) fail_without(root, refused, "");
  for (const std::string& line : lines_of(refused, found)) core::warning(line);
  return std::move(*found);
}

ResumeChoice choose_resume(const std::string& resume, const fs::path& root, const fs::path& run_directory) {
  ResumeChoice choice;
  if (resume == "never") return choice;
  if (resume != "auto" && resume != "must") {
    const fs::path path = resume;
    choice.checkpoint.emplace(path.has_filename() ? path : path.parent_path());
    return choice;
  }
  std::vector<Candidate> refused;
  choice.checkpoint = first_valid(root, {}, refused);
  choice.rejected = lines_of(refused, choice.checkpoint);
  if (choice.checkpoint) return choice;
  constexpr const char* advice = "; --run.resume=never starts anew";
  if (resume == "must" || !refused.empty()) fail_without(root, refused, advice);
  const std::string sign = sign_of_earlier_saves(root, run_directory);
  core::require(sign.empty(), ExitCode::no_checkpoint, "{}: no valid checkpoint, but this run has saved before: {}{}",
                root.string(), sign, advice);
  return choice;
}

}  // namespace trireme::train
