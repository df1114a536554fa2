// Serves recovery queries: one endpoint per rank and release form. Source: events.md 4.3.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/transport/kv_query.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/response_stream.h"
#include "worker/kv_relay/answer_builder.h"
#include "worker/kv_relay/relay.h"
#include "worker/metrics/metrics.h"
#include "worker/request_path/ingress.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace understudy::worker {

/// Long answers are built one after the other, a piece per turn of the loop; queries for the same
/// dump share one. On the loop's thread.
class QueryServer final : public Endpoint {
 public:
  static constexpr std::size_t kSessionsMax = 256;  ///< more are refused
  static constexpr std::size_t kBlocksPerTurn = 1024;
  /// What is given to a connection ahead of its reader.
  static constexpr std::size_t kUnsentMax = std::size_t{256} << 10U;

  QueryServer(transport::Loop& loop, Ingress& ingress, KvRelay& relay, Metrics& metrics)
      : loop_(loop), ingress_(ingress), relay_(relay), metrics_(metrics) {}
  ~QueryServer() override { *alive_ = false; }
  QueryServer(const QueryServer&) = delete;
  QueryServer& operator=(const QueryServer&) = delete;

  /// Queries to `subject` are about `rank`, and answered in `form`.
  void Add(const std::string& subject, RankIndex rank, transport::KvAnswerForm form);

  void Serve(const IncomingRequest& request) override;
  void CloseAll();
  [[nodiscard]] std::size_t open() const { return sessions_.size(); }

 private:
  using Pieces = std::shared_ptr<const std::vector<std::string>>;
  struct Target {
    RankIndex rank{};
    transport::KvAnswerForm form;
  };
  struct Session {
    std::unique_ptr<transport::ResponseStream> response;
    transport::PayloadCodec codec{};
    std::uint32_t entry = 0;
    bool reads_dump_failed = false;
    std::uint64_t appended = 0;
    Pieces pieces;                             ///< of a long answer
    std::size_t next_piece = 0, at = 0;        ///< what comes next of it
    std::unique_ptr<transport::Timer> unread;  ///< the reader took nothing for too long
  };
  struct Job {
    std::uint32_t target = 0;
    transport::PayloadCodec codec{};
    Indexer::Plan plan;
    std::vector<std::uint64_t> waiting;  ///< sessions
    std::unique_ptr<AnswerBuilder> builder;
  };
  [[nodiscard]] std::string Check(const Target& target, const transport::KvQuery& query);
  std::uint64_t Open(const IncomingRequest& request);
  void Enqueue(std::uint64_t id, std::uint32_t target, const Indexer::Plan& plan);
  void StepSoon();
  void Step();
  void Finished(Job& job, AnswerBuilder::State state);
  void Pump(std::uint64_t id);
  void AnswerShortly(Session& session, std::string_view frame, KvAnswer kind);
  void AnswerError(Session& session, std::string_view text);
  void Finish(Session& session);
  [[nodiscard]] Session* Find(std::uint64_t id);

  transport::Loop& loop_;
  Ingress& ingress_;
  KvRelay& relay_;
  Metrics& metrics_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< read by posts
  std::vector<Target> targets_;
  std::unordered_map<std::uint64_t, Session> sessions_;
  std::uint64_t last_session_ = 0;
  std::deque<Job> jobs_;  ///< the first is being built
  bool step_posted_ = false;
};

}  // namespace understudy::worker
