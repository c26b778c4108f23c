#include "train/checkpoint/staging.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/file.h"
#include "core/log.h"
#include "train/checkpoint/names.h"

namespace trireme::train {

namespace fs = std::filesystem;
using core::ExitCode;

namespace {

/// File systems without the flags of renameat2 say so by one of these.
bool flags_missing(int error) { return error == EINVAL || error == ENOSYS; }

[[noreturn]] void fail_rename(const fs::path& from, const fs::path& to, int error) {
  core::fail(ExitCode::storage, "{}: cannot be renamed to {}: {}", from.string(), to.filename().string(),
             std::strerror(error));
}

}  // namespace

Staging::Staging(fs::path path) : path_(std::move(path)) {
  core::require(::mkdir(path_.c_str(), 0755) == 0, ExitCode::storage, "{}: cannot be made: {}", path_.string(),
                std::strerror(errno));
}

Staging::~Staging() {
  if (!released_) remove_tree(path_);
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) core::warning(fmt::format("{}: cannot be removed: {}", path.string(), error.message()));
}

void rename_new(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
  if (!flags_missing(errno)) fail_rename(from, to, errno);
  std::error_code error;
  const bool taken = fs::exists(fs::symlink_status(to, error));
  if (taken) fail_rename(from, to, EEXIST);
  if (std::rename(from.c_str(), to.c_str()) != 0) fail_rename(from, to, errno);
}

void replace_directory(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    core::sync_directory(to.parent_path());
    return remove_tree(from);
  }
  if (!flags_missing(errno)) fail_rename(from, to, errno);
  const fs::path old = to.parent_path() / fmt::format(".trash-{}-{}", to.filename().string(), make_nonce());
  rename_new(to, old);
  try {
    rename_new(from, to);
  } catch (const core::Error&) {
    rename_new(old, to);
    throw;
  }
  core::sync_directory(to.parent_path());
  remove_tree(old);
}

}  // namespace trireme::train
