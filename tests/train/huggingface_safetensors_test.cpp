#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "tests/train/huggingface_files.h"
#include "train/huggingface/safetensors.h"
#include "train/huggingface/stored_elements.h"

namespace trireme::train {

namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::vector<SafeTensor> parse(const std::string& header, std::uint64_t data_bytes) {
  return parse_safetensors_header(std::as_bytes(std::span(header)), 8 + header.size() + data_bytes, "W.safetensors");
}

std::string refused(const std::string& header, std::uint64_t data_bytes) {
  return refusal([&] { parse(header, data_bytes); });
}

/// A header of one tensor "a".
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

}  // namespace

TEST(SafetensorsHeader, GivesTensorsInOrderOfTheirPlace) {
  const auto tensors = parse(
      R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},"__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"F64","shape":[],"data_offsets":[0,8]},"empty":{"dtype":"I8","shape":[0,7],"data_offsets":[8,8]}}   )",
      24 + 8);
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[1].name, "empty");
  EXPECT_EQ(tensors[2].name, "b");
  EXPECT_EQ(tensors[2].shape_text(), "[2, 3]");
  EXPECT_EQ(tensors[2].begin, 8u);
}

TEST(SafetensorsHeader, LengthIsLimitedBeforeAnythingIsAllocated) {
  const auto length = [](std::uint64_t value, std::uint64_t size) {
    return refusal([&] { check_header_length(value, size, "W.safetensors"); });
  };
  EXPECT_EQ(length(1099511627776, 2000), "W.safetensors: header length 1099511627776, at most 100000000");
  EXPECT_THAT(length(std::uint64_t{1} << 63, 2000), HasSubstr("9223372036854775808"));
  EXPECT_EQ(length(100, 107), "W.safetensors: header length 100, the file has 107 bytes");
  EXPECT_EQ(length(100, 108), "accepted");
  EXPECT_THAT(length(0, 7), HasSubstr("7 bytes"));
}

TEST(SafetensorsHeader, SizesMustFitShapeAndDtype) {
  EXPECT_EQ(refused(R"({"wte.weight":{"dtype":"F32","shape":[61,32],"data_offsets":[0,7800]}})", 7800),
            "W.safetensors: tensor \"wte.weight\" [61, 32] F32 needs 7808 bytes, offsets 0-7800 give 7800");
  EXPECT_EQ(refused(one("F32", "[2]", "[0,8]"), 8), "accepted");
  EXPECT_THAT(refused(one("F32", "[4294967296,4294967296]", "[0,0]"), 0), HasSubstr("[4294967296, 4294967296]"));
  EXPECT_THAT(refused(one("F32", "[2305843009213693952,8]", "[0,0]"), 0), HasSubstr("2305843009213693952"));
  EXPECT_THAT(refused(one("F32", "[2]", "[8,0]"), 8), HasSubstr("offsets 8-0 are reversed"));
  EXPECT_THAT(refused(one("F32", "[2]", "[0,8]"), 7), HasSubstr("ends at 8, the file holds 7 bytes of data"));
  EXPECT_THAT(refused(one("F32", "[2]", "[18446744073709551608,18446744073709551615]"), 8), HasSubstr("needs 8 bytes"));
  EXPECT_EQ(refused(one("F4", "[3]", "[0,1]"), 1).substr(0, 33), "W.safetensors: tensor \"a\" [3] F4:");
}

TEST(SafetensorsHeader, RangesHaveNoGapAndNoOverlap) {
  const std::string a = R"({"a":{"dtype":"U8","shape":[192],"data_offsets":[0,192]},)";
  EXPECT_EQ(refused(a + R"("b":{"dtype":"U8","shape":[64],"data_offsets":[128,192]}})", 192),
            "W.safetensors: \"a\" and \"b\" overlap at 128");
  EXPECT_EQ(refused(a + R"("b":{"dtype":"U8","shape":[8],"data_offsets":[256,264]}})", 264),
            "W.safetensors: 64 bytes at 192 belong to no tensor");
  EXPECT_EQ(refused(one("U8", "[7808]", "[0,7808]"), 7872), "W.safetensors: 64 bytes at 7808 belong to no tensor");
  EXPECT_EQ(refused(one("U8", "[8]", "[8,16]"), 16), "W.safetensors: 8 bytes at 0 belong to no tensor");
  EXPECT_EQ(refused("{}", 1), "W.safetensors: 1 bytes at 0 belong to no tensor");
  EXPECT_EQ(refused("{}", 0), "accepted");
}

TEST(SafetensorsHeader, NamesAndKeysAreUnique) {
  const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_EQ(refused("{" + a + "," + a + "}", 1), "W.safetensors: name \"a\" twice");
  EXPECT_EQ(refused(R"({"__metadata__":{},"__metadata__":{}})", 0), "W.safetensors: name \"__metadata__\" twice");
  EXPECT_THAT(refused(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
              HasSubstr("\"dtype\" twice"));
}

TEST(SafetensorsHeader, IsRefusedInAnyOtherForm) {
  EXPECT_EQ(refused("", 0), "W.safetensors: the header does not start with {");
  EXPECT_EQ(refused(" {}", 0), "W.safetensors: the header does not start with {");
  EXPECT_EQ(refused("{}  ", 0), "accepted");
  EXPECT_THAT(refused("{}x", 0), HasSubstr("not JSON at byte"));
  EXPECT_THAT(refused(std::string("{}\0x", 4), 0), HasSubstr("zero byte at 2"));
  EXPECT_THAT(refused("{\"\xff\":{}}", 0), HasSubstr("not JSON"));
  EXPECT_THAT(refused(std::string(10000, '{'), 0), HasSubstr("not JSON"));
  EXPECT_THAT(refused(R"({"a":3})", 0), HasSubstr("\"a\" is 3, not an object"));
  EXPECT_THAT(refused(R"({"a":{"dtype":"F32","shape":[1]}})", 0), HasSubstr("data_offsets is missing"));
  EXPECT_THAT(refused(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4), HasSubstr("dtype is missing"));
  EXPECT_THAT(refused(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4), HasSubstr("shape is missing"));
  EXPECT_THAT(refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"order":"C"}})", 4),
              HasSubstr("key \"order\" is unknown"));
  EXPECT_THAT(refused(one("Q8", "[1]", "[0,1]"), 1), HasSubstr("dtype \"Q8\" is unknown"));
  EXPECT_THAT(refused(one("F32", "[-1]", "[0,4]"), 4), HasSubstr("shape holds -1"));
  EXPECT_THAT(refused(one("F32", "[1.0]", "[0,4]"), 4), HasSubstr("shape holds 1.0"));
  EXPECT_THAT(refused(one("F32", "1", "[0,4]"), 4), HasSubstr("shape holds 1"));
  EXPECT_THAT(refused(one("F32", "[[1]]", "[0,4]"), 4), HasSubstr("shape holds an array"));
  EXPECT_THAT(refused(one("F32", "[1]", "[0,4,8]"), 4), HasSubstr("3 data_offsets"));
  EXPECT_THAT(refused(one("F32", "{}", "[0,4]"), 4), HasSubstr("an object"));
  EXPECT_THAT(refused(R"({"__metadata__":{"n":1}})", 0), HasSubstr("__metadata__ key \"n\" is 1, not text"));
  EXPECT_THAT(refused(R"({"__metadata__":null})", 0), HasSubstr("\"__metadata__\" is null"));
  EXPECT_THAT(refused("{\"\\u001b[2J\":3}", 0), testing::Not(HasSubstr("\x1b")));
}

TEST(SafetensorsHeader, KnowsEveryDtype) {
  const std::vector<std::pair<const char*, int>> bytes_of_eight{
      {"BOOL", 8}, {"U8", 8},      {"I8", 8},      {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"I16", 16}, {"U16", 16},
      {"F16", 16}, {"BF16", 16},   {"I32", 32},    {"U32", 32},    {"F32", 32},    {"F64", 64}, {"I64", 64},
      {"U64", 64}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},      {"F8_E8M0", 8}, {"C64", 64}};
  for (const auto& [dtype, bytes] : bytes_of_eight) {
    const std::string offsets = "[0," + std::to_string(bytes) + "]";
    EXPECT_EQ(refused(one(dtype, "[8]", offsets), static_cast<std::uint64_t>(bytes)), "accepted") << dtype;
  }
}

TEST(SafetensorsFile, ReadsBackWhatStands) {
  const Scratch scratch;
  FileBuilder builder;
  builder.add("x", "U8", {3}, "abc");
  builder.add("y", "U8", {2, 2}, "defg");
  put(scratch / "W.safetensors", builder.bytes());
  const SafetensorsFile file(scratch / "W.safetensors");
  std::string read(3, '\0');
  file.read(file.tensors()[1], 1, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, "efg");
}

TEST(SafetensorsFile, ShortOrCutFilesAreRefused) {
  const Scratch scratch;
  FileBuilder builder;
  builder.add("x", "U8", {3}, "abc");
  const std::string whole = builder.bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    put(scratch / "W.safetensors", whole.substr(0, size));
    EXPECT_THAT(refusal([&] { SafetensorsFile(scratch / "W.safetensors"); }),
                StartsWith((scratch / "W.safetensors").string() + ": "))
        << size;
  }
}

TEST(SafetensorsWriter, PutsWiderDtypesFirstThenNamesAndPadsTheHeader) {
  const Scratch scratch;
  const WriteContent content = [](const SafeTensor& tensor, core::WriteFile& file) {
    file.write(std::string(tensor.end - tensor.begin, tensor.name[0]));
  };
  write_safetensors(scratch / "W.safetensors",
                    {{.name = "b", .dtype = "BF16", .shape = {1}},
                     {.name = "d", .dtype = "F32", .shape = {1, 2}},
                     {.name = "c", .dtype = "F32", .shape = {}}},
                    content, false);
  std::string header =
      R"({"__metadata__":{"format":"pt"},"c":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("d":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]},"b":{"dtype":"BF16","shape":[1],"data_offsets":[12,14]}})";
  while (header.size() % 8 != 0) header += ' ';
  EXPECT_EQ(content_of(scratch / "W.safetensors"), safetensors_bytes(header, "ccccddddddddbb"));
}

TEST(StoredElements, HalfConvertsExactly) {
  EXPECT_EQ(from_half(0x0000), 0.0f);
  EXPECT_TRUE(std::signbit(from_half(0x8000)));
  EXPECT_EQ(from_half(0x3c00), 1.0f);
  EXPECT_EQ(from_half(0xc000), -2.0f);
  EXPECT_EQ(from_half(0x3555), 0.333251953125f);
  EXPECT_EQ(from_half(0x7bff), 65504.0f);
  EXPECT_EQ(from_half(0x0001), std::ldexp(1.0f, -24));
  EXPECT_EQ(from_half(0x83ff), -std::ldexp(1023.0f, -24));
  EXPECT_EQ(from_half(0x0400), std::ldexp(1.0f, -14));
  EXPECT_TRUE(std::isinf(from_half(0xfc00)));
  EXPECT_TRUE(std::isnan(from_half(0x7e00)));
}

TEST(StoredElements, DoublesAreRoundedToBf16Once) {
  const float tie = 1.0f + std::ldexp(1.0f, -8);  // halfway between 1 and the next bf16
  EXPECT_EQ(to_bf16_bits(tie), 0x3f80);
  EXPECT_EQ(to_bf16_bits(static_cast<double>(tie)), 0x3f80);
  EXPECT_EQ(to_bf16_bits(static_cast<double>(tie) + 1e-12), 0x3f81);
  EXPECT_EQ(to_bf16_bits(1.0 + 3 * std::ldexp(1.0, -8)), 0x3f82);
  EXPECT_EQ(to_bf16_bits(1.0 + 3 * std::ldexp(1.0, -8) - 1e-12), 0x3f81);
  EXPECT_EQ(to_bf16_bits(-static_cast<double>(tie) - 1e-12), 0xbf81);
}

TEST(StoredElements, DoublesThatFloatsCannotHoldAreSaid) {
  const double values[2] = {1e300, 1};
  float narrow[2];
  double wide[2];
  EXPECT_FALSE(convert_elements("F64", reinterpret_cast<const std::byte*>(values), std::span<float>(narrow)));
  EXPECT_TRUE(convert_elements("F64", reinterpret_cast<const std::byte*>(values), std::span<double>(wide)));
  EXPECT_EQ(wide[0], 1e300);
}

}  // namespace trireme::train
