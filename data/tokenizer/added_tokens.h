#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/definition.h"

namespace trireme::data {

/// A stretch of text and the added token it is, if it is one.
struct Stretch {
  std::string_view text;
  const AddedToken* token = nullptr;
};

/// Finds added tokens in text: leftmost, longest, then by their lstrip, rstrip and single_word.
class AddedTokenFinder {
 public:
  struct Needle {
    std::string text;  ///< what to look for
    const AddedToken* token;
    bool skipped;  ///< found, but left as text, when `parse_special` is false
  };

  explicit AddedTokenFinder(std::vector<Needle> needles);
  bool empty() const { return needles_.empty(); }
  /// Cuts `text`, in order; neither empty stretches of text nor of nothing are given.
  void cut(std::string_view text, bool parse_special, const std::function<void(const Stretch&)>& take) const;

 private:
  const Needle* longest_at(std::string_view text) const;
  std::vector<Needle> needles_;  // ascending by text
  std::array<bool, 256> first_bytes_{};
};

}  // namespace trireme::data
