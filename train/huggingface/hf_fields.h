#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace trireme::train {

/// Typed reading of one JSON object of config.json. null counts as absent. Throws Error(bad_data) naming file, key and
/// value.
class HfFields {
 public:
  /// `prefix` stands before a key in messages: "rope_scaling.".
  HfFields(const nlohmann::json& json, std::string file, std::string prefix = "");

  std::int64_t integer(const char* key, std::int64_t maximum) const;  ///< 1 to maximum, must be there
  std::int64_t integer(const char* key, std::int64_t maximum, std::int64_t absent) const;
  double number(const char* key, double absent) const;
  std::optional<double> number(const char* key) const;
  bool flag(const char* key, bool absent) const;
  std::string text(const char* key, const std::string& absent) const;
  /// The value, nullptr when absent or null.
  const nlohmann::json* find(const char* key) const;
  HfFields object(const char* key) const;

  /// `FILE: KEY = VALUE is not supported (ACCEPTED)`
  [[noreturn]] void refuse(const std::string& key, const std::string& accepted) const;
  const std::string& file() const { return file_; }
  const nlohmann::json& json() const { return json_; }
  std::string shown(const std::string& key) const;  ///< `KEY = VALUE`

 private:
  [[noreturn]] void wrong_type(const char* key, const char* accepted) const;
  const nlohmann::json& json_;
  std::string file_;
  std::string prefix_;
};

}  // namespace trireme::train
