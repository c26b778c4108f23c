#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "core/file.h"
#include "core/log.h"
#include "train/config.h"
#include "train/config_check.h"

namespace trireme::train {

namespace {

using core::ExitCode;

constexpr std::uint64_t kLargestFile = std::uint64_t{16} << 20;
constexpr int kMostRepeated = 20;  // keys given twice that are listed

constexpr std::string_view kWordOrNumber = "checkpoint.every_minutes";  // "auto" or minutes

const std::set<std::string> kPathKeys{"run.directory", "data.tokenizer", "model.initial_weights",
                                      "checkpoint.directory", "run.resume"};

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  const auto closer = [&](const std::string& a, const std::string& b) {
    return edit_distance(name, a) < edit_distance(name, b);
  };
  return known.empty() ? "" : *std::min_element(known.begin(), known.end(), closer);
}

/// What the sources of one configuration say, before it is read into structs.
struct Source {
  std::string name;
  std::filesystem::path folder;
  toml::table file;
  std::map<std::string, std::string> overrides;  // "section.key" -> text
  std::set<std::string> known_overrides;
  Problems problems;
};

std::string toml_kind(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "a boolean";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

/// Fills one section's struct from the file's table and the overrides.
class ReadVisitor : public core::FieldVisitor {
 public:
  ReadVisitor(Source& source, std::string section) : source_(source), section_(std::move(section)) {
    if (const toml::node* node = source_.file.get(section_)) table_ = node->as_table();
  }

  void flag(std::string_view name, bool& value, std::string_view) override {
    if (const Value given = find(name, false)) {
      if (const auto read = given.node->value_exact<bool>())
        value = *read;
      else
        wrong_type(given, "true or false");
    }
  }
  void integer(std::string_view name, std::int64_t& value, core::IntegerRange range, std::string_view) override {
    if (const Value given = find(name, false)) read_integer(given, *given.node, value, range);
  }
  void number(std::string_view name, double& value, core::NumberRange range, std::string_view) override {
    const Value given = find(name, false);
    if (!given) return;
    const auto read = given.node->is_number() ? given.node->value<double>() : std::nullopt;
    if (!read) return wrong_type(given, "a number");
    const bool low = range.open_minimum ? *read > range.minimum : *read >= range.minimum;
    const bool high = range.open_maximum ? *read < range.maximum : *read <= range.maximum;
    if (!std::isfinite(*read) || !low || !high)
      return problem(given, fmt::format("{} is not {}", *read, describe_range(range)));
    value = *read;
  }
  void text(std::string_view name, std::string& value, std::string_view) override {
    if (const Value given = find(name, true)) read_text(given, value);
  }
  void choice(std::string_view name, std::string& value, std::span<const std::string_view> allowed,
              std::string_view) override {
    const Value given = find(name, true);
    std::string read;
    if (!given || !read_text(given, read)) return;
    if (std::find(allowed.begin(), allowed.end(), read) == allowed.end()) {
      const std::vector<std::string> names(allowed.begin(), allowed.end());
      return problem(given, fmt::format("\"{}\" is none of {}; did you mean \"{}\"?", core::escaped(read),
                                        fmt::join(names, ", "), nearest(read, names)));
    }
    value = read;
  }
  void integers(std::string_view name, std::vector<std::int64_t>& value, core::IntegerRange each,
                std::string_view) override {
    read_array(name, value, [&](const Value& given, const toml::node& node, std::int64_t& element) {
      return read_integer(given, node, element, each);
    });
  }
  void texts(std::string_view name, std::vector<std::string>& value, std::string_view) override {
    read_array(name, value, [&](const Value& given, const toml::node& node, std::string& element) {
      const auto read = node.value_exact<std::string>();
      if (!read) problem(given, fmt::format("has {}, every entry must be a string", toml_kind(node)));
      element = read.value_or("");
      return read.has_value();
    });
  }

  /// `train` and `valid` of [data]: arrays of tables; valid may be a fraction.
  void corpora(std::string_view name, std::vector<data::CorpusEntry>& value, double* fraction);

  /// Reports keys of the file that no field asked for.
  void report_unknown() {
    if (!table_) {
      if (const toml::node* node = source_.file.get(section_))
        source_.problems.add(line(*node), fmt::format("{}: is {}, not a table", section_, toml_kind(*node)));
      return;
    }
    for (const auto& [key, node] : *table_) {
      const std::string found(key.str());
      if (std::find(known_.begin(), known_.end(), found) == known_.end())
        source_.problems.add(line(node), fmt::format("{}.{}: unknown key; did you mean {}.{}?", section_,
                                                     core::escaped(found), section_, nearest(found, known_)));
    }
  }
  const std::vector<std::string>& known() const { return known_; }

 private:
  struct Value {
    const toml::node* node = nullptr;
    std::string key;
    bool overridden = false;
    explicit operator bool() const { return node != nullptr; }
  };

  static std::int64_t line(const toml::node& node) { return static_cast<std::int64_t>(node.source().begin.line); }

  Value find(std::string_view name, bool text) {
    known_.emplace_back(name);
    const std::string key = fmt::format("{}.{}", section_, name);
    const auto given = source_.overrides.find(key);
    if (given != source_.overrides.end()) {
      source_.known_overrides.insert(key);
      return parse_override(key, given->second, text);
    }
    const toml::node* node = table_ ? table_->get(name) : nullptr;
    if (node) source_.problems.place(key, line(*node));
    return {node, key, false};
  }

  Value parse_override(const std::string& key, const std::string& given, bool text) {
    const bool quoted = given.size() >= 2 && (given.front() == '"' || given.front() == '\'');
    if (text && !quoted) {
      parsed_.push_back(std::make_unique<toml::table>());
      parsed_.back()->insert("v", given);
    } else {
      try {
        parsed_.push_back(std::make_unique<toml::table>(toml::parse("v = " + given)));
      } catch (const toml::parse_error&) {
        source_.problems.add(0, fmt::format("--{}={}: not a TOML value", key, core::escaped(given)));
        return {};
      }
    }
    source_.problems.place(key, 0);
    return {parsed_.back()->get("v"), key, true};
  }

  void problem(const Value& given, const std::string& text) {
    source_.problems.add(given.overridden ? 0 : line(*given.node), fmt::format("{}: {}", given.key, text));
  }
  void wrong_type(const Value& given, std::string_view expected) {
    problem(given, fmt::format("is {}, must be {}", toml_kind(*given.node), expected));
  }
  bool read_integer(const Value& given, const toml::node& node, std::int64_t& value, core::IntegerRange range) {
    const auto read = node.value_exact<std::int64_t>();
    if (!read) {
      problem(given, fmt::format("is {}, must be an integer", toml_kind(node)));
      return false;
    }
    if (*read < range.minimum || *read > range.maximum) {
      problem(given, fmt::format("{} is not {}", *read, describe_range(range)));
      return false;
    }
    value = *read;
    return true;
  }
  bool read_text(const Value& given, std::string& value) {
    auto read = given.node->value_exact<std::string>();
    if (!read && given.key == kWordOrNumber && given.node->is_number())
      read = fmt::format("{}", given.node->value<double>().value_or(-1));
    if (!read) {
      wrong_type(given, given.key == kWordOrNumber ? "a string or a number" : "a string");
      return false;
    }
    value = *read;
    const bool keyword = given.key == "run.resume" && (value == "auto" || value == "must" || value == "never");
    if (kPathKeys.contains(given.key) && !keyword) value = resolved(value, given.overridden);
    return true;
  }
  std::string resolved(const std::string& path, bool overridden) const {
    if (path.empty()) return path;
    const std::filesystem::path base = overridden ? std::filesystem::current_path() : source_.folder;
    return (base / path).lexically_normal().string();
  }
  template <class Element, class Read>
  void read_array(std::string_view name, std::vector<Element>& value, const Read& read) {
    const Value given = find(name, false);
    if (!given) return;
    const toml::array* array = given.node->as_array();
    if (!array) return wrong_type(given, "an array");
    std::vector<Element> out;
    for (const toml::node& node : *array)
      if (Element element{}; read(given, node, element)) out.push_back(std::move(element));
    value = std::move(out);
  }
  void corpus(const Value& given, const toml::table& table, data::CorpusEntry& entry);

  Source& source_;
  std::string section_;
  const toml::table* table_ = nullptr;
  std::vector<std::string> known_;
  std::vector<std::unique_ptr<toml::table>> parsed_;
};

void ReadVisitor::corpus(const Value& given, const toml::table& table, data::CorpusEntry& entry) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const auto text = node.value_exact<std::string>();
    const auto number = node.is_number() ? node.value<double>() : std::nullopt;
    const std::vector<std::string> formats = data::corpus_formats();
    if (name == "path" && text)
      entry.path = resolved(*text, given.overridden);
    else if (name == "weight" && number && std::isfinite(*number) && *number > 0)
      entry.weight = *number;
    else if (name == "weight" && number)
      problem(given, fmt::format("weight: {} must be a finite number above 0", *number));
    else if (name == "format" && text && std::find(formats.begin(), formats.end(), *text) != formats.end())
      entry.format = *text;
    else if (name == "format" && text)
      problem(given, fmt::format("format: \"{}\" is none of {}", core::escaped(*text), fmt::join(formats, ", ")));
    else if (name == "path" || name == "weight" || name == "format")
      problem(given,
              fmt::format("{}: is {}, must be {}", name, toml_kind(node), name == "weight" ? "a number" : "a string"));
    else
      problem(given, fmt::format("{}: unknown key; did you mean {}?", core::escaped(name),
                                 nearest(name, {"path", "weight", "format"})));
  }
  if (entry.path.empty()) problem(given, "has no path");
}

void ReadVisitor::corpora(std::string_view name, std::vector<data::CorpusEntry>& value, double* fraction) {
  const Value given = find(name, false);
  if (!given) return;
  if (fraction && given.node->is_number()) {
    const double read = given.node->value<double>().value_or(-1);
    if (!std::isfinite(read) || read < 0 || read >= 1)
      return problem(given, fmt::format("{} is not a fraction from 0 to 1 (1 excluded)", read));
    *fraction = read;
    value.clear();
    return;
  }
  const toml::array* array = given.node->as_array();
  if (!array)
    return wrong_type(given, fraction ? "an array of { path } or a fraction" : "an array of { path, weight }");
  std::vector<data::CorpusEntry> out;
  for (std::size_t i = 0; i < array->size(); ++i) {
    Value entry{array->get(i), fmt::format("{}[{}]", given.key, i), given.overridden};
    const toml::table* table = entry.node->as_table();
    if (table)
      corpus(entry, *table, out.emplace_back());
    else
      wrong_type(entry, "a table { path = \"...\" }");
  }
  if (fraction) *fraction = 0;
  value = std::move(out);
}

void read_overrides(const std::vector<std::string>& given, Source& source) {
  for (const std::string& one : given) {
    const std::size_t equal = one.find('=');
    if (equal == std::string::npos || one.find('.') > equal)
      source.problems.add(0, fmt::format("{}: an override is section.key=value", core::escaped(one)));
    else
      source.overrides[one.substr(0, equal)] = one.substr(equal + 1);
  }
}

/// The preset's values are the defaults of [model].
void apply_preset(Source& source, model::ModelConfig& config) {
  model::ModelConfig peek;
  Problems ignored = source.problems;
  ReadVisitor reader(source, "model");
  peek.fields(reader);
  source.problems = ignored;
  if (peek.preset.empty()) return;
  const std::vector<std::string> names = model::preset_names();
  if (std::find(names.begin(), names.end(), peek.preset) == names.end())
    source.problems.add_at(
        "model.preset", fmt::format("model.preset: \"{}\" is none of {}; did you mean \"{}\"?",
                                    core::escaped(peek.preset), fmt::join(names, ", "), nearest(peek.preset, names)));
  else
    config = model::preset(peek.preset);
}

void read_sections(Source& source, Config& config) {
  std::vector<std::string> sections, keys;
  for_each_section(config, [&](const char* name, auto& section) {
    sections.emplace_back(name);
    ReadVisitor reader(source, name);
    section.fields(reader);
    if (std::string_view(name) == "data") {
      reader.corpora("train", config.data.train, nullptr);
      reader.corpora("valid", config.data.valid, &config.data.valid_fraction);
    }
    reader.report_unknown();
    for (const std::string& key : reader.known()) keys.push_back(fmt::format("{}.{}", name, key));
  });
  for (const auto& [key, node] : source.file) {
    const std::string found(key.str());
    if (std::find(sections.begin(), sections.end(), found) == sections.end())
      source.problems.add(
          static_cast<std::int64_t>(node.source().begin.line),
          fmt::format("{}: unknown section; did you mean [{}]?", core::escaped(found), nearest(found, sections)));
  }
  for (const auto& [key, value] : source.overrides)
    if (!source.known_overrides.contains(key))
      source.problems.add(0,
                          fmt::format("--{}: unknown key; did you mean --{}?", core::escaped(key), nearest(key, keys)));
}

/// Blanks a line that gives a key, so that all others keep their numbers. False if it gives none.
bool clear_key(std::string& text, std::int64_t line) {
  std::size_t begin = 0;
  for (std::int64_t i = 1; i < line; ++i) begin = text.find('\n', begin) + 1;
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  const std::size_t first = text.find_first_not_of(" \t\r", begin);
  if (first >= end || text[first] == '[') return false;
  std::fill(text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(end), ' ');
  return true;
}

/// A key given twice is noted and passed over, since it must not hide other problems; what is not TOML ends the
/// reading.
void parse_file(std::string text, Source& source) {
  for (int repeated = 0;; ++repeated) {
    try {
      source.file = toml::parse(text, source.name);
      return;
    } catch (const toml::parse_error& error) {
      const auto line = static_cast<std::int64_t>(error.source().begin.line);
      source.problems.add(line, fmt::format("{} (column {})", error.description(), error.source().begin.column));
      const bool twice = error.description().find("cannot redefine existing") != std::string_view::npos;
      if (!twice || repeated == kMostRepeated || !clear_key(text, line)) source.problems.raise(source.name);
    }
  }
}

}  // namespace

Config parse_config(std::string_view text, const std::string& name, const std::filesystem::path& folder,
                    const std::vector<std::string>& overrides) {
  Source source{.name = name, .folder = folder};
  parse_file(std::string(text), source);
  read_overrides(overrides, source);
  Config config;
  apply_preset(source, config.model);
  read_sections(source, config);
  config.run.directory = (folder / config.run.directory).lexically_normal().string();  // the default is relative
  model::resolve(config.model);
  check_config(config, source.problems);
  source.problems.raise(name);
  return config;
}

Config load_config(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  const std::string text = core::read_whole(file, kLargestFile, ExitCode::usage);
  return parse_config(text, file.string(), std::filesystem::absolute(file).parent_path(), overrides);
}

}  // namespace trireme::train
