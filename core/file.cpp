#include "core/file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace trireme::core {

namespace {
constexpr std::size_t kBlock = std::size_t{1} << 20;
constexpr int kTemporaryNames = 100;

[[noreturn]] void fail_errno(ExitCode code, const std::string& path, const char* operation) {
  fail(code, "{}: {}: {}", path, operation, std::strerror(errno));
}
}  // namespace

ReadFile::ReadFile(const std::filesystem::path& path, ExitCode code) : path_(path.string()), code_(code) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail_errno(code, path_, "cannot be opened");
  struct stat status {};
  const bool ok = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (!ok) {
    ::close(descriptor_);
    fail(code, "{}: not a regular file", path_);
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

ReadFile::~ReadFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

ReadFile::ReadFile(ReadFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      code_(other.code_) {}

ReadFile& ReadFile::operator=(ReadFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(code_, other.code_);
  return *this;
}

void ReadFile::read(std::span<std::byte> into, std::uint64_t offset) const {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = ::pread(descriptor_, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(code_, path_, "cannot be read");
    require(got > 0, code_, "{}: wanted {} bytes at {}, got {}: the file changed while in use", path_, into.size(),
            offset, done);
    done += static_cast<std::size_t>(got);
  }
}

std::string read_whole(const std::filesystem::path& path, std::uint64_t limit, ExitCode code) {
  const ReadFile file(path, code);
  require(file.size() <= limit, code, "{}: {} bytes, at most {}", file.path(), file.size(), limit);
  std::string content(file.size(), '\0');
  file.read(std::as_writable_bytes(std::span(content)), 0);
  return content;
}

WriteFile::WriteFile(const std::filesystem::path& path, bool overwrite) : path_(path), overwrite_(overwrite) {
  require(overwrite || !std::filesystem::exists(path), ExitCode::run_directory,
          "{}: exists already (--force replaces it)", path.string());
  // A process that was killed left its temporary file; in a container the next one often has the same number.
  for (int attempt = 0; attempt < kTemporaryNames && (attempt == 0 || errno == EEXIST) && descriptor_ < 0; ++attempt) {
    temporary_ = path;
    temporary_ += fmt::format(".tmp-{}{}", ::getpid(), attempt == 0 ? "" : fmt::format("-{}", attempt));
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  }
  if (descriptor_ < 0) fail_errno(ExitCode::run_directory, temporary_.string(), "cannot be made");
  buffer_.reserve(kBlock);
}

WriteFile::~WriteFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!committed_) ::unlink(temporary_.c_str());
}

void WriteFile::write(std::span<const std::byte> bytes) {
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  size_ += bytes.size();
  if (buffer_.size() >= kBlock) flush();
}

void WriteFile::put(std::span<const std::byte> bytes, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put =
        ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_errno(ExitCode::storage, temporary_.string(), "cannot be written");
    done += static_cast<std::size_t>(put);
  }
}

void WriteFile::flush() {
  put(std::as_bytes(std::span(buffer_)), flushed_);
  flushed_ += buffer_.size();
  buffer_.clear();
}

void WriteFile::rewrite(std::uint64_t offset, std::span<const std::byte> bytes) {
  check(offset <= size_ && bytes.size() <= size_ - offset, "{}: rewrite of {} bytes at {} of {}", path_.string(),
        bytes.size(), offset, size_);
  flush();
  put(bytes, offset);
}

void WriteFile::finish() {
  if (descriptor_ < 0) return;
  flush();
  std::string().swap(buffer_);
  if (::fsync(descriptor_) != 0) fail_errno(ExitCode::storage, temporary_.string(), "fsync");
  if (::close(std::exchange(descriptor_, -1)) != 0) fail_errno(ExitCode::storage, temporary_.string(), "close");
}

void WriteFile::commit() {
  finish();
  if (overwrite_) {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_errno(ExitCode::storage, path_.string(), "rename");
  } else if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno != EINVAL && errno != ENOSYS) fail_errno(ExitCode::run_directory, path_.string(), "rename");
    require(!std::filesystem::exists(path_), ExitCode::run_directory, "{}: exists already", path_.string());
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_errno(ExitCode::storage, path_.string(), "rename");
  }
  committed_ = true;
  const auto parent = path_.parent_path();
  sync_directory(parent.empty() ? std::filesystem::path(".") : parent);
}

void write_whole(const std::filesystem::path& path, std::string_view content, bool overwrite) {
  WriteFile file(path, overwrite);
  file.write(content);
  file.commit();
}

void sync_directory(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_errno(ExitCode::storage, path.string(), "cannot be opened");
  const bool synced = ::fsync(descriptor) == 0;
  const int error = errno;
  ::close(descriptor);
  errno = error;
  if (!synced) fail_errno(ExitCode::storage, path.string(), "fsync");
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  check(context_ && EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), EVP_sha256(), nullptr) == 1,
        "SHA-256 is not available");
}

Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_)); }

void Sha256::update(std::span<const std::byte> bytes) {
  check(EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), bytes.data(), bytes.size()) == 1, "SHA-256 failed");
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int bytes = 0;
  check(EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_), digest.data(), &bytes) == 1, "SHA-256 failed");
  std::string out;
  for (unsigned int i = 0; i < bytes; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

}  // namespace trireme::core
