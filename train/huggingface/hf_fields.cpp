#include "train/huggingface/hf_fields.h"

#include <cmath>

#include "core/error.h"
#include "core/log.h"

namespace trireme::train {

using core::ExitCode;

HfFields::HfFields(const nlohmann::json& json, std::string file, std::string prefix)
    : json_(json), file_(std::move(file)), prefix_(std::move(prefix)) {
  core::require(json.is_object(), ExitCode::bad_data, "{}: {} is {}, not an object", file_,
                prefix_.empty() ? "the file" : prefix_.substr(0, prefix_.size() - 1), json.type_name());
}

const nlohmann::json* HfFields::find(const char* key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

std::string HfFields::shown(const std::string& key) const {
  const auto found = json_.find(key);
  std::string value = found == json_.end()
                          ? "absent"
                          : found->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 100);
  return fmt::format("{}{} = {}", prefix_, core::escaped(key), value);
}

void HfFields::refuse(const std::string& key, const std::string& accepted) const {
  core::fail(ExitCode::bad_data, "{}: {} is not supported ({})", file_, shown(key), accepted);
}

void HfFields::wrong_type(const char* key, const char* accepted) const {
  core::fail(ExitCode::bad_data, "{}: {} is not {}", file_, shown(key), accepted);
}

std::int64_t HfFields::integer(const char* key, std::int64_t maximum) const {
  core::require(find(key) != nullptr, ExitCode::bad_data, "{}: {}{} is missing", file_, prefix_, key);
  return integer(key, maximum, 0);
}

std::int64_t HfFields::integer(const char* key, std::int64_t maximum, std::int64_t absent) const {
  const nlohmann::json* value = find(key);
  if (!value) return absent;
  if (!value->is_number_integer()) wrong_type(key, "an integer");
  // A value above the signed range is stored unsigned.
  const bool wraps = value->is_number_unsigned() && value->get<std::uint64_t>() >> 63 != 0;
  const bool inside = !wraps && value->get<std::int64_t>() >= 1 && value->get<std::int64_t>() <= maximum;
  core::require(inside, ExitCode::bad_data, "{}: {} is outside 1 to {}", file_, shown(key), maximum);
  return value->get<std::int64_t>();
}

std::optional<double> HfFields::number(const char* key) const {
  const nlohmann::json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) wrong_type(key, "a number");
  return value->get<double>();
}

double HfFields::number(const char* key, double absent) const { return number(key).value_or(absent); }

bool HfFields::flag(const char* key, bool absent) const {
  const nlohmann::json* value = find(key);
  if (!value) return absent;
  if (!value->is_boolean()) wrong_type(key, "true or false");
  return value->get<bool>();
}

std::string HfFields::text(const char* key, const std::string& absent) const {
  const nlohmann::json* value = find(key);
  if (!value) return absent;
  if (!value->is_string()) wrong_type(key, "text");
  return value->get<std::string>();
}

HfFields HfFields::object(const char* key) const { return {json_.at(key), file_, prefix_ + key + "."}; }

}  // namespace trireme::train
