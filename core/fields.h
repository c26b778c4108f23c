#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::core {

struct IntegerRange {
  std::int64_t minimum = 0;
  std::int64_t maximum = std::numeric_limits<std::int64_t>::max();
};

/// Accepted numbers: finite, from minimum to maximum; an open end excludes its bound.
struct NumberRange {
  double minimum = 0;
  double maximum = std::numeric_limits<double>::max();
  bool open_minimum = false;
  bool open_maximum = false;
};

/// Walks over the keys of one configuration section. A section is a plain struct with one member function
/// `void fields(FieldVisitor&)` that names each key once; parsing, help, printing and comparison are visitors.
/// The value a struct is made with is the key's default.
class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;
  virtual void flag(std::string_view name, bool& value, std::string_view help) = 0;
  virtual void integer(std::string_view name, std::int64_t& value, IntegerRange range, std::string_view help) = 0;
  virtual void number(std::string_view name, double& value, NumberRange range, std::string_view help) = 0;
  virtual void text(std::string_view name, std::string& value, std::string_view help) = 0;
  /// One of `allowed`.
  virtual void choice(std::string_view name, std::string& value, std::span<const std::string_view> allowed,
                      std::string_view help) = 0;
  virtual void integers(std::string_view name, std::vector<std::int64_t>& value, IntegerRange each,
                        std::string_view help) = 0;
  virtual void texts(std::string_view name, std::vector<std::string>& value, std::string_view help) = 0;
};

}  // namespace trireme::core
