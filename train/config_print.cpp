#include <toml++/toml.h>

#include <sstream>

#include "core/error.h"
#include "train/config.h"
#include "train/config_check.h"

namespace trireme::train {

namespace {

std::string toml_text(const std::string& text) {
  std::ostringstream out;
  out << toml::value<std::string>(text);
  return out.str();
}

/// Shortest form that reads back exactly, always recognisable as a number with a fraction or exponent.
std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

class PrintVisitor : public core::FieldVisitor {
 public:
  void flag(std::string_view name, bool& value, std::string_view) override { line(name, value ? "true" : "false"); }
  void integer(std::string_view name, std::int64_t& value, core::IntegerRange, std::string_view) override {
    line(name, fmt::format("{}", value));
  }
  void number(std::string_view name, double& value, core::NumberRange, std::string_view) override {
    line(name, number_text(value));
  }
  void text(std::string_view name, std::string& value, std::string_view) override { line(name, toml_text(value)); }
  void choice(std::string_view name, std::string& value, std::span<const std::string_view>, std::string_view) override {
    line(name, toml_text(value));
  }
  void integers(std::string_view name, std::vector<std::int64_t>& value, core::IntegerRange,
                std::string_view) override {
    line(name, fmt::format("[{}]", fmt::join(value, ", ")));
  }
  void texts(std::string_view name, std::vector<std::string>& value, std::string_view) override {
    std::vector<std::string> all;
    for (const std::string& one : value) all.push_back(toml_text(one));
    line(name, fmt::format("[{}]", fmt::join(all, ", ")));
  }
  void corpora(std::string_view name, const std::vector<data::CorpusEntry>& entries) {
    std::vector<std::string> all;
    for (const data::CorpusEntry& entry : entries) {
      std::string text = fmt::format("path = {}, weight = {}", toml_text(entry.path), number_text(entry.weight));
      if (!entry.format.empty()) text += ", format = " + toml_text(entry.format);
      all.push_back(fmt::format("{{ {} }}", text));
    }
    line(name, fmt::format("[{}]", fmt::join(all, ", ")));
  }
  void line(std::string_view name, const std::string& value) { out += fmt::format("{} = {}\n", name, value); }
  std::string out;
};

class HelpVisitor : public core::FieldVisitor {
 public:
  explicit HelpVisitor(std::string section) : section_(std::move(section)) {}
  void flag(std::string_view name, bool& value, std::string_view help) override {
    line(name, "boolean", value ? "true" : "false", help, "");
  }
  void integer(std::string_view name, std::int64_t& value, core::IntegerRange range, std::string_view help) override {
    line(name, "integer", fmt::format("{}", value), help, describe_range(range));
  }
  void number(std::string_view name, double& value, core::NumberRange range, std::string_view help) override {
    line(name, "number", fmt::format("{}", value), help, describe_range(range));
  }
  void text(std::string_view name, std::string& value, std::string_view help) override {
    line(name, "string", toml_text(value), help, "");
  }
  void choice(std::string_view name, std::string& value, std::span<const std::string_view> allowed,
              std::string_view help) override {
    line(name, "string", toml_text(value), help, fmt::format("one of {}", fmt::join(allowed, ", ")));
  }
  void integers(std::string_view name, std::vector<std::int64_t>&, core::IntegerRange, std::string_view help) override {
    line(name, "integers", "[]", help, "");
  }
  void texts(std::string_view name, std::vector<std::string>&, std::string_view help) override {
    line(name, "strings", "[]", help, "");
  }
  std::string out;

  void line(std::string_view name, std::string_view type, const std::string& value, std::string_view help,
            const std::string& range) {
    out += fmt::format("  {:<30} {:<9} {}{} [{}]\n", fmt::format("{}.{}", section_, name), type, help,
                       range.empty() ? "" : "; " + range, value);
  }

 private:
  std::string section_;
};

}  // namespace

std::string print_config(const Config& config) {
  Config copy = config;
  std::string out;
  for_each_section(copy, [&](const char* name, auto& section) {
    PrintVisitor print;
    section.fields(print);
    if (std::string_view(name) == "data") {
      print.corpora("train", copy.data.train);
      if (copy.data.valid_fraction > 0)
        print.line("valid", number_text(copy.data.valid_fraction));
      else
        print.corpora("valid", copy.data.valid);
    }
    out += fmt::format("{}[{}]\n{}", out.empty() ? "" : "\n", name, print.out);
  });
  return out;
}

std::string config_help() {
  Config config;
  std::string out;
  for_each_section(config, [&](const char* name, auto& section) {
    HelpVisitor help(name);
    section.fields(help);
    if (std::string_view(name) == "data") {
      help.line("train", "tables", "[]", "corpora: { path, weight, format }", "");
      help.line("valid", "tables", "[]", "validation corpora { path }, or a fraction of each training corpus", "");
    }
    out += help.out;
  });
  return out;
}

}  // namespace trireme::train
