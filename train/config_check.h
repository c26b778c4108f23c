#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/fields.h"
#include "train/config.h"

namespace trireme::train {

/// Everything that is wrong with a configuration, raised as one error. Line 0 stands for the command line.
class Problems {
 public:
  void add(std::int64_t line, std::string text) { found_.emplace_back(line, std::move(text)); }
  /// With the line where `key` stands, if it was given.
  void add_at(const std::string& key, std::string text) {
    const auto place = places_.find(key);
    add(place == places_.end() ? 0 : place->second, std::move(text));
  }
  /// From here on problems are contradictions between keys.
  void end_reading() { partial_ = !found_.empty(); }
  /// As add_at. If something could not be read, only what concerns a key that was given and read is sure.
  void contradict(const std::string& key, std::string text);
  void place(const std::string& key, std::int64_t line) { places_[key] = line; }
  bool empty() const { return found_.empty(); }
  /// Throws Error(usage) listing all problems by line, if there are any.
  void raise(const std::string& file) const;

 private:
  std::vector<std::pair<std::int64_t, std::string>> found_;
  std::map<std::string, std::int64_t> places_;
  bool partial_ = false;
};

std::string describe_range(core::IntegerRange range);
std::string describe_range(core::NumberRange range);

/// Contradictions between keys, and what this version cannot do.
void check_config(const Config& config, Problems& problems);

}  // namespace trireme::train
