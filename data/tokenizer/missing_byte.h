#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/error.h"

namespace trireme::data {

/// Text that the vocabulary cannot spell.
class MissingByte : public core::Error {
 public:
  MissingByte(std::uint64_t offset, std::string character)
      : core::Error(core::ExitCode::bad_data,
                    fmt::format("byte {} of the text ({}) is not in the vocabulary", offset, character)),
        offset_(offset),
        character_(std::move(character)) {}
  std::uint64_t offset() const { return offset_; }
  const std::string& character() const { return character_; }

 private:
  std::uint64_t offset_;
  std::string character_;
};

}  // namespace trireme::data
