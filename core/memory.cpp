#include "core/memory.h"

#include <sys/mman.h>

#include <algorithm>

namespace trireme::core {

namespace {
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
}  // namespace

Buffer::Buffer(std::size_t bytes, const std::string& purpose) : bytes_(bytes) {
  if (bytes == 0) return;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(data != MAP_FAILED, ExitCode::machine, "out of memory: {} needs {:.2f} GiB", purpose,
          static_cast<double>(bytes) / (1 << 30));
  if (bytes >= 4 * kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  data_ = std::unique_ptr<void, Release>(data, Release{bytes});
}

void Buffer::Release::operator()(void* data) const { munmap(data, bytes); }

Tensor Arena::allocate(DType dtype, Shape shape) {
  const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  const std::size_t begin = used_;
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  peak_ = std::max(peak_, used_);
  if (measuring()) return {nullptr, dtype, shape};
  check(used_ <= buffer_.bytes(), "arena of {} bytes is full: {} more wanted at {}", buffer_.bytes(), bytes, begin);
  return {static_cast<char*>(buffer_.data()) + begin, dtype, shape};
}

}  // namespace trireme::core
