#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>

#include "core/error.h"
#include "core/log.h"
#include "train/huggingface/safetensors.h"
#include "train/huggingface/stored_elements.h"

namespace trireme::train {

namespace {

using core::ExitCode;

constexpr std::size_t kMaximumRank = 64;

template <class... Args>
[[noreturn]] void refuse(const std::string& file, fmt::format_string<Args...> text, Args&&... args) {
  core::fail(ExitCode::bad_data, "{}: {}", file, fmt::format(text, std::forward<Args>(args)...));
}

/// Follows the only shape a header may have: {name: {dtype, shape, data_offsets}, "__metadata__": {text: text}}.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}
  std::vector<SafeTensor> tensors;

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t value) override { unexpected(fmt::format("{}", value)); }
  bool number_float(number_float_t, const string_t& text) override { unexpected(core::escaped(text)); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (at_ != At::numbers) unexpected(fmt::format("{}", value));
    std::vector<std::uint64_t>& numbers = field_ == "shape" ? tensors.back().shape : offsets_;
    if (numbers.size() == kMaximumRank)
      refuse(file_, "tensor \"{}\": {} has more than {} numbers", shown(), field_, kMaximumRank);
    numbers.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (at_ == At::metadata) return true;
    if (at_ != At::tensor || field_ != "dtype") unexpected("text");
    if (stored_bits(value) == 0) refuse(file_, "tensor \"{}\": dtype \"{}\" is unknown", shown(), core::escaped(value));
    tensors.back().dtype = value;
    return true;
  }

  bool start_object(std::size_t) override {
    if (at_ == At::start) {
      at_ = At::root;
    } else if (at_ == At::root && name_ == "__metadata__") {
      at_ = At::metadata;
    } else if (at_ == At::root) {
      at_ = At::tensor;
      tensors.push_back({.name = name_});
      offsets_.clear();
    } else {
      unexpected("an object");
    }
    fields_.clear();
    return true;
  }

  bool end_object() override {
    if (at_ == At::tensor) finish_tensor();
    at_ = At::root;
    return true;
  }

  bool start_array(std::size_t) override {
    if (at_ != At::tensor || field_ == "dtype") unexpected("an array");
    at_ = At::numbers;
    return true;
  }

  bool end_array() override {
    at_ = At::tensor;
    return true;
  }

  bool key(string_t& value) override {
    if (at_ == At::root) {
      if (!names_.insert(value).second) refuse(file_, "name \"{}\" twice", core::escaped(value));
      name_ = value;
      return true;
    }
    if (!fields_.insert(value).second) refuse(file_, "\"{}\": key \"{}\" twice", shown(), core::escaped(value));
    if (at_ == At::tensor && value != "dtype" && value != "shape" && value != "data_offsets")
      refuse(file_, "tensor \"{}\": key \"{}\" is unknown (dtype, shape, data_offsets)", shown(), core::escaped(value));
    field_ = value;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token, const nlohmann::json::exception&) override {
    refuse(file_, "header is not JSON at byte {} (near \"{}\")", position, core::escaped(token.substr(0, 40)));
  }

 private:
  enum class At { start, root, metadata, tensor, numbers };

  std::string shown() const { return core::escaped(name_); }

  [[noreturn]] void unexpected(const std::string& what) const {
    if (at_ == At::start) refuse(file_, "header is {}, not an object", what);
    if (at_ == At::root) refuse(file_, "\"{}\" is {}, not an object", shown(), what);
    if (at_ == At::metadata) refuse(file_, "__metadata__ key \"{}\" is {}, not text", core::escaped(field_), what);
    refuse(file_, "tensor \"{}\": {} holds {} ({})", shown(), field_, what,
           field_ == "dtype" ? "text" : "non-negative integers");
  }

  void finish_tensor() {
    for (const char* needed : {"dtype", "shape", "data_offsets"})
      if (!fields_.contains(needed)) refuse(file_, "tensor \"{}\": {} is missing", shown(), needed);
    if (offsets_.size() != 2)
      refuse(file_, "tensor \"{}\": {} data_offsets, a begin and an end are needed", shown(), offsets_.size());
    tensors.back().begin = offsets_[0];
    tensors.back().end = offsets_[1];
  }

  const std::string& file_;
  At at_ = At::start;
  std::string name_;
  std::string field_;
  std::unordered_set<std::string> names_;
  std::set<std::string> fields_;
  std::vector<std::uint64_t> offsets_;
};

/// Bytes of the tensor by its shape; `false` where the product leaves 64 bits or ends inside a byte.
bool bytes_needed(const SafeTensor& tensor, std::uint64_t& bytes) {
  std::uint64_t bits = static_cast<std::uint64_t>(stored_bits(tensor.dtype));
  for (const std::uint64_t extent : tensor.shape)
    if (__builtin_mul_overflow(bits, extent, &bits)) return false;
  bytes = bits / 8;
  return bits % 8 == 0;
}

void check_size(const SafeTensor& tensor, std::uint64_t data_bytes, const std::string& file) {
  const std::string what =
      fmt::format("tensor \"{}\" {} {}", core::escaped(tensor.name), tensor.shape_text(), tensor.dtype);
  std::uint64_t bytes = 0;
  if (!bytes_needed(tensor, bytes)) refuse(file, "{}: its size is no whole number of bytes below 2^61", what);
  if (tensor.end < tensor.begin) refuse(file, "{}: offsets {}-{} are reversed", what, tensor.begin, tensor.end);
  if (bytes != tensor.end - tensor.begin)
    refuse(file, "{} needs {} bytes, offsets {}-{} give {}", what, bytes, tensor.begin, tensor.end,
           tensor.end - tensor.begin);
  if (tensor.end > data_bytes)
    refuse(file, "{} ends at {}, the file holds {} bytes of data", what, tensor.end, data_bytes);
}

void check_cover(const std::vector<SafeTensor>& tensors, std::uint64_t data_bytes, const std::string& file) {
  std::uint64_t at = 0;
  const SafeTensor* before = nullptr;
  for (const SafeTensor& tensor : tensors) {
    if (tensor.begin > at) refuse(file, "{} bytes at {} belong to no tensor", tensor.begin - at, at);
    if (tensor.begin < at)
      refuse(file, "\"{}\" and \"{}\" overlap at {}", core::escaped(before->name), core::escaped(tensor.name),
             tensor.begin);
    at = tensor.end;
    before = &tensor;
  }
  if (at != data_bytes) refuse(file, "{} bytes at {} belong to no tensor", data_bytes - at, at);
}

}  // namespace

std::string SafeTensor::shape_text() const { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void check_header_length(std::uint64_t length, std::uint64_t file_size, const std::string& file) {
  if (length > kMaximumHeader) refuse(file, "header length {}, at most {}", length, kMaximumHeader);
  if (file_size < 8 || length > file_size - 8)
    refuse(file, "header length {}, the file has {} bytes", length, file_size);
}

std::vector<SafeTensor> parse_safetensors_header(std::span<const std::byte> header, std::uint64_t file_size,
                                                 const std::string& file) {
  check_header_length(header.size(), file_size, file);
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  if (text.empty() || text.front() != '{') refuse(file, "the header does not start with {{");
  // The JSON library takes a zero byte for the end of the text.
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos) refuse(file, "header has a zero byte at {}", zero);
  HeaderReader reader(file);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  const std::uint64_t data_bytes = file_size - 8 - header.size();
  for (const SafeTensor& tensor : reader.tensors) check_size(tensor, data_bytes, file);
  std::sort(reader.tensors.begin(), reader.tensors.end(), [](const SafeTensor& a, const SafeTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_cover(reader.tensors, data_bytes, file);
  return std::move(reader.tensors);
}

}  // namespace trireme::train
