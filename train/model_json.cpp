#include "train/model_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/log.h"

namespace trireme::train {

namespace {

constexpr std::array<std::string_view, 4> kLeftOut{"preset", "dropout", "init_std", "initial_weights"};

bool left_out(std::string_view name) { return std::find(kLeftOut.begin(), kLeftOut.end(), name) != kLeftOut.end(); }

class Writer final : public core::FieldVisitor {
 public:
  explicit Writer(nlohmann::json& out) : out_(out) {}
  void flag(std::string_view name, bool& value, std::string_view) override { put(name, value); }
  void integer(std::string_view name, std::int64_t& value, core::IntegerRange, std::string_view) override {
    put(name, value);
  }
  void number(std::string_view name, double& value, core::NumberRange, std::string_view) override { put(name, value); }
  void text(std::string_view name, std::string& value, std::string_view) override { put(name, value); }
  void choice(std::string_view name, std::string& value, std::span<const std::string_view>, std::string_view) override {
    put(name, value);
  }
  void integers(std::string_view name, std::vector<std::int64_t>& value, core::IntegerRange,
                std::string_view) override {
    put(name, value);
  }
  void texts(std::string_view name, std::vector<std::string>& value, std::string_view) override { put(name, value); }

 private:
  template <class T>
  void put(std::string_view name, const T& value) {
    if (!left_out(name)) out_[std::string(name)] = value;
  }
  nlohmann::json& out_;
};

class Reader final : public core::FieldVisitor {
 public:
  Reader(const nlohmann::json& in, const std::string& where) : in_(in), where_(where) {}

  void flag(std::string_view name, bool& value, std::string_view) override {
    take(name, value, "true or false", [](const auto& json) { return json.is_boolean(); });
  }
  void integer(std::string_view name, std::int64_t& value, core::IntegerRange range, std::string_view) override {
    if (!take(name, value, "an integer", is_integer)) return;
    core::require(value >= range.minimum && value <= range.maximum, core::ExitCode::bad_data,
                  "{}: {} = {} is outside {} to {}", where_, name, value, range.minimum, range.maximum);
  }
  void number(std::string_view name, double& value, core::NumberRange range, std::string_view) override {
    if (!take(name, value, "a number", [](const auto& json) { return json.is_number(); })) return;
    const bool inside = std::isfinite(value) && (range.open_minimum ? value > range.minimum : value >= range.minimum) &&
                        (range.open_maximum ? value < range.maximum : value <= range.maximum);
    core::require(inside, core::ExitCode::bad_data, "{}: {} = {} is outside {} to {}", where_, name, value,
                  range.minimum, range.maximum);
  }
  void text(std::string_view name, std::string& value, std::string_view) override {
    take(name, value, "text", is_text);
  }
  void choice(std::string_view name, std::string& value, std::span<const std::string_view> allowed,
              std::string_view) override {
    if (!take(name, value, "text", is_text)) return;
    core::require(std::find(allowed.begin(), allowed.end(), value) != allowed.end(), core::ExitCode::bad_data,
                  "{}: {} = \"{}\" is not one of {}", where_, name, core::escaped(value), fmt::join(allowed, ", "));
  }
  void integers(std::string_view name, std::vector<std::int64_t>& value, core::IntegerRange,
                std::string_view) override {
    take(name, value, "integers",
         [](const auto& json) { return json.is_array() && std::all_of(json.begin(), json.end(), is_integer); });
  }
  void texts(std::string_view name, std::vector<std::string>& value, std::string_view) override {
    take(name, value, "texts",
         [](const auto& json) { return json.is_array() && std::all_of(json.begin(), json.end(), is_text); });
  }
  void refuse_others() const {
    for (const auto& [key, value] : in_.items())
      core::require(seen_.contains(key), core::ExitCode::bad_data, "{}: key \"{}\" is unknown", where_,
                    core::escaped(key));
  }

 private:
  static bool is_text(const nlohmann::json& json) { return json.is_string(); }
  static bool is_integer(const nlohmann::json& json) {
    return json.is_number_integer() && (!json.is_number_unsigned() || json.get<std::uint64_t>() >> 63 == 0);
  }
  template <class T, class Accepts>
  bool take(std::string_view name, T& value, const char* accepted, Accepts accepts) {
    if (left_out(name)) return false;
    const auto found = in_.find(std::string(name));
    core::require(found != in_.end(), core::ExitCode::bad_data, "{}: key \"{}\" is missing", where_, name);
    core::require(accepts(*found), core::ExitCode::bad_data, "{}: {} = {} is not {}", where_, name, shown(*found),
                  accepted);
    value = found->template get<T>();
    seen_.insert(std::string(name));
    return true;
  }
  static std::string shown(const nlohmann::json& json) {
    return json.is_structured() ? std::string(json.type_name())
                                : json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }

  const nlohmann::json& in_;
  const std::string& where_;
  std::set<std::string> seen_;
};

}  // namespace

nlohmann::json model_to_json(const model::ModelConfig& config) {
  nlohmann::json out = nlohmann::json::object();
  model::ModelConfig copy = config;
  Writer writer(out);
  copy.fields(writer);
  return out;
}

model::ModelConfig model_from_json(const nlohmann::json& json, const std::string& where) {
  core::require(json.is_object(), core::ExitCode::bad_data, "{}: the model is {}, not an object", where,
                json.type_name());
  model::ModelConfig config;
  Reader reader(json, where);
  config.fields(reader);
  reader.refuse_others();
  model::resolve(config);
  const auto problems = model::problems(config);
  core::require(problems.empty(), core::ExitCode::bad_data, "{}: {}", where, fmt::join(problems, "; "));
  return config;
}

}  // namespace trireme::train
