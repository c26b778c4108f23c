#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "core/clock.h"
#include "core/file.h"
#include "core/log.h"
#include "train/checkpoint/names.h"
#include "train/checkpoint/store.h"

namespace trireme::train {

namespace fs = std::filesystem;
using core::ExitCode;

namespace {

constexpr auto kBeatInterval = std::chrono::seconds(5);
constexpr int kWatchSeconds = 25;

std::string read_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

/// Start time of a process in clock ticks since boot: tells a process from a later one of the same number.
std::string start_time(long pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 0; i < 20 && fields >> field; ++i) {
  }
  return field;
}

std::string pid_namespace() {
  std::error_code error;
  return fs::read_symlink("/proc/self/ns/pid", error).string();
}

std::map<std::string, std::string> read_owner(const fs::path& path) {
  std::map<std::string, std::string> out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::size_t end = line.find_last_not_of(' ');
    out[line.substr(0, space)] = line.substr(space + 1, end - space);
  }
  return out;
}

/// Nobody holds it any more: the process of that number on this boot is gone or another one.
bool provably_gone(std::map<std::string, std::string>& owner) {
  const bool here = owner["host"] == host_name() && owner["boot"] == read_line("/proc/sys/kernel/random/boot_id") &&
                    owner["namespace"] == pid_namespace();
  if (!here || owner["pid"].empty()) return false;
  const long pid = std::strtol(owner["pid"].c_str(), nullptr, 10);
  const bool alive = ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
  return !alive || start_time(pid) != owner["start"];
}

void create_exclusively(const fs::path& path, const std::string& text, bool& created) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  created = descriptor >= 0;
  if (!created) {
    core::require(errno == EEXIST, ExitCode::run_directory, "{}: cannot be written: {}", path.string(),
                  std::strerror(errno));
    return;
  }
  const bool written = ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool closed = ::close(descriptor) == 0;
  core::require(written && closed, ExitCode::run_directory, "{}: cannot be written", path.string());
}

/// True when the owner's beat stands still.
bool stopped_beating(const fs::path& path, const std::string& beat) {
  core::info(fmt::format("{}: owned by another process; watching its beat for {} s", path.string(), kWatchSeconds));
  for (int second = 0; second < kWatchSeconds; ++second) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    if (read_owner(path)["beat"] != beat) return false;
  }
  return true;
}

}  // namespace

Ownership::Ownership(const fs::path& root, const std::string& run_id)
    : path_(root / "OWNER"), run_id_(run_id), nonce_(make_nonce()) {
  std::error_code error;
  fs::create_directories(root, error);
  core::require(fs::is_directory(root), ExitCode::run_directory, "{}: cannot be made: {}", root.string(),
                error.message());
  bool created = false;
  create_exclusively(path_, text(), created);
  if (!created) {
    auto owner = read_owner(path_);
    const bool free = provably_gone(owner) || stopped_beating(path_, owner["beat"]);
    core::require(free, ExitCode::run_directory, "{}: owned by run {} on {} (pid {}), which is alive", root.string(),
                  owner["run"], owner["host"], owner["pid"]);
    core::info(fmt::format("{}: taking over from run {} on {} (pid {}), which is gone", root.string(), owner["run"],
                           owner["host"], owner["pid"]));
    core::write_whole(path_, text(), true);
    confirm();
  }
  thread_ = std::thread([this] { beat(); });
}

Ownership::~Ownership() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_all();
  thread_.join();
  if (read_owner(path_)["nonce"] == nonce_) ::unlink(path_.c_str());
}

std::string Ownership::text() const {
  return fmt::format(
      "run {:<40}\nnonce {}\nhost {:<64}\nboot {}\nnamespace {}\npid {:<10}\nstart {:<20}\nbeat {:<20}\n", run_id_,
      nonce_, host_name(), read_line("/proc/sys/kernel/random/boot_id"), pid_namespace(), ::getpid(),
      start_time(::getpid()), beats_);
}

void Ownership::confirm() const {
  core::require(read_owner(path_)["nonce"] == nonce_, ExitCode::run_directory,
                "{}: another process has taken this directory over", path_.string());
}

void Ownership::beat() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(mutex_);
  while (!ended_changed_.wait_for(lock, kBeatInterval, [this] { return ended_; })) {
    if (read_owner(path_)["nonce"] != nonce_) return;  // the next save finds out and ends the run
    ++beats_;
    std::fstream file(path_, std::ios::in | std::ios::out);
    file << text();
  }
}

}  // namespace trireme::train
