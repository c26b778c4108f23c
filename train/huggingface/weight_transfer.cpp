#include "train/huggingface/weight_transfer.h"

#include <algorithm>
#include <type_traits>

#include "core/error.h"
#include "core/log.h"
#include "train/huggingface/stored_elements.h"

namespace trireme::train {

namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;  ///< elements

/// Reads elements of one stored tensor in order.
class ElementSource {
 public:
  explicit ElementSource(const ModelFiles::Place& place)
      : place_(place), width_(static_cast<std::size_t>(stored_bits(place.tensor->dtype)) / 8) {}

  template <class T>
  void read(std::span<T> to) {
    for (std::size_t done = 0; done < to.size();) {
      const std::span<T> part = to.subspan(done, std::min(kChunk, to.size() - done));
      bytes_.resize(part.size() * width_);
      place_.file->read(*place_.tensor, at_ * width_, bytes_);
      core::require(convert_elements(place_.tensor->dtype, bytes_.data(), part), core::ExitCode::bad_data,
                    "{}: tensor \"{}\" has an F64 value that fp32 cannot hold", place_.file->path(),
                    core::escaped(place_.tensor->name));
      at_ += part.size();
      done += part.size();
    }
  }

 private:
  const ModelFiles::Place& place_;
  std::size_t width_;
  std::size_t at_ = 0;
  std::vector<std::byte> bytes_;
};

template <class T>
std::span<T> elements_of(const model::Parameter& part, const core::Tensor& flat) {
  const std::int64_t count = part.shape.elements();
  return {flat.rows(part.offset, count).as<T>(), static_cast<std::size_t>(count)};
}

/// Calls `each(first, block)` for blocks of stored rows [in, sum of out], `block` being their memory.
template <class T, class Each>
void for_row_blocks(const HfTensor& tensor, Each each) {
  const auto width = static_cast<std::size_t>(tensor.rows());
  const auto count = static_cast<std::size_t>(tensor.columns());
  const std::size_t rows = std::max<std::size_t>(1, kChunk / std::max<std::size_t>(1, width));
  std::vector<T> block(std::min(rows, count) * width);
  for (std::size_t first = 0; first < count; first += rows)
    each(first, std::span(block).first(std::min(rows, count - first) * width));
}

/// Copies between `block`, stored rows from `first` on, and the parts; `move(stored, ours)` copies one element.
template <class T, class Move>
void transpose_block(const HfTensor& tensor, const core::Tensor& flat, std::size_t first, std::span<T> block,
                     Move move) {
  const auto width = static_cast<std::size_t>(tensor.rows());
  const auto in = static_cast<std::size_t>(tensor.columns());
  const std::size_t rows = block.size() / width;
  std::size_t column = 0;
  for (const model::Parameter* part : tensor.parts) {
    const std::span<T> ours = elements_of<T>(*part, flat);
    const auto out = static_cast<std::size_t>(part->shape[0]);
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t r = 0; r < rows; ++r) move(block[r * width + column + o], ours[o * in + first + r]);
    column += out;
  }
}

template <class T>
void load(const ModelFiles::Place& place, const HfTensor& tensor, const core::Tensor& flat) {
  ElementSource source(place);
  if (!tensor.transposed) {
    for (const model::Parameter* part : tensor.parts) source.read(elements_of<T>(*part, flat));
    return;
  }
  for_row_blocks<T>(tensor, [&](std::size_t first, std::span<T> block) {
    source.read(block);
    transpose_block<T>(tensor, flat, first, block, [](const T& stored, T& ours) { ours = stored; });
  });
}

template <class T>
void append(std::span<const T> values, std::string_view dtype, core::WriteFile& file) {
  if (dtype == "F32" && std::is_same_v<T, float>) {
    file.write(std::as_bytes(values));
    return;
  }
  std::vector<float> wide;
  std::vector<std::uint16_t> narrow;
  for (std::size_t done = 0; done < values.size(); done += kChunk) {
    const auto part = values.subspan(done, std::min(kChunk, values.size() - done));
    if (dtype == "F32") {
      wide.resize(part.size());
      std::transform(part.begin(), part.end(), wide.begin(), [](T value) { return static_cast<float>(value); });
      file.write(std::as_bytes(std::span<const float>(wide)));
    } else {
      narrow.resize(part.size());
      std::transform(part.begin(), part.end(), narrow.begin(), [](T value) { return to_bf16_bits(value); });
      file.write(std::as_bytes(std::span<const std::uint16_t>(narrow)));
    }
  }
}

template <class T>
void store(const HfTensor& tensor, const core::Tensor& flat, std::string_view dtype, core::WriteFile& file) {
  if (!tensor.transposed) {
    for (const model::Parameter* part : tensor.parts) append<T>(elements_of<T>(*part, flat), dtype, file);
    return;
  }
  for_row_blocks<T>(tensor, [&](std::size_t first, std::span<T> block) {
    transpose_block<T>(tensor, flat, first, block, [](T& stored, const T& ours) { stored = ours; });
    append<T>(block, dtype, file);
  });
}

}  // namespace

void load_tensor(const ModelFiles::Place& place, const HfTensor& tensor, const core::Tensor& flat) {
  if (flat.dtype == core::DType::f64)
    load<double>(place, tensor, flat);
  else
    load<float>(place, tensor, flat);
}

void store_tensor(const HfTensor& tensor, const core::Tensor& flat, std::string_view dtype, core::WriteFile& file) {
  core::check(dtype == "F32" || dtype == "BF16", "weights are not written as {}", dtype);
  if (flat.dtype == core::DType::f64)
    store<double>(tensor, flat, dtype, file);
  else
    store<float>(tensor, flat, dtype, file);
}

bool equal_bits(const ModelFiles::Place& a, const ModelFiles::Place& b) {
  if (a.tensor->dtype != b.tensor->dtype || a.tensor->shape != b.tensor->shape) return false;
  std::vector<std::byte> left;
  std::vector<std::byte> right;
  const std::uint64_t total = a.tensor->end - a.tensor->begin;
  for (std::uint64_t at = 0; at < total; at += kChunk) {
    left.resize(std::min<std::uint64_t>(kChunk, total - at));
    right.resize(left.size());
    a.file->read(*a.tensor, at, left);
    b.file->read(*b.tensor, at, right);
    if (left != right) return false;
  }
  return true;
}

}  // namespace trireme::train
