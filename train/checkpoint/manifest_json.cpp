#include "train/checkpoint/manifest_json.h"

#include <cmath>

#include "core/error.h"
#include "core/log.h"

namespace trireme::train {

using nlohmann::json;

namespace {

/// Builds the document and stops at the first thing that is not allowed.
class Builder final : public nlohmann::json_sax<json> {
 public:
  explicit Builder(int deepest) : deepest_(static_cast<std::size_t>(deepest)) {}
  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return refuse("binary value"); }
  bool start_object(std::size_t) override { return put(json::object()) && open(); }
  bool start_array(std::size_t) override { return put(json::array()) && open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    if (open_.back()->contains(value)) return refuse("key \"" + core::escaped(value) + "\" twice");
    key_ = std::move(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    return refuse("not JSON at byte " + std::to_string(position));
  }
  json& root() { return root_; }
  const std::string& problem() const { return problem_; }

 private:
  bool put(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      last_ = &root_;
    } else if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      last_ = &open_.back()->back();
    } else {
      last_ = &(*open_.back())[key_];
      *last_ = std::move(value);
    }
    return true;
  }
  bool open() {
    open_.push_back(last_);
    return open_.size() <= deepest_ || refuse("nested deeper than " + std::to_string(deepest_));
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  bool refuse(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  std::size_t deepest_;
  json root_;
  json* last_ = nullptr;
  std::vector<json*> open_;
  std::string key_, problem_;
};

void append_text(const std::string& text, std::string& out) {
  out += json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

json parse_json(const std::string& text, int deepest, const std::string& where) {
  Builder builder(deepest);
  const bool parsed = json::sax_parse(text, &builder);
  core::require(parsed, core::ExitCode::no_checkpoint, "{}: {}", where,
                builder.problem().empty() ? "not JSON" : builder.problem());
  return std::move(builder.root());
}

void append_json(const json& value, std::string& out) {
  if (value.is_number_float()) {
    const double number = value.get<double>();
    out += std::isfinite(number) ? fmt::format("{:.16e}", number) : "null";
  } else if (value.is_string()) {
    append_text(value.get_ref<const std::string&>(), out);
  } else if (value.is_array()) {
    const char* before = "[";
    for (const json& item : value) {
      out += std::exchange(before, ", ");
      append_json(item, out);
    }
    out += value.empty() ? "[]" : "]";
  } else if (value.is_object()) {
    const char* before = "{";
    for (const auto& [key, item] : value.items()) {
      out += std::exchange(before, ", ");
      append_text(key, out);
      out += ": ";
      append_json(item, out);
    }
    out += value.empty() ? "{}" : "}";
  } else {
    out += value.dump();
  }
}

}  // namespace trireme::train
