#include "worker/kv_relay/query_server.h"

#include "worker/log/log.h"

#include <utility>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.kv_relay";
constexpr std::string_view kOverloaded = "Server overloaded: too many recovery queries";
constexpr std::string_view kUnavailable = "Server unavailable: too many recovery queries";

bool SameForm(transport::KvAnswerForm a, transport::KvAnswerForm b) {
  return a.has_reset_scope == b.has_reset_scope && a.has_lower_tiers == b.has_lower_tiers;
}

}  // namespace

void QueryServer::Add(const std::string& subject, RankIndex rank, transport::KvAnswerForm form) {
  ingress_.Add(subject, *this, static_cast<std::uint32_t>(targets_.size()), nullptr);
  targets_.push_back({rank, form});
}

void QueryServer::Serve(const IncomingRequest& request) {
  if (sessions_.size() >= kSessionsMax) {
    const bool msgpack = request.control.codec == transport::PayloadCodec::kMsgpack;
    ingress_.Ack(request.message, msgpack ? kOverloaded : kUnavailable);
    ingress_.CountError(request.entry);
    return;
  }
  ingress_.Ack(request.message, "");
  const std::uint64_t id = Open(request);
  Session& session = sessions_.at(id);
  if (request.control.unknown_codec) {
    AnswerError(
        session,
        "unknown payload_codec '" + *request.control.unknown_codec + "' (allowed: json, msgpack)");
    return;
  }
  const auto query = transport::DecodeKvQuery(request.control.codec, request.body);
  if (!query) {
    AnswerError(session, query.error().message);
    return;
  }
  session.reads_dump_failed = query->supports_tree_dump_failed;
  const Target& target = targets_[request.target];
  if (const auto problem = Check(target, *query); !problem.empty()) {
    AnswerError(session, problem);
    return;
  }
  const auto plan = relay_.rank(target.rank)
                        .publisher.indexer()
                        .PlanFor(query->start_event_id, query->end_event_id);
  if (const auto* too_new = std::get_if<Indexer::TooNew>(&plan)) {
    std::string frame;
    transport::AppendKvTooNew(frame,
                              session.codec,
                              too_new->requested_start,
                              too_new->requested_end,
                              too_new->newest_available);
    AnswerShortly(session, frame, KvAnswer::kTooNew);
  } else if (const auto* invalid = std::get_if<Indexer::InvalidRange>(&plan)) {
    std::string frame;
    transport::AppendKvInvalidRange(frame, session.codec, invalid->start_id, invalid->end_id);
    AnswerShortly(session, frame, KvAnswer::kInvalidRange);
  } else {
    Enqueue(id, request.target, plan);
  }
}

std::string QueryServer::Check(const Target& target, const transport::KvQuery& query) {
  const auto& rank = relay_.rank(target.rank);
  const auto mismatch = [](const std::string& field, std::uint64_t asked, std::uint64_t own) {
    return "WorkerKvQueryEngine::generate " + field + " mismatch: request." + field + "=" +
           std::to_string(asked) + " this." + field + "=" + std::to_string(own);
  };
  if (query.worker_id != Value(rank.worker_id)) {
    return mismatch("worker_id", query.worker_id, Value(rank.worker_id));
  }
  if (query.dp_rank != Value(rank.dp_rank)) {
    return mismatch("dp_rank", query.dp_rank, Value(rank.dp_rank));
  }
  return {};
}

std::uint64_t QueryServer::Open(const IncomingRequest& request) {
  const std::uint64_t id = ++last_session_;
  Session& session = sessions_[id];
  session.codec = request.control.codec;
  session.entry = request.entry;
  session.response = OpenResponse(
      loop_,
      request.control,
      session.appended,
      [this, id](transport::StreamEnd end, const std::string& text) {
        if (end != transport::StreamEnd::kFinished && LogEnabled(LogLevel::kDebug, kTarget)) {
          Log(LogLevel::kDebug, kTarget, "recovery query not answered", {{"reason", text}});
        }
        sessions_.erase(id);
      });
  return id;
}

QueryServer::Session* QueryServer::Find(std::uint64_t id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second;
}

void QueryServer::Enqueue(std::uint64_t id, std::uint32_t target, const Indexer::Plan& plan) {
  const Session& session = sessions_.at(id);
  if (std::holds_alternative<Indexer::Dump>(plan)) {
    for (Job& job : jobs_) {
      const bool same = !job.builder && std::holds_alternative<Indexer::Dump>(job.plan) &&
                        targets_[job.target].rank == targets_[target].rank &&
                        SameForm(targets_[job.target].form, targets_[target].form) &&
                        job.codec == session.codec;
      if (same) {
        job.waiting.push_back(id);
        return;
      }
    }
  }
  jobs_.push_back({target, session.codec, plan, {id}, nullptr});
  StepSoon();
}

void QueryServer::StepSoon() {
  if (!std::exchange(step_posted_, true)) {
    loop_.Post([this, alive = alive_] {
      if (*alive) {
        step_posted_ = false;
        Step();
      }
    });
  }
}

void QueryServer::Step() {
  if (jobs_.empty()) {
    return;
  }
  Job& job = jobs_.front();
  std::erase_if(job.waiting, [this](std::uint64_t id) { return Find(id) == nullptr; });
  auto state = AnswerBuilder::State::kDone;
  if (!job.waiting.empty()) {
    if (!job.builder) {
      auto& rank = relay_.rank(targets_[job.target].rank);
      job.builder = std::make_unique<AnswerBuilder>(rank.publisher.indexer(),
                                                    rank.worker_id,
                                                    rank.dp_rank,
                                                    job.codec,
                                                    targets_[job.target].form,
                                                    job.plan);
    }
    state = job.builder->Advance(kBlocksPerTurn);
    if (state != AnswerBuilder::State::kMore) {
      Finished(job, state);
    }
  }
  if (state != AnswerBuilder::State::kMore) {
    jobs_.pop_front();
  }
  if (!jobs_.empty()) {
    StepSoon();
  }
}

void QueryServer::Finished(Job& job, AnswerBuilder::State state) {
  if (state == AnswerBuilder::State::kFailed) {
    const std::string text = "tree dump failed: " + std::string(job.builder->problem());
    for (const std::uint64_t id : job.waiting) {
      Session& session = sessions_.at(id);
      if (!session.reads_dump_failed) {
        AnswerError(session, text);
        continue;
      }
      std::string frame;
      transport::AppendKvTreeDumpFailed(frame, session.codec, job.builder->last_event_id(), text);
      AnswerShortly(session, frame, KvAnswer::kError);
    }
    return;
  }
  const auto kind = job.builder->is_dump() ? KvAnswer::kTreeDump : KvAnswer::kEvents;
  const auto pieces = std::make_shared<const std::vector<std::string>>(job.builder->Take());
  for (const std::uint64_t id : job.waiting) {
    Session& session = sessions_.at(id);
    session.pieces = pieces;
    session.unread = loop_.NewTimer();
    session.response->OnSent([this, id] { Pump(id); });
    metrics_.KvQueryAnswered(kind);
    Pump(id);
  }
}

/// Gives the connection as much as it may hold.
void QueryServer::Pump(std::uint64_t id) {
  Session* session = Find(id);
  if (session == nullptr || !session->pieces) {
    return;
  }
  const auto& pieces = *session->pieces;
  while (session->next_piece < pieces.size() && session->response->unsent() < kUnsentMax) {
    const std::string_view left = std::string_view(pieces[session->next_piece]).substr(session->at);
    const std::string_view part = left.substr(0, transport::KvAnswerWriter::kPieceBytes);
    session->response->Append(part);
    session->at += part.size();
    if (part.size() == left.size()) {
      ++session->next_piece;
      session->at = 0;
    }
  }
  if (session->next_piece == pieces.size()) {
    Finish(*session);
    return;
  }
  session->unread->After(transport::ResponseStream::kUnreadWait, [this, id] {
    Log(LogLevel::kWarn, kTarget, "a recovery answer is not read, its connection is closed");
    sessions_.erase(id);
  });
  session->response->Flush();
}

void QueryServer::AnswerShortly(Session& session, std::string_view frame, KvAnswer kind) {
  metrics_.KvQueryAnswered(kind);
  session.response->Append(frame);
  Finish(session);
}

void QueryServer::AnswerError(Session& session, std::string_view text) {
  Log(LogLevel::kWarn, kTarget, "recovery query refused", {{"error", ShortText(text)}});
  ingress_.CountError(session.entry);
  std::string frame;
  transport::AppendKvError(frame, session.codec, text);
  AnswerShortly(session, frame, KvAnswer::kError);
}

void QueryServer::Finish(Session& session) {
  session.pieces.reset();
  session.unread.reset();
  session.response->OnSent(nullptr);
  std::string end;
  transport::AppendCompleteFinal(end, session.codec);
  transport::AppendSentinel(end);
  session.response->Append(end);
  session.response->Finish();
}

void QueryServer::CloseAll() {
  jobs_.clear();
  sessions_.clear();
}

}  // namespace understudy::worker
