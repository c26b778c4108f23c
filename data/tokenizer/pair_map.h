#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme::data {

/// From a pair of ids to a number; open addressing, grows, never erases.
class PairMap {
 public:
  using Key = std::uint64_t;
  static constexpr std::uint32_t kNone = 0xffffffffu;
  static constexpr Key key_of(std::uint32_t left, std::uint32_t right) { return Key{left} << 32 | right; }

  explicit PairMap(std::size_t expected = 0) { rehash(expected); }

  /// kNone when the pair is not there.
  std::uint32_t find(Key key) const { return slots_[slot_of(key)].value; }

  /// The pair's number; a new pair gets `fresh`.
  std::uint32_t& at_or_add(Key key, std::uint32_t fresh) {
    std::size_t slot = slot_of(key);
    if (slots_[slot].value != kNone) return slots_[slot].value;
    if (++size_ * 2 > slots_.size()) {
      rehash(size_);
      slot = slot_of(key);
    }
    slots_[slot] = {key, fresh};
    return slots_[slot].value;
  }

 private:
  struct Slot {
    Key key = 0;
    std::uint32_t value = kNone;
  };

  std::size_t slot_of(Key key) const {
    std::size_t slot = static_cast<std::size_t>((key * 0x9e3779b97f4a7c15ull) >> shift_);
    while (slots_[slot].value != kNone && slots_[slot].key != key) slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }

  void rehash(std::size_t expected) {
    int bits = 4;
    while ((std::size_t{1} << bits) < expected * 3) ++bits;
    std::vector<Slot> old(std::size_t{1} << bits);
    old.swap(slots_);
    shift_ = 64 - bits;
    for (const Slot& slot : old)
      if (slot.value != kNone) slots_[slot_of(slot.key)] = slot;
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
  int shift_ = 60;
};

}  // namespace trireme::data
