#include "train/tensorboard.h"

#include <sys/time.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "train/checkpoint/checksum.h"

namespace trireme::train {

namespace {

// Wire format of protocol buffers: a key (field number, wire type), then the value.
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, std::uint32_t field, Wire wire) {
  put_varint(out, field << 3 | static_cast<std::uint32_t>(wire));
}

void put_bytes(std::string& out, std::uint32_t field, const std::string& value) {
  put_key(out, field, Wire::bytes);
  put_varint(out, value.size());
  out += value;
}

template <class T>
void put_raw(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

double wall_time() {
  timeval time{};
  ::gettimeofday(&time, nullptr);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

/// Event { double wall_time = 1; int64 step = 2; ... }
std::string event_at(std::int64_t step) {
  std::string event;
  put_key(event, 1, Wire::fixed64);
  put_raw(event, wall_time());
  put_key(event, 2, Wire::varint);
  put_varint(event, static_cast<std::uint64_t>(step));
  return event;
}

/// Event.summary = 5, Summary.value = 1, Value { tag = 1; ... }
std::string summary_event(std::int64_t step, const std::string& value) {
  std::string summary, event = event_at(step);
  put_bytes(summary, 1, value);
  put_bytes(event, 5, summary);
  return event;
}

/// TFRecord's masked CRC-32C: rotated right by 15 bits plus a constant.
std::uint32_t masked_sum(const std::string& bytes) {
  return std::rotr(crc32c(std::as_bytes(std::span(bytes))), 15) + 0xa282ead8u;
}

}  // namespace

TensorBoardFile::TensorBoardFile(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  char host[256] = "host";
  ::gethostname(host, sizeof host - 1);
  path_ = (directory /
           fmt::format("events.out.tfevents.{}.{}.{}", static_cast<std::int64_t>(wall_time()), host, ::getpid()))
              .string();
  file_ = std::fopen(path_.c_str(), "abe");
  core::require(file_ != nullptr, core::ExitCode::run_directory, "{}: cannot be opened: {}", path_,
                std::strerror(errno));
  std::string event = event_at(0);
  put_bytes(event, 3, "brain.Event:2");
  record(event);
}

TensorBoardFile::~TensorBoardFile() { std::fclose(file_); }

void TensorBoardFile::record(const std::string& event) {
  std::string length, out;
  put_raw(length, static_cast<std::uint64_t>(event.size()));
  out = length;
  put_raw(out, masked_sum(length));
  out += event;
  put_raw(out, masked_sum(event));
  const bool written = std::fwrite(out.data(), 1, out.size(), file_) == out.size() && std::fflush(file_) == 0;
  core::require(written, core::ExitCode::storage, "{}: cannot be written: {}", path_, std::strerror(errno));
}

void TensorBoardFile::scalar(const std::string& tag, std::int64_t step, double number) {
  std::string value;
  put_bytes(value, 1, tag);
  put_key(value, 2, Wire::fixed32);  // simple_value
  put_raw(value, static_cast<float>(number));
  record(summary_event(step, value));
}

void TensorBoardFile::text(const std::string& tag, std::int64_t step, const std::string& content) {
  // Value { tag = 1; tensor = 8 { dtype = 1: DT_STRING 7; tensor_shape = 2 { dim = 2 { size = 1: 1 } }; string_val = 8
  // }; metadata = 9 { plugin_data = 1 { plugin_name = 1 } } }
  std::string dimension, shape, tensor, plugin, metadata, value;
  put_key(dimension, 1, Wire::varint);
  put_varint(dimension, 1);
  put_bytes(shape, 2, dimension);
  put_key(tensor, 1, Wire::varint);
  put_varint(tensor, 7);
  put_bytes(tensor, 2, shape);
  put_bytes(tensor, 8, content);
  put_bytes(plugin, 1, "text");
  put_bytes(metadata, 1, plugin);
  put_bytes(value, 1, tag);
  put_bytes(value, 8, tensor);
  put_bytes(value, 9, metadata);
  record(summary_event(step, value));
}

}  // namespace trireme::train
