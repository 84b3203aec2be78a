#include "shoal/checkpoint/safetensors.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"
#include "support/temp_dir.hpp"

namespace shoal::checkpoint {
namespace {

using test::read_file;
using test::TempDir;

std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t n = header.size();
  return std::string(reinterpret_cast<const char*>(&n), 8) + header + data;
}

TEST(Safetensors, FileIsByteExact) {
  const TempDir dir;
  const float b[2] = {1.0f, -2.0f};
  const std::uint16_t c[3] = {1, 2, 3};
  const double a[1] = {0.5};
  const NamedArray arrays[] = {{{"w", DType::f32, {2, 1}}, b},
                               {{"c", DType::u16, {3}}, c},
                               {{"z", DType::f64, {}}, a},
                               {{"e", DType::f32, {0, 4}}, nullptr}};
  write_safetensors(dir / "x.safetensors", arrays, {{"format", "pt"}, {"a", "b\""}});
  // As safetensors.numpy.save writes the same, but for the order of metadata.
  std::string header =
      R"({"__metadata__":{"a":"b\"","format":"pt"},"z":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
      R"("e":{"dtype":"F32","shape":[0,4],"data_offsets":[8,8]},)"
      R"("w":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]},"c":{"dtype":"U16","shape":[3],"data_offsets":[16,22]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::string data(
      "\0\0\0\0\0\0\xe0\x3f"
      "\0\0\x80\x3f\0\0\0\xc0"
      "\1\0\2\0\3\0",
      22);
  EXPECT_EQ(read_file(dir / "x.safetensors"), file_of(header, data));
  EXPECT_EQ(dir.entries(), 1);
}

TEST(Safetensors, EveryDtypeComesBack) {
  const TempDir dir;
  const DType all[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32,
                       DType::i64, DType::u8,  DType::u16, DType::u32};
  std::vector<NamedArray> arrays;
  std::vector<std::vector<unsigned char>> values;
  for (DType t : all) {
    values.emplace_back(3 * size_of(t));
    for (std::size_t i = 0; i < values.back().size(); ++i)
      values.back()[i] = static_cast<unsigned char>(i * 37 + 5);
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    arrays.push_back({{std::string(name(all[i])) + " \xc3\xa9", all[i], {3, 1}}, values[i].data()});
  write_safetensors(dir / "x", arrays, {{"k", "v"}});
  const SafetensorsFile f(dir / "x");
  EXPECT_EQ(f.metadata(), (Metadata{{"k", "v"}}));
  ASSERT_EQ(f.tensors().size(), 9u);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const SafetensorsFile::Entry& e = f.at(arrays[i].info.name);
    EXPECT_EQ(e.dtype, all[i]);
    EXPECT_EQ(e.shape, (Shape{3, 1}));
    ASSERT_EQ(f.bytes(e).size(), values[i].size());
    EXPECT_EQ(std::memcmp(f.bytes(e).data(), values[i].data(), values[i].size()), 0);
  }
  EXPECT_MESSAGE(f.at("nope"), CheckpointError, "no tensor named nope among its 9");
}

TEST(Safetensors, RefusesToWriteWhatCannotBeRead) {
  const TempDir dir;
  const float v[1] = {0};
  const auto write = [&](const std::string& a, const std::string& b, const Metadata& m = {}) {
    const NamedArray arrays[] = {{{a, DType::f32, {1}}, v}, {{b, DType::f32, {1}}, v}};
    write_safetensors(dir / "x", arrays, m);
  };
  EXPECT_MESSAGE(write("a", "a"), CheckpointError, "x: two tensors named a");
  EXPECT_MESSAGE(write("a", ""), CheckpointError, "cannot be named ''");
  EXPECT_MESSAGE(write("a", "__metadata__"), CheckpointError, "cannot be named '__metadata__'");
  EXPECT_MESSAGE(write("a", "b", {{"__metadata__", "\xff"}}), CheckpointError, "must be UTF-8");
  EXPECT_MESSAGE(write_safetensors(dir / "no/x", std::span<const NamedArray>{}), CheckpointError,
                 "no/x: cannot be written: No such file");
  EXPECT_EQ(dir.entries(), 0);
}

TEST(Safetensors, ReadsWhatOthersWrite) {
  const TempDir dir;
  // No padding, keys of an entry in another order, tensors in no order of names, an escaped name.
  const SafetensorsFile f(dir.write(
      "x",
      file_of(
          R"({"b":{"shape":[1],"data_offsets":[0,4],"dtype":"F32"},"\u0061":{"dtype":"U8","shape":[1,1],"data_offsets":[4,5]}})",
          std::string("\0\0\x80\x3f\x07", 5))));
  float b = 0;
  std::memcpy(&b, f.bytes(f.at("b")).data(), 4);
  EXPECT_EQ(b, 1.0f);
  EXPECT_EQ(f.bytes(f.at("a"))[0], std::byte{7});
  EXPECT_TRUE(SafetensorsFile(dir.write("x", file_of("{}", ""))).tensors().empty());
}

TEST(Safetensors, DamageIsNamed) {
  const TempDir dir;
  const auto open = [&](const std::string& bytes) { return SafetensorsFile(dir.write("x", bytes)); };
  const auto one = [&](const std::string& entry, const std::string& data = "12345678") {
    return open(file_of(fmt::format(R"({{"t":{}}})", entry), data));
  };
  const auto entry = [](const char* dtype, const char* shape, const char* offsets) {
    return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":{}}})", dtype, shape, offsets);
  };
  const auto two = [&](const char* a, const std::string& first, const char* b, const std::string& second) {
    return open(file_of(fmt::format(R"({{"{}":{},"{}":{}}})", a, first, b, second), "12345678"));
  };
  EXPECT_MESSAGE(SafetensorsFile(dir / "none"), CheckpointError, "none: cannot be opened: No such file");
  EXPECT_MESSAGE(open(""), CheckpointError,
                 (dir / "x") + ": at offset 0: cut short: expected 8 bytes of header length, found 0");
  EXPECT_MESSAGE(open("1234567"), CheckpointError, "found 7");
  EXPECT_MESSAGE(open(std::string(8, '\0')), CheckpointError,
                 "at offset 0: header length: expected 2 to 100000000, found 0");
  EXPECT_MESSAGE(open(std::string(8, '\xff')), CheckpointError, "found 18446744073709551615");
  EXPECT_MESSAGE(open(file_of("{}      ", "").substr(0, 12)), CheckpointError,
                 "at offset 8: cut short in the header: expected 8 bytes, found 4");
  EXPECT_MESSAGE(open(file_of("[]", "")), CheckpointError, "expected '{', found byte 5b");
  EXPECT_MESSAGE(open(file_of("{\"a\":", "")), CheckpointError, "header: expected JSON");
  EXPECT_MESSAGE(open(file_of("{\"a\xff\":1}", "")), CheckpointError, "header: expected JSON");
  EXPECT_MESSAGE(open(file_of("{\"__metadata__\":[]}", "")), CheckpointError,
                 "__metadata__: expected an object");
  EXPECT_MESSAGE(open(file_of("{\"__metadata__\":{\"k\":1}}", "")), CheckpointError,
                 "k: expected a string, found number");
  EXPECT_MESSAGE(open(file_of(std::string(1000, '[').replace(0, 5, "{\"a\":"), "")), CheckpointError,
                 "nested more than three deep");
  EXPECT_MESSAGE(one("1"), CheckpointError, "tensor t: expected an object of dtype, shape and data_offsets");
  EXPECT_MESSAGE(one(R"({"dtype":"F32","shape":[2]})"), CheckpointError, "expected an object of");
  EXPECT_MESSAGE(one(entry("F33", "[2]", "[0,8]")), CheckpointError, "dtype: expected one of F64, F32");
  EXPECT_MESSAGE(one(entry("F32", "2", "[0,8]")), CheckpointError, "shape: expected a list");
  EXPECT_MESSAGE(one(entry("F32", "[1,1,1,1,1,1,2]", "[0,8]")), CheckpointError, "at most 6 extents");
  EXPECT_MESSAGE(one(entry("F32", "[-2]", "[0,8]")), CheckpointError,
                 "shape: expected a whole number of 0 or more, found -2");
  EXPECT_MESSAGE(one(entry("F32", "[2.0]", "[0,8]")), CheckpointError, "found 2.0");
  EXPECT_MESSAGE(one(entry("F32", "[18446744073709551615]", "[0,8]")), CheckpointError,
                 "found 18446744073709551615");
  EXPECT_MESSAGE(one(entry("F32", "[4611686018427387906,1]", "[0,8]")), CheckpointError,
                 "do not fit 64 bits");
  EXPECT_MESSAGE(one(entry("F32", "[2]", "[0]")), CheckpointError, "data_offsets: expected two numbers");
  EXPECT_MESSAGE(one(entry("F32", "[2]", "[8,0]")), CheckpointError, "found [8, 0]");
  EXPECT_MESSAGE(one(entry("F32", "[3]", "[0,12]")), CheckpointError,
                 "expected a range within the 8 bytes of data, found [0, 12]");
  EXPECT_MESSAGE(one(entry("F32", "[3]", "[0,8]")), CheckpointError, "expected 12 bytes for f32[3], found 8");
  EXPECT_MESSAGE(one(entry("F32", "[1]", "[4,8]")), CheckpointError, "tensor t: its data leaves a gap");
  EXPECT_MESSAGE(one(entry("F32", "[1]", "[0,4]")), CheckpointError,
                 "bytes after the last tensor: expected 0, found 4");
  EXPECT_MESSAGE(two("a", entry("F32", "[2]", "[0,8]"), "b", entry("F32", "[1]", "[4,8]")), CheckpointError,
                 "tensor b: its data overlaps");
  EXPECT_MESSAGE(two("a", entry("U8", "[0]", "[0,0]"), "a", entry("F32", "[2]", "[0,8]")), CheckpointError,
                 "the key 'a' stands twice");
  EXPECT_MESSAGE(one(R"({"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})"), CheckpointError,
                 "the key 'dtype' stands twice");
}

TEST(Safetensors, RandomDamageIsRefusedOrHarmless) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  const TempDir dir;
  const float v[6] = {1, 2, 3, 4, 5, 6};
  const NamedArray arrays[] = {
      {{"a", DType::f32, {2, 3}}, v}, {{"b", DType::i64, {3}}, v}, {{"c", DType::u8, {1}}, v}};
  write_safetensors(dir / "x", arrays, {{"k", "v"}});
  const std::string good = read_file(dir / "x");
  int refused = 0;
  for (int round = 0; round < 800; ++round) {
    std::string bad = good.substr(0, rng() % 4 ? good.size() : rng() % good.size());
    for (unsigned i = rng() % 4; i > 0 && !bad.empty(); --i) {
      // Mostly characters that keep it JSON.
      const char digits[] = "0123456789,[]{}:\"";
      bad[rng() % bad.size()] = rng() % 4 ? digits[rng() % 17] : static_cast<char>(rng());
    }
    try {
      const SafetensorsFile f(dir.write("x", bad));
      std::size_t total = 0;
      for (const auto& [name, e] : f.tensors()) {
        EXPECT_EQ(static_cast<std::int64_t>(f.bytes(e).size()), e.shape.numel() * size_of(e.dtype));
        total += f.bytes(e).size();
      }
      EXPECT_LE(total, bad.size());
    } catch (const CheckpointError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace shoal::checkpoint
