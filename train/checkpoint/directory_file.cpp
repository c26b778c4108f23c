#include "train/checkpoint/directory_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "core/file.h"
#include "core/log.h"
#include "train/checkpoint/checksum.h"

namespace trireme::train {

using core::ExitCode;

namespace {

constexpr std::size_t kBlock = std::size_t{4} << 20;

int open_in(const std::filesystem::path& directory, const std::string& name, const std::string& path) {
  const int parent = ::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  core::require(parent >= 0, errno == ENOENT || errno == ENOTDIR ? ExitCode::no_checkpoint : ExitCode::storage,
                "{}: cannot be opened: {}", core::escaped(directory.string()), std::strerror(errno));
  // Without O_NONBLOCK a pipe in the file's place would wait for a writer.
  const int descriptor = ::openat(parent, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  const int error = errno;
  (void)::close(parent);
  if (descriptor >= 0) return descriptor;
  core::require(error != ENOENT, ExitCode::no_checkpoint, "{}: missing", path);
  core::require(error != ELOOP && error != ENXIO, ExitCode::no_checkpoint, "{}: not a regular file", path);
  core::fail(ExitCode::storage, "{}: cannot be opened: {}", path, std::strerror(error));
}

/// Adds the part of a block that lies in the ranges, which come in ascending order; `next` is the first not yet ended.
class RangeSums {
 public:
  explicit RangeSums(std::span<const ByteRange> ranges) : ranges_(ranges), sums_(ranges.size()), order_(ranges.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::sort(order_.begin(), order_.end(),
              [&](std::size_t a, std::size_t b) { return ranges_[a].at < ranges_[b].at; });
  }
  void add(std::span<const std::byte> block, std::uint64_t at) {
    for (; next_ < order_.size(); ++next_) {
      const ByteRange& range = ranges_[order_[next_]];
      const std::uint64_t begin = std::max(range.at, at), end = std::min(range.at + range.bytes, at + block.size());
      if (begin < end) {
        std::uint32_t& sum = sums_[order_[next_]];
        sum = crc32c(block.subspan(begin - at, end - begin), sum);
      }
      if (range.at + range.bytes > at + block.size()) return;
    }
  }
  std::vector<std::uint32_t> take() { return std::move(sums_); }

 private:
  std::span<const ByteRange> ranges_;
  std::vector<std::uint32_t> sums_;
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;
};

}  // namespace

DirectoryFile::DirectoryFile(const std::filesystem::path& directory, const std::string& name)
    : path_(core::escaped((directory / name).string())), descriptor_(open_in(directory, name, path_)) {
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (known && S_ISREG(status.st_mode)) {
    size_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  (void)::close(descriptor_);
  core::fail(known ? ExitCode::no_checkpoint : ExitCode::storage, "{}: not a regular file", path_);
}

DirectoryFile::~DirectoryFile() {
  if (descriptor_ >= 0) (void)::close(descriptor_);
}

DirectoryFile::DirectoryFile(DirectoryFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

void DirectoryFile::read(std::span<std::byte> into, std::uint64_t offset) const {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = ::pread(descriptor_, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    core::require(got >= 0, ExitCode::storage, "{}: cannot be read: {}", path_, std::strerror(errno));
    core::require(got > 0, ExitCode::no_checkpoint, "{}: ends at byte {}, {} were expected", path_, offset + done,
                  offset + into.size());
    done += static_cast<std::size_t>(got);
  }
}

std::string DirectoryFile::read_whole(std::uint64_t limit) const {
  core::require(size_ <= limit, ExitCode::no_checkpoint, "{}: {} bytes, at most {}", path_, size_, limit);
  std::string content(size_, '\0');
  read(std::as_writable_bytes(std::span(content)), 0);
  return content;
}

FileSums sum_file(const DirectoryFile& file, std::span<const ByteRange> ranges, bool sha256) {
  FileSums sums;
  RangeSums parts(ranges);
  std::optional<core::Sha256> sha;
  if (sha256) sha.emplace();
  std::vector<std::byte> block;
  for (std::uint64_t at = 0; at < file.size(); at += block.size()) {
    block.resize(std::min<std::uint64_t>(kBlock, file.size() - at));
    file.read(block, at);
    sums.crc32c = crc32c(block, sums.crc32c);
    parts.add(block, at);
    if (sha) sha->update(block);
  }
  sums.ranges = parts.take();
  if (sha) sums.sha256 = sha->hex();
  return sums;
}

}  // namespace trireme::train
