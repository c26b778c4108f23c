#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/tensor.h"

namespace trireme::core {

/// Owned memory, aligned to 64 bytes (huge pages asked for where large), zeroed. Throws Error(machine) naming
/// `purpose` and the size when there is not enough.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::size_t bytes, const std::string& purpose);
  Buffer(Buffer&&) = default;
  Buffer& operator=(Buffer&&) = default;
  void* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Release {
    std::size_t bytes;
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Release> data_;
  std::size_t bytes_ = 0;
};

/// Stack-like allocator over one buffer. Without a buffer it only measures: planning and running use one code path.
/// A tensor from a measuring arena has a null pointer and must not be touched.
class Arena {
 public:
  Arena() = default;
  explicit Arena(std::size_t bytes, const std::string& purpose) : buffer_(bytes, purpose) {}
  Tensor allocate(DType dtype, Shape shape);
  std::size_t used() const { return used_; }
  std::size_t peak() const { return peak_; }
  std::size_t capacity() const { return buffer_.bytes(); }
  void release_to(std::size_t used) { used_ = used; }
  bool measuring() const { return buffer_.data() == nullptr; }

 private:
  Buffer buffer_;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
};

/// Gives back what was allocated from `arena` during its life.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.used()) {}
  ~ArenaScope() { arena_.release_to(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  std::size_t mark_;
};

}  // namespace trireme::core
