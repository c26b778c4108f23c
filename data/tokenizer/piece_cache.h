#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace trireme::data {

/// Ids of short pieces seen lately, for one tokenizer and one thread: 2 MiB, one cache line a piece. A piece whose slot
/// is taken pushes the other out.
class PieceCache {
 public:
  static constexpr std::size_t kMaximumBytes = 22;
  static constexpr std::size_t kMaximumIds = 8;

  struct alignas(64) Slot {
    std::uint64_t hash;
    std::uint8_t bytes;  // 0: free
    std::uint8_t ids;
    char text[kMaximumBytes];
    std::int32_t id[kMaximumIds];
  };

  /// Forgets everything when the tokenizer is another than before.
  void use_for(std::uint64_t tokenizer) {
    if (tokenizer == tokenizer_) return;
    slots_.assign(kSlots, Slot{});
    tokenizer_ = tokenizer;
  }

  /// The slot for pieces with this hash, whoever has it now.
  Slot& slot_of(std::uint64_t hash) { return slots_[hash >> (64 - kBits)]; }

  static bool holds(const Slot& slot, std::string_view piece, std::uint64_t hash) {
    return slot.hash == hash && slot.bytes == piece.size() && std::memcmp(slot.text, piece.data(), piece.size()) == 0;
  }

  static void put(Slot& slot, std::string_view piece, std::uint64_t hash, std::span<const std::int32_t> ids) {
    if (ids.size() > kMaximumIds) return;
    slot.hash = hash;
    slot.bytes = static_cast<std::uint8_t>(piece.size());
    slot.ids = static_cast<std::uint8_t>(ids.size());
    std::memcpy(slot.text, piece.data(), piece.size());
    std::copy(ids.begin(), ids.end(), slot.id);
  }

 private:
  static constexpr int kBits = 15;
  static constexpr std::size_t kSlots = std::size_t{1} << kBits;
  std::vector<Slot> slots_;
  std::uint64_t tokenizer_ = 0;
};

/// For tables in memory only: the value may differ between machines.
inline std::uint64_t hash_piece(std::string_view piece) {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15ull;
  std::uint64_t hash = piece.size() * kFactor;
  const auto mix = [&](std::uint64_t word) {
    hash = (hash ^ word) * kFactor;
    hash ^= hash >> 32;
  };
  while (piece.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, piece.data(), 8);
    mix(word);
    piece.remove_prefix(8);
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, piece.data(), piece.size());
  mix(rest);
  return hash * kFactor;
}

}  // namespace trireme::data
