#include "train/checkpoint/transfer.h"

#include <algorithm>
#include <cstring>

namespace trireme::train {

namespace {

constexpr std::uint64_t kBufferBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kSmallPiece = std::uint64_t{64} << 10;  // below it a read of the gap costs less than a call

using Extents = std::vector<std::int64_t>;

struct Overlap {
  Extents begin, extent;  // global
  bool empty = false;
};

Overlap intersect(const StateChunk& wanted, const StoredChunk& stored) {
  Overlap out;
  for (std::size_t axis = 0; axis < wanted.offset.size(); ++axis) {
    const std::int64_t begin = std::max(wanted.offset[axis], stored.offset[axis]);
    const std::int64_t end =
        std::min(wanted.offset[axis] + wanted.extent[axis], stored.offset[axis] + stored.extent[axis]);
    out.begin.push_back(begin);
    out.extent.push_back(end - begin);
    out.empty = out.empty || end <= begin;
  }
  return out;
}

/// Row-major index of a global position inside a rectangle.
std::int64_t index_in(const Extents& position, const Extents& offset, const Extents& extent) {
  std::int64_t index = 0;
  for (std::size_t axis = 0; axis < position.size(); ++axis)
    index = index * extent[axis] + position[axis] - offset[axis];
  return index;
}

/// Elements [from, from + count) of the stored chunk go to element `to` of the wanted one.
struct Piece {
  std::int64_t from, to, count;
};

/// Places what was read; remembers whether every value survived a conversion.
class Sink {
 public:
  Sink(core::DType stored, StateChunk& wanted) : stored_(stored), wanted_(wanted) {}
  bool same_type() const { return stored_ == wanted_.dtype; }
  std::byte* place(std::int64_t to) const {
    return static_cast<std::byte*>(wanted_.data) + static_cast<std::size_t>(to) * core::size_of(wanted_.dtype);
  }
  void put(const std::byte* from, std::int64_t to, std::int64_t count) {
    const auto n = static_cast<std::size_t>(count);
    if (same_type())
      std::memcpy(place(to), from, n * core::size_of(stored_));
    else if (stored_ == core::DType::f32)
      convert<float, double>(from, place(to), n);
    else
      convert<double, float>(from, place(to), n);
  }
  bool exact() const { return exact_; }

 private:
  template <class From, class To>
  void convert(const std::byte* from, std::byte* to, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      From value;
      std::memcpy(&value, from + i * sizeof value, sizeof value);
      const To converted = static_cast<To>(value);
      exact_ = exact_ && static_cast<From>(converted) == value;
      std::memcpy(to + i * sizeof converted, &converted, sizeof converted);
    }
  }
  core::DType stored_;
  StateChunk& wanted_;
  bool exact_ = true;
};

/// Gathers neighbouring small pieces into one read; large ones go straight to their place.
class Gatherer {
 public:
  Gatherer(const DirectoryFile& shard, std::uint64_t at, std::uint64_t width, Sink& sink)
      : shard_(shard), at_(at), width_(width), sink_(sink) {}

  void add(const Piece& piece) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(piece.count) * width_;
    if (bytes >= kSmallPiece) return read_large(piece);
    const bool joins = !pieces_.empty() &&
                       byte(piece.from + piece.count) - byte(pieces_.front().from) <= kBufferBytes &&
                       byte(piece.from) - byte(pieces_.back().from + pieces_.back().count) <= kSmallPiece;
    if (!joins) flush();
    pieces_.push_back(piece);
  }
  void flush() {
    if (pieces_.empty()) return;
    const std::uint64_t begin = byte(pieces_.front().from);
    buffer_.resize(byte(pieces_.back().from + pieces_.back().count) - begin);
    shard_.read(buffer_, begin);
    for (const Piece& piece : pieces_) sink_.put(buffer_.data() + (byte(piece.from) - begin), piece.to, piece.count);
    pieces_.clear();
  }

 private:
  std::uint64_t byte(std::int64_t element) const { return at_ + static_cast<std::uint64_t>(element) * width_; }
  void read_large(Piece piece) {
    if (sink_.same_type())
      return shard_.read({sink_.place(piece.to), static_cast<std::size_t>(piece.count) * width_}, byte(piece.from));
    const auto step = static_cast<std::int64_t>(kBufferBytes / width_);
    for (std::int64_t done = 0; done < piece.count; done += step) {
      const std::int64_t count = std::min(step, piece.count - done);
      large_.resize(static_cast<std::size_t>(count) * width_);
      shard_.read(large_, byte(piece.from + done));
      sink_.put(large_.data(), piece.to + done, count);
    }
  }
  const DirectoryFile& shard_;
  std::uint64_t at_, width_;
  Sink& sink_;
  std::vector<Piece> pieces_;
  std::vector<std::byte> buffer_, large_;
};

}  // namespace

bool transfer(const DirectoryFile& shard, core::DType stored_type, const StoredChunk& stored, StateChunk& wanted) {
  const Overlap overlap = intersect(wanted, stored);
  if (overlap.empty) return true;
  // Trailing axes that both rectangles hold whole make longer runs.
  std::size_t axis = overlap.extent.size();
  std::int64_t length = 1, runs = 1;
  while (axis > 0) {
    --axis;
    length *= overlap.extent[axis];
    if (overlap.extent[axis] != stored.extent[axis] || overlap.extent[axis] != wanted.extent[axis]) break;
  }
  for (std::size_t outer = 0; outer < axis; ++outer) runs *= overlap.extent[outer];
  Sink sink(stored_type, wanted);
  Gatherer gatherer(shard, stored.at, core::size_of(stored_type), sink);
  for (std::int64_t i = 0; i < runs; ++i) {
    Extents position = overlap.begin;
    std::int64_t rest = i;
    for (std::size_t outer = axis; outer-- > 0;) {
      position[outer] += rest % overlap.extent[outer];
      rest /= overlap.extent[outer];
    }
    gatherer.add(
        {index_in(position, stored.offset, stored.extent), index_in(position, wanted.offset, wanted.extent), length});
  }
  gatherer.flush();
  return sink.exact();
}

}  // namespace trireme::train
