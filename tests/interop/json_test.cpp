// SPDX-License-Identifier: Apache-2.0
#include "interop/json.hpp"

#include <gtest/gtest.h>

#include "interop/support.hpp"

namespace surefit {
namespace {

using testing::expect_error;

TEST(JsonTest, FieldsSayWhatIsWrongAndWhere) {
  const Json j = parse_json(R"({"config":{"filters":32,"rate":0.5,"name":"conv","same":true,
      "kernel":[3,3.0],"big":18446744073709551615,"none":null}})",
                            "m.json");
  const JsonWhere where("m.json");
  const Json& config = get_object(j, "config", where);
  const JsonWhere at = where.at("config");
  EXPECT_EQ(get_int(config, "filters", at, 1), 32);
  EXPECT_EQ(get_number(config, "rate", at), 0.5);
  EXPECT_EQ(get_string(config, "name", at), "conv");
  EXPECT_TRUE(get_bool(config, "same", at));
  EXPECT_EQ(get_ints(config, "kernel", at, 1, 9), (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(find_field(config, "none", at), nullptr);
  EXPECT_EQ(find_field(config, "missing", at), nullptr);
  expect_error<DataError>([&] { get_int(config, "filters", at, 64, 128); },
                          {"[m.json: config.filters]", "an integer from 64 to 128", "got 32"});
  expect_error<DataError>([&] { get_int(config, "rate", at); },
                          {"[m.json: config.rate]", "not an integer", "0.5"});
  expect_error<DataError>([&] { get_int(config, "big", at); }, {"config.big", "out of range"});
  expect_error<DataError>([&] { get_int(config, "name", at); }, {"wrong type", "\"conv\""});
  expect_error<DataError>([&] { get_ints(config, "kernel", at, 4); },
                          {"config.kernel[0]", "at least 4"});
  expect_error<DataError>([&] { get_string(config, "units", at); }, {"config.units", "missing"});
  expect_error<DataError>([&] { get_array(j, "config", where); },
                          {"an array", "an object of 7 members"});
  expect_error<DataError>([&] { get_bool(config, "none", at); }, {"true or false", "got null"});
  expect_error<DataError>([&] { allow_only(j, {"class_name"}, where); },
                          {"unknown field", "class_name", "config"});
}

TEST(JsonTest, RefusesHostileText) {
  const auto refused = [](const std::string& text, std::initializer_list<std::string_view> texts) {
    expect_error<DataError>([&] { parse_json(text, "m.json"); }, texts);
  };
  EXPECT_NO_THROW(parse_json(std::string(64, '[') + std::string(64, ']'), "m"));
  refused(std::string(65, '[') + std::string(65, ']'), {"m.json", "at most 64 levels"});
  refused(std::string(1000000, '['), {"at most 64 levels"});
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  refused(objects, {"at most 64 levels"});
  refused(R"({"a":1,"b":{"a":1,"a":2}})", {"twice", "\"a\""});
  EXPECT_NO_THROW(parse_json(R"([{"a":{"a":1}},{"a":1}])", "m"));
  refused("", {"not JSON"});
  refused("{} x", {"not JSON"});
  refused(std::string("{}\0x", 4), {"NUL", "byte 2"});
  refused("\"\xff\xfe\"", {"not JSON"});
  refused("1e999", {"not JSON"});
  refused("NaN", {"not JSON"});
  expect_error<DataError>([] { parse_json("[1,2,3]", "m", {.max_bytes = 3}); },
                          {"too large", "got 7"});
}

TEST(JsonTest, DumpsWhatIsNotText) {
  EXPECT_EQ(dump_json(Json{{"a", "\xff"}}), "{\"a\":\"\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace surefit
