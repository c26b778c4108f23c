#pragma once

#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/log.h"

namespace trireme::train {

/// Reads members of an object, each failure an Error(no_checkpoint) naming `place`, which must outlive it.
class Fields {
 public:
  using json = nlohmann::json;

  Fields(const json& object, const std::string& place) : object_(object), place_(place) {
    demand(object.is_object(), "", "not an object");
  }
  const json& at(const char* key) const {
    const auto found = object_.find(key);
    demand(found != object_.end(), key, "missing");
    return *found;
  }
  bool has(const char* key) const { return object_.contains(key); }
  std::string text(const char* key) const {
    demand(at(key).is_string(), key, "not a string");
    return at(key).get<std::string>();
  }
  /// At most 2^63 - 1.
  std::int64_t count(const char* key) const { return count_of(at(key), key); }
  double number(const char* key) const {
    demand(at(key).is_number(), key, "not a number");
    return at(key).get<double>();
  }
  template <class T>
  T hexadecimal(const char* key) const {
    const std::string digits = text(key);
    T value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    demand(error == std::errc() && end == digits.data() + digits.size() && digits.size() == 2 * sizeof(T), key,
           "not a number of that many hexadecimal digits");
    return value;
  }
  const json& list(const char* key, std::size_t most) const {
    demand(at(key).is_array() && at(key).size() <= most, key, "not a list, or too long");
    return at(key);
  }
  std::vector<std::int64_t> counts(const char* key, std::size_t most) const {
    std::vector<std::int64_t> out;
    for (const json& value : list(key, most)) out.push_back(count_of(value, key));
    return out;
  }
  const json& object(const char* key) const {
    demand(at(key).is_object(), key, "not an object");
    return at(key);
  }

 private:
  std::int64_t count_of(const json& value, const char* key) const {
    demand(value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX, key, "not a count");
    return value.get<std::int64_t>();
  }
  void demand(bool condition, const char* key, const char* problem) const {
    if (!condition) core::fail(core::ExitCode::no_checkpoint, "{}: {}{}{}", place_, key, *key ? ": " : "", problem);
  }
  const json& object_;
  const std::string& place_;
};

}  // namespace trireme::train
