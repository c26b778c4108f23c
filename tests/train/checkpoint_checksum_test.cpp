#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

#include "train/checkpoint/checksum.h"

namespace trireme::train {
namespace {

using core::DType;

template <class T>
ChunkSums of_zero_to_five(DType dtype) {
  std::vector<T> values;
  for (int i = 0; i < 6; ++i) values.push_back(T(static_cast<float>(i)));
  const std::vector<std::int64_t> shape{6}, offset{0};
  return chunk_sums(values.data(), dtype, shape, offset, shape);
}

TEST(Checksum, Crc32cOfTheUsualCheckWord) {
  const std::string_view text = "123456789";
  EXPECT_EQ(crc32c(std::as_bytes(std::span(text))), 0xe3069283u);
  EXPECT_EQ(crc32c(std::as_bytes(std::span(text.substr(4))), crc32c(std::as_bytes(std::span(text.substr(0, 4))))),
            0xe3069283u);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Checksum, ZeroToFiveHaveTheSpecifiedFingerprints) {
  EXPECT_EQ(of_zero_to_five<float>(DType::f32).values.fingerprint, 0x0f910a19a2d1c75eu);
  EXPECT_EQ(of_zero_to_five<core::bf16>(DType::bf16).values.fingerprint, 0xdf0c050c354f8934u);
  EXPECT_EQ(of_zero_to_five<double>(DType::f64).values.fingerprint, 0x58b09f5eb9cad13cu);
  EXPECT_EQ(of_zero_to_five<float>(DType::f32).crc32c, 0x78743a5du);
  EXPECT_EQ(of_zero_to_five<float>(DType::f32).values.squares, 55.0);
}

TEST(Checksum, SumsOfPartsAreThoseOfTheTensorHoweverItIsCut) {
  const std::vector<std::int64_t> shape{7, 5, 6};
  std::mt19937 random(1);
  std::vector<float> whole(7 * 5 * 6);
  for (float& value : whole) value = static_cast<float>(static_cast<int>(random() % 64)) - 31;
  const ValueSums expected =
      chunk_sums(whole.data(), DType::f32, shape, std::vector<std::int64_t>{0, 0, 0}, shape).values;
  for (int axis = 0; axis < 3; ++axis) {
    ValueSums sums;
    for (int part = 0; part < 2; ++part) {
      std::vector<std::int64_t> offset{0, 0, 0}, extent = shape;
      extent[axis] = part == 0 ? 2 : shape[axis] - 2;
      offset[axis] = part == 0 ? 0 : 2;
      std::vector<float> values;
      for (std::int64_t i = 0; i < extent[0]; ++i)
        for (std::int64_t j = 0; j < extent[1]; ++j)
          for (std::int64_t k = 0; k < extent[2]; ++k)
            values.push_back(whole[((offset[0] + i) * 5 + offset[1] + j) * 6 + offset[2] + k]);
      const ChunkSums chunk = chunk_sums(values.data(), DType::f32, shape, offset, extent);
      EXPECT_EQ(chunk.crc32c, crc32c(std::as_bytes(std::span(values))));
      sums.squares += chunk.values.squares;
      sums.fingerprint += chunk.values.fingerprint;
    }
    EXPECT_EQ(sums.fingerprint, expected.fingerprint) << "cut along " << axis;
    EXPECT_EQ(sums.squares, expected.squares);
  }
}

TEST(Checksum, FingerprintSeesTwoElementsThatChangedPlaces) {
  const std::vector<std::int64_t> shape{3}, offset{0};
  const std::vector<float> values{1, 2, 3}, swapped{2, 1, 3};
  EXPECT_NE(chunk_sums(values.data(), DType::f32, shape, offset, shape).values.fingerprint,
            chunk_sums(swapped.data(), DType::f32, shape, offset, shape).values.fingerprint);
}

}  // namespace
}  // namespace trireme::train
