#include "train/checkpoint/ownership.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/file.h"
#include "core/log.h"
#include "train/checkpoint/names.h"
#include "train/checkpoint/owner_record.h"

namespace trireme::train {

namespace fs = std::filesystem;
using core::ExitCode;

namespace {

constexpr auto kBeatInterval = std::chrono::seconds(5);
constexpr int kWatchSeconds = 25;
constexpr auto kSettling = std::chrono::seconds(2);
constexpr int kBeatWidth = 20;

std::string value_of(const OwnerRecord& record, const char* key) {
  const auto found = record.find(key);
  return found == record.end() ? "" : found->second;
}

/// True when the owner's beat stands still.
bool stopped_beating(const fs::path& path, const OwnerRecord& owner) {
  core::info(
      fmt::format("{}: owned by {}; watching its beat for {} s", path.string(), describe_owner(owner), kWatchSeconds));
  for (int second = 0; second < kWatchSeconds; ++second) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const OwnerRecord now = read_owner(path);
    if (value_of(now, "beat") != value_of(owner, "beat") || value_of(now, "nonce") != value_of(owner, "nonce"))
      return false;
  }
  return true;
}

void make_root(const fs::path& root) {
  std::error_code error, ignored;
  fs::create_directories(root, error);
  core::require(fs::is_directory(root, ignored), ExitCode::run_directory, "{}: cannot be made: {}", root.string(),
                error ? error.message() : "something else has this name");
}

bool put(int descriptor, std::string_view text, off_t at) {
  return ::pwrite(descriptor, text.data(), text.size(), at) == static_cast<ssize_t>(text.size());
}

}  // namespace

Ownership::Ownership(const fs::path& root, const std::string& run_id, bool take_over)
    : path_(root / "OWNER"), run_id_(run_id), nonce_(make_nonce()) {
  make_root(root);
  if (!create()) {
    const OwnerRecord owner = read_owner(path_);
    core::require(take_over || provably_gone(owner) || stopped_beating(path_, owner), ExitCode::run_directory,
                  "{}: owned by another job that is alive ({})", root.string(), describe_owner(owner));
    core::info(fmt::format("{}: taken over from {}", root.string(), describe_owner(owner)));
    this->take_over();
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
  (void)::close(descriptor_);
  if (value_of(read_owner(path_), "nonce") == nonce_) (void)::unlink(path_.c_str());
}

std::string Ownership::text() const {
  std::string out = fmt::format("run {:<40}\nnonce {}\n", run_id_, nonce_);
  for (const auto& [key, value] : own_record()) out += fmt::format("{} {:<40}\n", key, value);
  return out + fmt::format("beat {:<{}}\n", beats_, kBeatWidth);
}

/// False when there is an OWNER already.
bool Ownership::create() {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor_ < 0 && errno == EEXIST) return false;
  core::require(descriptor_ >= 0, ExitCode::run_directory, "{}: cannot be written: {}", path_.string(),
                std::strerror(errno));
  if (put(descriptor_, text(), 0)) return true;
  const int error = errno;
  (void)::close(descriptor_);
  (void)::unlink(path_.c_str());
  core::fail(ExitCode::run_directory, "{}: cannot be written: {}", path_.string(), std::strerror(error));
}

void Ownership::take_over() {
  const fs::path own = path_.string() + "-" + nonce_;
  try {
    core::write_whole(own, text(), false);
  } catch (const core::Error& error) {
    core::fail(ExitCode::run_directory, "{}", error.what());
  }
  descriptor_ = ::open(own.c_str(), O_WRONLY | O_CLOEXEC);
  const bool renamed = descriptor_ >= 0 && std::rename(own.c_str(), path_.c_str()) == 0;
  core::require(renamed, ExitCode::run_directory, "{}: cannot be replaced: {}", path_.string(), std::strerror(errno));
  // Of two newcomers the last to rename wins; the other one sees it here.
  std::this_thread::sleep_for(kSettling);
  confirm();
}

void Ownership::confirm() const {
  const OwnerRecord owner = read_owner(path_);
  core::require(value_of(owner, "nonce") == nonce_, ExitCode::run_directory,
                "{}: no longer ours: another job has taken this directory over ({})", path_.string(),
                describe_owner(owner));
}

void Ownership::beat() {
  sigset_t all;
  sigfillset(&all);
  (void)::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  const auto beat_at = static_cast<off_t>(text().size()) - kBeatWidth - 1;
  std::unique_lock lock(mutex_);
  while (!ended_changed_.wait_for(lock, kBeatInterval, [this] { return ended_; })) {
    if (value_of(read_owner(path_), "nonce") != nonce_) {
      lost_ = true;
      return;
    }
    // A beat that cannot be written is no error: 25 s without one are needed to lose the directory.
    (void)put(descriptor_, fmt::format("{:<{}}", ++beats_, kBeatWidth), beat_at);
  }
}

}  // namespace trireme::train
