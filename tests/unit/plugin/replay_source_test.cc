// Trace files and synthetic workloads as sources of requests.
#include "tests/unit/plugin/replay_case.h"
#include "understudy/mocker/replay.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using Lines = std::vector<std::string>;

std::string Row(double timestamp, int id, const std::string& more = "") {
  return R"({"timestamp":)" + std::to_string(timestamp) +
         R"(,"input_length":600,"output_length":3,"hash_ids":[)" + std::to_string(id) + "," +
         std::to_string(id + 1) + "]" + more + "}";
}

std::vector<ReplayRow> ReadAll(ReplaySource& source, ReplayOrder order = ReplayOrder::kByTime) {
  std::vector<ReplayRow> rows;
  const Status opened = source.Open(order);
  EXPECT_TRUE(opened) << opened.error().message;
  ReplayRow row;
  for (;;) {
    const Result<bool> there = source.Next(row);
    EXPECT_TRUE(there) << there.error().message;
    if (!there || !*there) {
      return rows;
    }
    rows.push_back(row);
  }
}

std::vector<double> Times(const std::vector<ReplayRow>& rows) {
  std::vector<double> times;
  for (const ReplayRow& row : rows) {
    times.push_back(row.timestamp_ms);
  }
  return times;
}

std::string ErrorOf(const Lines& lines, ReplayOrder order = ReplayOrder::kByTime) {
  const TraceFile file(lines);
  const Status opened = NewMooncakeReader(file.path())->Open(order);
  if (opened) {
    return "";
  }
  std::string message = opened.error().message;
  const std::size_t at = message.find(file.path());
  return at == std::string::npos ? message : message.replace(at, file.path().size(), "FILE");
}

TEST(MooncakeReader, RowsInOrderOfTimeAreReadWithoutBeingHeld) {
  Lines lines;
  for (int i = 0; i < 5000; ++i) {
    lines.push_back(Row(100.0 + i, 2 * i));
  }
  const TraceFile file(lines);
  const auto source = NewMooncakeReader(file.path());

  const std::vector<ReplayRow> rows = ReadAll(*source);

  ASSERT_EQ(rows.size(), 5000U);
  EXPECT_EQ(source->rows_total(), 5000U);
  EXPECT_EQ(source->rows_held(), 0U);
  EXPECT_FALSE(source->has_sessions());
  EXPECT_EQ(rows[7].timestamp_ms, 7.0) << "the earliest one is time 0";
  EXPECT_EQ(rows[7].hash_ids, (std::vector<std::uint64_t>{14, 15}));
  EXPECT_EQ(rows[7].input_length, 600U);
  EXPECT_EQ(rows[7].session_id, "");
  EXPECT_EQ(rows[7].next, kNoTurn);
}

TEST(MooncakeReader, RowsOutOfOrderComeByTimeAndEqualTimesAsListed) {
  const TraceFile file(Lines{Row(30, 1), Row(10, 2), Row(20, 3), Row(10, 4)});
  const auto source = NewMooncakeReader(file.path());

  const std::vector<ReplayRow> rows = ReadAll(*source);

  EXPECT_EQ(Times(rows), (std::vector<double>{0, 0, 10, 20}));
  EXPECT_EQ(rows[0].hash_ids[0], 2U);
  EXPECT_EQ(rows[1].hash_ids[0], 4U);
  EXPECT_EQ(source->rows_held(), 4U);
}

TEST(MooncakeReader, AsListedNeedsNoTimes) {
  const TraceFile file(Lines{R"({"output_length":1,"hash_ids":[5]})", Row(3, 6), Row(1, 7)});
  const auto source = NewMooncakeReader(file.path());

  const std::vector<ReplayRow> rows = ReadAll(*source, ReplayOrder::kAsListed);

  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].hash_ids[0], 5U);
  EXPECT_EQ(rows[2].hash_ids[0], 7U);
  EXPECT_EQ(source->rows_held(), 0U);
}

TEST(MooncakeReader, TurnsOfASessionFollowEachOther) {
  const TraceFile file(Lines{Row(0, 1, R"(,"session_id":"a")"),
                             Row(5, 2),
                             Row(900, 3, R"(,"session_id":"a","delay":40)"),
                             Row(6, 4, R"(,"session_id":"b")"),
                             Row(950, 5, R"(,"session_id":"a")")});
  const auto source = NewMooncakeReader(file.path());

  const std::vector<ReplayRow> rows = ReadAll(*source);

  ASSERT_EQ(rows.size(), 3U) << "later turns are not first ones";
  EXPECT_TRUE(source->has_sessions());
  EXPECT_EQ(source->rows_total(), 5U);
  EXPECT_EQ(source->rows_held(), 4U) << "places of the rows with a session";
  EXPECT_EQ(rows[1].session_id, "request_2") << "a session of its own";
  EXPECT_EQ(rows[2].next, kNoTurn);
  ASSERT_NE(rows[0].next, kNoTurn);
  EXPECT_EQ(rows[0].next_delay_ms, 40.0) << "given";
  ReplayRow second;
  ASSERT_TRUE(source->ReadTurn(rows[0].next, second));
  EXPECT_EQ(second.hash_ids[0], 3U);
  EXPECT_EQ(second.session_id, "a");
  EXPECT_EQ(second.next_delay_ms, 50.0) << "distance of the timestamps";
  ReplayRow third;
  ASSERT_TRUE(source->ReadTurn(second.next, third));
  EXPECT_EQ(third.hash_ids[0], 5U);
  EXPECT_EQ(third.next, kNoTurn);
}

TEST(MooncakeReader, TakesOtherNamesOfFieldsAndSkipsUnknownOnes) {
  const TraceFile file(Lines{
      R"({"created_time":2.5,"input_tokens":7,"output_tokens":2,"hash_ids":[1],"x":{"y":[1]},)"
      R"("priority":-3,"strict_priority":4,"output_token_ids":[8,9],"request_id":"r",)"
      R"("session_id":null,"policy_class":"p"})"});
  const auto source = NewMooncakeReader(file.path());

  const std::vector<ReplayRow> rows = ReadAll(*source);

  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].input_length, 7U);
  EXPECT_EQ(rows[0].output_length, 2U);
  EXPECT_EQ(rows[0].priority, -3);
  EXPECT_EQ(rows[0].strict_priority, 4U);
  EXPECT_EQ(rows[0].output_token_ids, (std::vector<std::uint32_t>{8, 9}));
  EXPECT_EQ(rows[0].request_id, "r");
}

TEST(MooncakeReader, APromptIsAtMostWhatItsHashIdsMake) {
  const TraceFile file(
      Lines{R"({"timestamp":0,"input_length":5000,"output_length":1,"hash_ids":[1,2]})",
            R"({"timestamp":0,"output_length":1,"hash_ids":[1,2,3]})"});
  const auto source = NewMooncakeReader(file.path(), 100);

  const std::vector<ReplayRow> rows = ReadAll(*source);

  EXPECT_EQ(rows[0].input_length, 200U);
  EXPECT_EQ(rows[1].input_length, 300U) << "no length: all of them";
}

TEST(MooncakeReader, BlankLinesCarriageReturnsAndAMissingLastEndAreFine) {
  const TraceFile file(Lines{"", "  \t", Row(0, 1) + "\r", "", Row(1, 2)});
  std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) - 1);
  const auto source = NewMooncakeReader(file.path());

  EXPECT_EQ(ReadAll(*source).size(), 2U);
}

TEST(MooncakeReader, ALineMayBeLongerThanTheBuffer) {
  std::string ids;
  for (int i = 0; i < 300000; ++i) {
    ids += std::to_string(i % 97) + ",";
  }
  const TraceFile file(
      Lines{Row(0, 1),
            R"({"timestamp":1,"output_length":1,"input_length":1,"hash_ids":[)" + ids + "7]}",
            Row(0.5, 2)});
  const auto source = NewMooncakeReader(file.path(), 16);

  const std::vector<ReplayRow> rows = ReadAll(*source);

  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[2].hash_ids.size(), 300001U);
}

struct BadTrace {
  const char* name;
  const char* line;
  const char* error;
};

void PrintTo(const BadTrace& trace, std::ostream* out) {
  *out << trace.name;
}

class MooncakeReaderErrors : public ::testing::TestWithParam<BadTrace> {};

TEST_P(MooncakeReaderErrors, NameFileLineFieldAndValue) {
  EXPECT_EQ(ErrorOf({Row(0, 1), GetParam().line}),
            std::string("trace file FILE, line 2: ") + GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    Lines,
    MooncakeReaderErrors,
    ::testing::Values(
        BadTrace{"NoJson", "hello", "got hello, expected a JSON object"},
        BadTrace{"Array", "[1]", "got [1], expected a JSON object"},
        BadTrace{
            "Two",
            R"({"timestamp":1,"output_length":1,"hash_ids":[1]} {})",
            R"(something follows the JSON object: {"timestamp":1,"output_length":1,"hash_ids":[1]} {})"},
        BadTrace{"Cut",
                 R"({"timestamp":1,"output_length")",
                 R"(got {"timestamp":1,"output_length", expected a JSON object)"},
        BadTrace{"NegativeTime",
                 R"({"timestamp":-1,"output_length":1,"hash_ids":[1]})",
                 R"(field "timestamp": got -1, expected milliseconds of 0 to 1e12)"},
        BadTrace{"NaN",
                 R"({"timestamp":NaN,"output_length":1,"hash_ids":[1]})",
                 R"(field "timestamp": got NaN, expected milliseconds of 0 to 1e12)"},
        BadTrace{"HugeTime",
                 R"({"timestamp":1e300,"output_length":1,"hash_ids":[1]})",
                 R"(field "timestamp": got 1e300, expected milliseconds of 0 to 1e12)"},
        BadTrace{"InfiniteTime",
                 R"({"timestamp":1e999,"output_length":1,"hash_ids":[1]})",
                 R"(field "timestamp": got 1e999, expected milliseconds of 0 to 1e12)"},
        BadTrace{"TextTime",
                 R"({"timestamp":"1","output_length":1,"hash_ids":[1]})",
                 R"(field "timestamp": got "1", expected milliseconds of 0 to 1e12)"},
        BadTrace{"NoTime",
                 R"({"output_length":1,"hash_ids":[1]})",
                 R"(field "timestamp" is missing (first turn of a session))"},
        BadTrace{
            "NoOutput", R"({"timestamp":1,"hash_ids":[1]})", R"(field "output_length" is missing)"},
        BadTrace{"ZeroOutput",
                 R"({"timestamp":1,"output_length":0,"hash_ids":[1]})",
                 R"(field "output_length": got 0, expected a whole number of 1 to 16777216)"},
        BadTrace{"HugeInput",
                 R"({"timestamp":1,"output_length":1,"input_length":16777217,"hash_ids":[1]})",
                 R"(field "input_length": got 16777217, expected a whole number of 1 to 16777216)"},
        BadTrace{"FractionInput",
                 R"({"timestamp":1,"output_length":1,"input_length":1.5,"hash_ids":[1]})",
                 R"(field "input_length": got 1.5, expected a whole number of 1 to 16777216)"},
        BadTrace{"NoIds", R"({"timestamp":1,"output_length":1})", R"(field "hash_ids" is missing)"},
        BadTrace{"EmptyIds",
                 R"({"timestamp":1,"output_length":1,"hash_ids":[]})",
                 R"(field "hash_ids": got [], expected at least one id)"},
        BadTrace{
            "NegativeId",
            R"({"timestamp":1,"output_length":1,"hash_ids":[1,-5]})",
            R"(field "hash_ids[1]": got -5, expected a whole number of 0 to 18446744073709551615)"},
        BadTrace{"IdsNoArray",
                 R"({"timestamp":1,"output_length":1,"hash_ids":7})",
                 R"(field "hash_ids": got 7, expected an array of whole numbers)"},
        BadTrace{"OutputIds",
                 R"({"timestamp":1,"output_length":2,"hash_ids":[1],"output_token_ids":[1]})",
                 R"(field "output_token_ids": got 1 ids, expected output_length = 2)"},
        BadTrace{"FirstDelay",
                 R"({"timestamp":1,"delay":5,"output_length":1,"hash_ids":[1]})",
                 R"(field "delay": sets delay on the first turn of session request_2)"},
        BadTrace{"Priority",
                 R"({"timestamp":1,"output_length":1,"hash_ids":[1],"priority":99999999999})",
                 R"(field "priority": got 99999999999, expected a whole number of 32 bits)"},
        BadTrace{"Session",
                 R"({"timestamp":1,"output_length":1,"hash_ids":[1],"session_id":4})",
                 R"(field "session_id": got 4, expected a string)"}),
    [](const auto& p) { return std::string(p.param.name); });

TEST(MooncakeReader, RefusesTimesOfASessionThatGoBack) {
  EXPECT_EQ(ErrorOf({Row(5, 1, R"(,"session_id":"s")"), Row(2, 2, R"(,"session_id":"s")")}),
            "trace file FILE, line 2: field \"timestamp\": got 2.000000, which is before the "
            "previous turn of session s");
  EXPECT_EQ(ErrorOf({R"({"session_id":"s","output_length":1,"hash_ids":[1]})",
                     Row(2, 2, R"(,"session_id":"s")")},
                    ReplayOrder::kAsListed),
            "trace file FILE, line 2: field \"timestamp\": session s cannot infer delay without a "
            "previous timestamp");
}

TEST(MooncakeReader, RefusesFilesThatAreNone) {
  EXPECT_EQ(ErrorOf({"", " "}), "trace file FILE did not contain any requests");
  EXPECT_EQ(NewMooncakeReader("/nonexistent/t")->Open(ReplayOrder::kByTime).error().message,
            "failed to open trace file /nonexistent/t: No such file or directory");
  EXPECT_EQ(NewMooncakeReader("/tmp")->Open(ReplayOrder::kByTime).error().message,
            "trace file /tmp is not a regular file");
  EXPECT_EQ(NewMooncakeReader("/tmp", 0)->Open(ReplayOrder::kByTime).error().message,
            "trace_block_size must be greater than 0");
}

TEST(MooncakeReader, RefusesALineAboveTheBound) {
  EXPECT_EQ(ErrorOf({Row(0, 1), std::string(kTraceLineBytesMax + 2, ' ') + Row(1, 2)}),
            "trace file FILE: the line at byte 77 is longer than 16777216 bytes");
}

TEST(MooncakeReader, SaysWhenTheFileBecameShorterWhileItWasRead) {
  Lines lines;
  for (int i = 0; i < 40000; ++i) {
    lines.push_back(Row(i, i));
  }
  const TraceFile file(lines);
  const auto source = NewMooncakeReader(file.path());
  ASSERT_TRUE(source->Open(ReplayOrder::kByTime));
  std::filesystem::resize_file(file.path(), 100);

  ReplayRow row;
  Result<bool> there = true;
  while (there && *there) {
    there = source->Next(row);
  }

  ASSERT_FALSE(there);
  EXPECT_EQ(there.error().code, Errc::kUnavailable);
}

class MooncakeReaderSeeds : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(MooncakeReaderSeeds, DamagedFilesAreReadOrRefusedButNeverMisread) {
  std::mt19937 random(GetParam());
  Lines lines;
  for (int i = 0; i < 20; ++i) {
    lines.push_back(Row(i, i, random() % 2 == 0 ? R"(,"session_id":"a","priority":1)" : ""));
  }
  for (int i = 0; i < 1 + static_cast<int>(random() % 6); ++i) {
    std::string& line = lines[random() % lines.size()];
    const std::size_t at = random() % line.size();
    switch (random() % 3) {
      case 0:
        line[at] = static_cast<char>(random() % 256);
        break;
      case 1:
        line.erase(at, 1 + random() % 5);
        break;
      default:
        line.insert(at, line.substr(random() % line.size(), 1 + random() % 9));
    }
  }
  const TraceFile file(lines);
  const auto source = NewMooncakeReader(file.path());

  const Status opened = source->Open(ReplayOrder::kByTime);

  if (!opened) {
    EXPECT_NE(opened.error().message.find(", line "), std::string::npos);
    return;
  }
  ReplayRow row;
  std::uint64_t rows = 0;
  for (Result<bool> there = source->Next(row); there && *there; there = source->Next(row)) {
    for (;;) {
      ++rows;
      EXPECT_GE(row.input_length, 1U);
      EXPECT_GE(row.output_length, 1U);
      EXPECT_LE(row.input_length, row.hash_ids.size() * source->block_size());
      EXPECT_TRUE(row.next_delay_ms >= 0.0 && row.timestamp_ms >= 0.0);
      if (row.next == kNoTurn) {
        break;
      }
      ASSERT_TRUE(source->ReadTurn(row.next, row));
    }
  }
  EXPECT_EQ(rows, source->rows_total());
}

INSTANTIATE_TEST_SUITE_P(Seeds, MooncakeReaderSeeds, ::testing::Range(0U, 300U));

SyntheticOptions Synthetic() {
  SyntheticOptions options;
  options.request_count = 6;
  options.input_tokens = 300;
  options.output_tokens = 5;
  options.arrival_interval_ms = 2.5;
  options.block_size = 64;
  return options;
}

TEST(SyntheticSource, RequestsAreEquallyFarApartAndShareNothing) {
  const auto source = NewSyntheticSource(Synthetic());

  const std::vector<ReplayRow> rows = ReadAll(*source);

  EXPECT_EQ(Times(rows), (std::vector<double>{0, 2.5, 5, 7.5, 10, 12.5}));
  std::set<std::uint64_t> ids;
  for (const ReplayRow& row : rows) {
    EXPECT_EQ(row.hash_ids.size(), 5U);
    ids.insert(row.hash_ids.begin(), row.hash_ids.end());
  }
  EXPECT_EQ(ids.size(), 30U);
  EXPECT_EQ(source->rows_held(), 0U);
}

TEST(SyntheticSource, TurnsOfASessionComeWithTheirDelay) {
  SyntheticOptions options = Synthetic();
  options.request_count = 2;
  options.turns_per_session = 3;
  options.inter_turn_delay_ms = 8.0;
  const auto source = NewSyntheticSource(options);

  const std::vector<ReplayRow> rows = ReadAll(*source);

  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(source->rows_total(), 6U);
  EXPECT_EQ(rows[1].session_id, "session_1");
  EXPECT_EQ(rows[1].next_delay_ms, 8.0);
  ReplayRow turn = rows[1];
  for (int i = 1; i < 3; ++i) {
    ASSERT_TRUE(source->ReadTurn(turn.next, turn));
    EXPECT_EQ(turn.session_id, "session_1");
  }
  EXPECT_EQ(turn.next, kNoTurn);
}

TEST(SyntheticSource, GroupsShareTheirPrefixAndNothingElse) {
  SyntheticOptions options = Synthetic();
  options.request_count = 200;
  options.shared_prefix_ratio = 0.5;
  options.num_prefix_groups = 4;
  const auto prefixes = [&] {
    std::set<std::uint32_t> first;
    const auto source = NewSyntheticSource(options);
    for (const ReplayRow& row : ReadAll(*source)) {
      first.insert(static_cast<std::uint32_t>(row.hash_ids[0]));
    }
    return first.size();
  };

  EXPECT_EQ(prefixes(), 4U);
  options.merge_prefix_groups = true;
  EXPECT_EQ(prefixes(), 1U) << "as the original";
}

TEST(SyntheticSource, RandomArrivalsHaveTheMeanAndFollowTheSeed) {
  SyntheticOptions options = Synthetic();
  options.request_count = 20000;
  options.poisson_arrivals = true;
  const std::vector<double> times = Times(ReadAll(*NewSyntheticSource(options)));
  EXPECT_NEAR(times.back() / 20000.0, 2.5, 0.1);
  EXPECT_EQ(times, Times(ReadAll(*NewSyntheticSource(options))));
  options.seed = 7;
  EXPECT_NE(times, Times(ReadAll(*NewSyntheticSource(options))));
}

TEST(SyntheticSource, RefusesAbsurdNumbers) {
  const auto error = [](auto change) {
    SyntheticOptions options = Synthetic();
    change(options);
    const Status opened = NewSyntheticSource(options)->Open(ReplayOrder::kByTime);
    return opened ? std::string() : opened.error().message;
  };
  EXPECT_EQ(error([](auto& o) { o.input_tokens = 0; }), "input_tokens must be at least 1, got 0");
  EXPECT_EQ(error([](auto& o) { o.output_tokens = 0; }), "output_tokens must be at least 1, got 0");
  EXPECT_EQ(error([](auto& o) { o.request_count = 0; }), "request_count must be at least 1, got 0");
  EXPECT_EQ(error([](auto& o) { o.turns_per_session = 0; }),
            "turns_per_session must be at least 1, got 0");
  EXPECT_EQ(error([](auto& o) { o.shared_prefix_ratio = 1.5; }),
            "shared_prefix_ratio must be between 0.0 and 1.0, got 1.500000");
  EXPECT_EQ(error([](auto& o) { o.arrival_interval_ms = -1; }),
            "arrival_interval_ms must be a finite non-negative number of at most 1e12 ms, got "
            "-1.000000");
  EXPECT_EQ(error([](auto& o) { o.input_tokens = kReplayTokensMax + 1; }),
            "input_tokens must be at most 16777216, got 16777217");
}

}  // namespace
}  // namespace understudy::mocker
