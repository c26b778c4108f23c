#include "train/checkpoint/owner_record.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/log.h"

namespace trireme::train {

namespace fs = std::filesystem;

namespace {

std::string field(const OwnerRecord& record, const char* key) {
  const auto found = record.find(key);
  return found == record.end() ? "" : found->second;
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() <= 18 && text.find_first_not_of("0123456789") == std::string::npos;
}

struct ProcessState {
  std::string state;  // one letter
  std::string start;  // clock ticks since boot: tells a process from a later one of the same number
};

ProcessState state_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  constexpr int kStartField = 20;
  std::istringstream rest(text.substr(name_end + 1));
  ProcessState out;
  rest >> out.state;
  for (int i = 1; i < kStartField && rest >> out.start; ++i) {
  }
  return out;
}

bool process_gone(const OwnerRecord& owner, const OwnerRecord& own) {
  for (const char* key : {"host", "boot", "namespace"})
    if (field(owner, key).empty() || field(owner, key) != field(own, key)) return false;
  const std::string pid = field(owner, "pid");
  if (!is_number(pid)) return false;
  if (::kill(static_cast<pid_t>(std::atol(pid.c_str())), 0) != 0 && errno == ESRCH) return true;
  const ProcessState state = state_of(pid);
  return !state.start.empty() && (state.start != field(owner, "start") || state.state == "Z" || state.state == "X");
}

/// True when squeue answers and does not know the job.
bool unknown_to_squeue(const std::string& job) {
  const std::string command = "squeue --noheader --format=%i --jobs=" + job + " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "re");
  if (!pipe) return false;
  std::string answer;
  std::array<char, 256> line{};
  while (std::fgets(line.data(), line.size(), pipe)) answer += line.data();
  const int status = ::pclose(pipe);
  if (answer.find("Invalid job id") != std::string::npos) return true;
  return status == 0 && answer.find(job) == std::string::npos;
}

bool job_gone(const OwnerRecord& owner, const OwnerRecord& own) {
  const std::string job = field(owner, "job");
  if (!is_number(job)) return false;
  if (job != field(own, "job")) return unknown_to_squeue(job);
  const std::string before = field(owner, "restarts"), now = field(own, "restarts");
  return is_number(before) && is_number(now) && std::atol(before.c_str()) < std::atol(now.c_str());
}

}  // namespace

OwnerRecord read_owner(const fs::path& path) {
  OwnerRecord out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    out[line.substr(0, space)] = line.substr(space + 1, line.find_last_not_of(' ') - space);
  }
  return out;
}

OwnerRecord own_record() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  std::error_code error;
  const std::string pid = std::to_string(::getpid());
  const std::string restarts = environment("SLURM_RESTART_COUNT");
  const std::string job = environment("SLURM_JOB_ID");
  return {{"host", host.data()},
          {"boot", first_line("/proc/sys/kernel/random/boot_id")},
          {"namespace", fs::read_symlink("/proc/self/ns/pid", error).string()},
          {"pid", pid},
          {"start", state_of(pid).start},
          {"job", job.empty() ? "-" : job},
          {"restarts", restarts.empty() ? "0" : restarts}};
}

bool provably_gone(const OwnerRecord& owner) {
  const OwnerRecord own = own_record();
  return process_gone(owner, own) || job_gone(owner, own);
}

std::string describe_owner(const OwnerRecord& owner) {
  return core::escaped(fmt::format("run {}, host {}, pid {}, job {}", field(owner, "run"), field(owner, "host"),
                                   field(owner, "pid"), field(owner, "job")));
}

}  // namespace trireme::train
