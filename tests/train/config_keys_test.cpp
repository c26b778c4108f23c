// Every key of the configuration, walked over by its own visitor: what is refused for its type and its range.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "train/config.h"

namespace trireme::train {

/// Gives each key values that must be refused, in a file of two lines.
class RefusalVisitor : public core::FieldVisitor {
 public:
  explicit RefusalVisitor(std::string section) : section_(std::move(section)) {}

  void flag(std::string_view name, bool&, std::string_view) override {
    refused(name, "1", "is an integer, must be true or false");
    refused(name, "\"true\"", "is a string, must be true or false");
  }
  void integer(std::string_view name, std::int64_t&, core::IntegerRange range, std::string_view) override {
    refused(name, "\"1\"", "is a string, must be an integer");
    refused(name, "1.0", "is a number, must be an integer");
    outside(name, range, "{}");
  }
  void number(std::string_view name, double&, core::NumberRange range, std::string_view) override {
    refused(name, "\"1\"", "is a string, must be a number");
    refused(name, "true", "is a boolean, must be a number");
    for (const char* value : {"nan", "inf", "-inf"}) refused(name, value, "is not a finite number");
    refused(name, fmt::format("{}", range.open_minimum ? range.minimum : range.minimum - 1), "is not a finite number");
    if (range.maximum < std::numeric_limits<double>::max())
      refused(name, fmt::format("{}", range.open_maximum ? range.maximum : range.maximum * 2),
              "is not a finite number");
  }
  void text(std::string_view name, std::string&, std::string_view) override {
    if (name == "every_minutes") return;  // a word or a number; see the test of its own
    refused(name, "1", "is an integer, must be a string");
    refused(name, "2026-01-01", "is a date or time, must be a string");
  }
  void choice(std::string_view name, std::string&, std::span<const std::string_view> allowed,
              std::string_view) override {
    refused(name, "1", "is an integer, must be a string");
    const std::string misspelt = std::string(allowed[0]) + "x";
    refused(name, "\"" + misspelt + "\"", "\"" + misspelt + "\" is none of ");
    refused(name, "\"" + misspelt + "\"", "did you mean \"" + std::string(allowed[0]) + "\"?");
  }
  void integers(std::string_view name, std::vector<std::int64_t>&, core::IntegerRange each, std::string_view) override {
    refused(name, "1", "is an integer, must be an array");
    refused(name, "[\"1\"]", "is a string, must be an integer");
    outside(name, each, "[{}]");
  }
  void texts(std::string_view name, std::vector<std::string>&, std::string_view) override {
    refused(name, "\"a\"", "is a string, must be an array");
    refused(name, "[1]", "has an integer, every entry must be a string");
  }
  int keys() const { return keys_; }

 private:
  void outside(std::string_view name, core::IntegerRange range, const char* form) {
    if (range.minimum > std::numeric_limits<std::int64_t>::min())
      refused(name, fmt::format(fmt::runtime(form), range.minimum - 1), "is not an integer ");
    if (range.maximum < std::numeric_limits<std::int64_t>::max())
      refused(name, fmt::format(fmt::runtime(form), range.maximum + 1), "is not an integer ");
  }

  void refused(std::string_view name, const std::string& value, const std::string& why) {
    const std::string key = fmt::format("{}.{}", section_, name);
    if (key != last_) ++keys_;
    last_ = key;
    const std::string text = fmt::format("[{}]\n{} = {}\n", section_, name, value);
    try {
      parse_config(text, "c.toml", "/", {});
      ADD_FAILURE() << "accepted: " << text;
    } catch (const core::Error& error) {
      EXPECT_EQ(error.code(), core::ExitCode::usage);
      EXPECT_THAT(error.what(), testing::HasSubstr("c.toml:2: " + key + ": ")) << text;
      EXPECT_THAT(error.what(), testing::HasSubstr(why)) << text;
    }
  }

  std::string section_, last_;
  int keys_ = 0;
};

TEST(ConfigurationKeys, RefuseEachWrongTypeAndRangeWithTheirLine) {
  Config config;
  int keys = 0;
  for_each_section(config, [&](const char* name, auto& section) {
    RefusalVisitor visitor(name);
    section.fields(visitor);
    keys += visitor.keys();
  });
  EXPECT_GE(keys, 60);
}

/// The whole message for [data] with this line.
std::string message_of_data(const std::string& line) {
  try {
    parse_config("[data]\n" + line + "\n", "c.toml", "/", {});
  } catch (const core::Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ConfigurationKeys, OfCorporaRefuseWrongTypes) {
  const std::pair<const char*, const char*> bad[] = {
      {"train = \"corpus\"", "data.train: is a string, must be an array of { path, weight }"},
      {"train = 0.1", "data.train: is a number, must be an array"},
      {"train = [\"corpus\"]", "data.train[0]: is a string, must be a table"},
      {"train = [{ weight = 1 }]", "data.train[0]: has no path"},
      {"train = [{ path = 1 }]", "data.train[0]: path: is an integer, must be a string"},
      {"train = [{ path = \"a\" }, { path = \"b\", weight = \"1\" }]", "data.train[1]: weight: is a string"},
      {"train = [{ path = \"a\", weight = 0 }]", "data.train[0]: weight: 0 must be a finite number above 0"},
      {"train = [{ path = \"a\", weight = nan }]", "data.train[0]: weight: nan must be a finite number above 0"},
      {"train = [{ path = \"a\", format = \"hdf5\" }]", "data.train[0]: format: \"hdf5\" is none of "},
      {"valid = true", "data.valid: is a boolean, must be an array of { path } or a fraction"},
      {"valid = 1.0", "data.valid: 1 is not a fraction"},
      {"valid = -0.1", "data.valid: -0.1 is not a fraction"},
      {"valid = nan", "data.valid: nan is not a fraction"},
  };
  for (const auto& [line, why] : bad)
    EXPECT_THAT(message_of_data(line), testing::HasSubstr(std::string("c.toml:2: ") + why)) << line;
}

}  // namespace trireme::train
