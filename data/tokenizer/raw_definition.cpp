#include "data/tokenizer/raw_definition.h"

#include <cstdint>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "data/tokenizer/definition.h"

namespace trireme::data {

namespace {
using core::ExitCode;
using nlohmann::json;

// Where the value that comes next belongs.
enum class Place { rest, vocabulary, merges, merge_pair };

class DefinitionSax : public nlohmann::json_sax<json> {
 public:
  DefinitionSax(const std::string& name, bool vocabulary_only) : name_(name), vocabulary_only_(vocabulary_only) {}
  RawDefinition take() { return std::move(result_); }

  bool null() override { return place() == Place::rest ? add(nullptr) : refuse("null"); }
  bool boolean(bool value) override { return place() == Place::rest ? add(value) : refuse(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return number(value, fmt::format("{}", value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<std::uint64_t>(INT64_MAX))
      return number(static_cast<std::int64_t>(value), fmt::format("{}", value));
    return place() == Place::rest ? add(value) : refuse(fmt::format("{}", value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    return place() == Place::rest ? add(value) : refuse(text);
  }
  bool binary(binary_t&) override { return false; }
  bool string(string_t& value) override;
  bool start_object(std::size_t) override;
  bool key(string_t& key) override;
  bool end_object() override { return end(); }
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string& last, const json::exception& error) override;

 private:
  Place place() const { return places_.empty() ? Place::rest : places_.back(); }
  bool number(std::int64_t value, const std::string& text);
  bool add(json value);
  json* insert(json value);
  void add_merge(RawDefinition::Merge merge);
  void enter(Place place);
  bool end();
  [[noreturn]] bool refuse(const std::string& value) const;
  bool at_model_key(const char* key) const {
    return !vocabulary_only_ && open_.size() == 2 && keys_.front() == "model" && keys_.back() == key;
  }
  void check_name(std::string_view text) const {
    core::require(text.size() <= kMaximumName, ExitCode::bad_data, "{}: {}: {} bytes, at most {}", name_,
                  in_quotes(text), text.size(), kMaximumName);
  }

  std::string name_;
  bool vocabulary_only_;
  RawDefinition result_;
  std::vector<Place> places_;  // of the open objects and arrays
  std::vector<json*> open_;    // those of `rest`
  std::vector<std::string> keys_;
  std::size_t values_ = 0;
  std::vector<std::string> pair_;
};

bool DefinitionSax::refuse(const std::string& value) const {
  if (place() == Place::vocabulary)
    core::fail(ExitCode::bad_data, "{}: vocabulary entry {}: {} is not an id (an integer from 0 to 2147483647)", name_,
               in_quotes(result_.vocabulary.back().name), value);
  core::fail(ExitCode::bad_data, "{}: merge {}: {} is neither \"left right\" nor [\"left\", \"right\"]", name_,
             result_.merges.size(), value);
}

json* DefinitionSax::insert(json value) {
  core::require(++values_ <= kMaximumEntries, ExitCode::bad_data, "{}: more than {} values", name_, kMaximumEntries);
  if (open_.empty()) return &(result_.rest = std::move(value));
  if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
  return &((*open_.back())[keys_.back()] = std::move(value));
}

bool DefinitionSax::add(json value) {
  core::require(!vocabulary_only_, ExitCode::bad_data, "{}: not an object of names and ids", name_);
  insert(std::move(value));
  return true;
}

bool DefinitionSax::number(std::int64_t value, const std::string& text) {
  if (place() == Place::rest) return add(value);
  if (place() != Place::vocabulary || value < 0 || value > INT32_MAX) refuse(text);
  result_.vocabulary.back().id = value;
  return true;
}

bool DefinitionSax::string(string_t& value) {
  switch (place()) {
    case Place::rest:
      return add(std::move(value));
    case Place::vocabulary:
      refuse(in_quotes(value));
    case Place::merge_pair:
      check_name(value);
      pair_.push_back(std::move(value));
      return true;
    case Place::merges:
      break;
  }
  RawDefinition::Merge merge;
  if (!split_merge(value, merge)) refuse(in_quotes(value));
  check_name(merge.left);
  check_name(merge.right);
  add_merge(std::move(merge));
  return true;
}

void DefinitionSax::add_merge(RawDefinition::Merge merge) {
  core::require(result_.merges.size() < kMaximumEntries, ExitCode::bad_data, "{}: more than {} merges", name_,
                kMaximumEntries);
  result_.merges.push_back(std::move(merge));
}

void DefinitionSax::enter(Place place) {
  core::require(places_.size() < kMaximumNesting, ExitCode::bad_data, "{}: nested deeper than {}", name_,
                kMaximumNesting);
  places_.push_back(place);
}

bool DefinitionSax::start_object(std::size_t) {
  if (place() != Place::rest) refuse("an object");
  const bool vocabulary = vocabulary_only_ ? places_.empty() : at_model_key("vocab");
  if (vocabulary) {
    result_.has_vocabulary = true;
    enter(Place::vocabulary);
    return true;
  }
  core::require(!vocabulary_only_, ExitCode::bad_data, "{}: not an object of names and ids", name_);
  enter(Place::rest);
  open_.push_back(insert(json::object()));
  keys_.emplace_back();
  return true;
}

bool DefinitionSax::start_array(std::size_t) {
  if (place() == Place::merges) {
    pair_.clear();
    enter(Place::merge_pair);
    return true;
  }
  if (place() != Place::rest) refuse("an array");
  if (at_model_key("merges")) {
    result_.has_merges = true;
    enter(Place::merges);
    return true;
  }
  core::require(!vocabulary_only_, ExitCode::bad_data, "{}: not an object of names and ids", name_);
  enter(Place::rest);
  open_.push_back(insert(json::array()));
  keys_.emplace_back();
  return true;
}

bool DefinitionSax::key(string_t& key) {
  if (place() == Place::vocabulary) {
    check_name(key);
    core::require(result_.vocabulary.size() < kMaximumEntries, ExitCode::bad_data, "{}: more than {} entries", name_,
                  kMaximumEntries);
    result_.vocabulary.push_back({std::move(key), 0});
    return true;
  }
  const bool at_vocabulary_or_merges =
      open_.size() == 2 && keys_.front() == "model" &&
      ((key == "vocab" && result_.has_vocabulary) || (key == "merges" && result_.has_merges));
  core::require(!open_.back()->contains(key) && !at_vocabulary_or_merges, ExitCode::bad_data,
                "{}: key {} is given twice", name_, in_quotes(key));
  keys_.back() = std::move(key);
  return true;
}

bool DefinitionSax::end() {
  const Place ended = place();
  places_.pop_back();
  if (ended != Place::rest) return true;
  open_.pop_back();
  keys_.pop_back();
  return true;
}

bool DefinitionSax::end_array() {
  if (place() == Place::merge_pair) {
    if (pair_.size() != 2 || pair_[0].empty() || pair_[1].empty())
      core::fail(ExitCode::bad_data, "{}: merge {}: {} names, a pair of two is wanted", name_, result_.merges.size(),
                 pair_.size());
    add_merge({std::move(pair_[0]), std::move(pair_[1])});
  }
  return end();
}

bool DefinitionSax::parse_error(std::size_t, const std::string&, const json::exception& error) {
  std::string_view what = error.what();
  if (const auto start = what.find("at line "); start != std::string_view::npos) what.remove_prefix(start + 3);
  core::fail(ExitCode::bad_data, "{}: not JSON ({})", name_, core::escaped(what.substr(0, 200)));
}

RawDefinition read(std::string_view text, const std::string& name, bool vocabulary_only) {
  core::require(text.size() <= kMaximumTokenizerFile, ExitCode::bad_data, "{}: {} bytes, at most {}", name, text.size(),
                kMaximumTokenizerFile);
  DefinitionSax sax(name, vocabulary_only);
  core::require(json::sax_parse(text, &sax), ExitCode::bad_data, "{}: not JSON", name);
  return sax.take();
}
}  // namespace

RawDefinition read_raw_definition(std::string_view json, const std::string& name) { return read(json, name, false); }
RawDefinition read_raw_vocabulary(std::string_view json, const std::string& name) { return read(json, name, true); }

bool split_merge(std::string_view text, RawDefinition::Merge& into) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == text.size()) return false;
  if (text.find(' ', space + 1) != std::string_view::npos) return false;
  into.left = text.substr(0, space);
  into.right = text.substr(space + 1);
  return true;
}

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kShown = 80;
  if (name.size() <= kShown) return fmt::format("\"{}\"", core::escaped(name));
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0u) == 0x80u) --end;
  return fmt::format("\"{}...\"", core::escaped(name.substr(0, end)));
}

}  // namespace trireme::data
