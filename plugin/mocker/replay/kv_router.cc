#include "plugin/mocker/replay/kv_router.h"

#include "plugin/mocker/kv_cache/block_hash.h"
#include "understudy/base/assert.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace understudy::mocker {

namespace {
/// What the reference takes for a worker without a limit.
constexpr std::uint64_t kBatchedTokensDefault = 10'000'000;
constexpr double kMsPerS = 1e3;
}  // namespace

KvRouter::KvRouter(const Config& config)
    : config_(config),
      cached_(config.workers),
      active_(config.workers),
      loads_(config.workers),
      random_(config.seed) {
  UNDERSTUDY_ASSERT(config.workers > 0 && config.block_size > 0);
}

void KvRouter::NameBlocks(std::span<const std::uint32_t> prompt) {
  query_.blocks.clear();
  BlockHash parent{};
  for (std::size_t at = 0; at + config_.block_size <= prompt.size(); at += config_.block_size) {
    parent =
        ChainHash(at == 0 ? nullptr : &parent, HashTokens(prompt.subspan(at, config_.block_size)));
    query_.blocks.push_back(Value(parent));
  }
}

bool KvRouter::AllBusy() const {
  const std::uint64_t limit =
      config_.max_batched_tokens == 0 ? kBatchedTokensDefault : config_.max_batched_tokens;
  const double threshold = *config_.options.router_queue_threshold * static_cast<double>(limit);
  return std::all_of(loads_.begin(), loads_.end(), [threshold](const Load& load) {
    return static_cast<double>(load.prefill_tokens) > threshold;
  });
}

double KvRouter::Score(const RouterRequest& request, double now_ms) const {
  const double jump = std::max(request.priority, 0);
  switch (config_.options.router_queue_policy) {
    case RouterQueuePolicy::kFcfs:
      return jump - now_ms / kMsPerS;
    case RouterQueuePolicy::kLcfs:
      return jump + now_ms / kMsPerS;
    case RouterQueuePolicy::kWspt:
      break;
  }
  const std::uint64_t cached =
      std::uint64_t{*std::max_element(query_.overlaps.begin(), query_.overlaps.end())} *
      config_.block_size;
  const std::uint64_t tokens = request.prompt.size();
  return (1.0 + jump) /
         static_cast<double>(std::max<std::uint64_t>(tokens - std::min(cached, tokens), 1));
}

bool KvRouter::Behind(const Pending& a, const Pending& b) {
  return std::tie(a.strict_priority, a.score, b.number) <
         std::tie(b.strict_priority, b.score, a.number);
}

void KvRouter::OnArrival(const RouterRequest& request,
                         double now_ms,
                         std::vector<RouterAdmission>& admissions) {
  query_.id = request.id;
  query_.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  NameBlocks(request.prompt);
  cached_.Depths(query_.blocks, query_.overlaps);
  if (config_.options.router_queue_threshold && (!pending_.empty() || AllBusy())) {
    pending_.push_back(
        {request.strict_priority, Score(request, now_ms), arrivals_++, std::move(query_)});
    std::push_heap(pending_.begin(), pending_.end(), Behind);
    query_ = {};
    return;
  }
  admissions.push_back(Admit(query_));
}

void KvRouter::OnEvents(std::uint32_t worker, const std::vector<engine::KvEvent>& events) {
  for (const engine::KvEvent& event : events) {
    for (const engine::KvBlock& block : event.blocks) {
      if (event.kind == engine::KvEvent::Kind::kStored) {
        cached_.Add(Value(block.block_hash), worker);
      } else {
        cached_.Remove(Value(block.block_hash), worker);
      }
    }
  }
}

void KvRouter::OnPrefillCompleted(RequestId id, std::vector<RouterAdmission>& admissions) {
  DropPrefill(id);
  Drain(admissions);
}

void KvRouter::OnCompleted(RequestId id, std::vector<RouterAdmission>& admissions) {
  DropPrefill(id);
  Booking& booking = bookings_[Value(id)];
  Load& load = loads_[booking.worker];
  for (const std::uint64_t block : booking.blocks) {
    std::uint32_t& uses = *load.uses.Find(block);
    if (--uses == 0) {
      load.uses.Erase(block);
      --load.blocks;
      active_.Remove(block, booking.worker);
    }
  }
  load.blocks -= booking.own_blocks;
  booking.used = false;
  Drain(admissions);
}

bool KvRouter::CancelPending(RequestId id) {
  const auto found = std::find_if(
      pending_.begin(), pending_.end(), [id](const Pending& p) { return p.query.id == id; });
  if (found == pending_.end()) {
    return false;
  }
  pending_.erase(found);
  std::make_heap(pending_.begin(), pending_.end(), Behind);
  return true;
}

void KvRouter::Drain(std::vector<RouterAdmission>& admissions) {
  while (!pending_.empty() && !AllBusy()) {
    std::pop_heap(pending_.begin(), pending_.end(), Behind);
    admissions.push_back(Admit(pending_.back().query));
    pending_.pop_back();
  }
}

RouterAdmission KvRouter::Admit(Query& query) {
  const std::uint32_t worker = Select(query);
  const auto& overlaps = query.overlaps;
  const RouterAdmission admission{
      query.id, worker, {overlaps[worker], *std::max_element(overlaps.begin(), overlaps.end())}};
  Book(query, worker);
  return admission;
}

double KvRouter::CostOf(const Query& query, std::uint32_t worker, double floor_tokens) const {
  const KvRouterOptions& options = config_.options;
  const auto block_size = static_cast<double>(config_.block_size);
  const Load& load = loads_[worker];
  const double overlap = query.overlaps[worker];
  double prefill_tokens = 0.0;
  double decay = 1.0;
  if (options.router_track_prefill_tokens) {
    const std::uint64_t cached = std::uint64_t{query.overlaps[worker]} * config_.block_size;
    const std::uint64_t uncached =
        query.prompt_tokens - std::min<std::uint64_t>(cached, query.prompt_tokens);
    prefill_tokens = static_cast<double>(load.prefill_tokens + uncached + cached);
    if (options.overlap_score_credit_decay > 0.0) {
      const double excess =
          std::max(static_cast<double>(load.prefill_tokens) - floor_tokens, 0.0) / block_size;
      const std::uint32_t blocks =
          (query.prompt_tokens + config_.block_size - 1) / config_.block_size;
      decay = 1.0 / (1.0 + options.overlap_score_credit_decay * (excess / blocks));
    }
  }
  const double credit = options.overlap_score_credit * decay * overlap;
  const double prefill = std::max(prefill_tokens / block_size - credit, 0.0);
  std::uint64_t decode_blocks = load.blocks;
  if (options.router_track_active_blocks) {
    decode_blocks +=
        query.blocks.size() - (options.router_assume_kv_reuse ? active_depths_[worker] : 0);
  }
  return options.prefill_load_scale * prefill + static_cast<double>(decode_blocks);
}

std::uint32_t KvRouter::Select(const Query& query) {
  if (config_.options.router_track_active_blocks && config_.options.router_assume_kv_reuse) {
    active_.Depths(query.blocks, active_depths_);
  }
  const auto floor =
      std::min_element(loads_.begin(), loads_.end(), [](const Load& a, const Load& b) {
        return a.prefill_tokens < b.prefill_tokens;
      });
  costs_.resize(config_.workers);
  for (std::uint32_t w = 0; w < config_.workers; ++w) {
    costs_[w] = CostOf(query, w, static_cast<double>(floor->prefill_tokens));
  }
  return config_.options.router_temperature == 0.0 ? DrawCheapest() : DrawSoftmax();
}

std::uint32_t KvRouter::DrawCheapest() {
  const double least = *std::min_element(costs_.begin(), costs_.end());
  const auto equals = static_cast<std::uint64_t>(std::count(costs_.begin(), costs_.end(), least));
  std::uint64_t skip = equals == 1 ? 0 : random_() % equals;
  for (std::uint32_t w = 0;; ++w) {
    if (costs_[w] == least && skip-- == 0) {
      return w;
    }
  }
}

std::uint32_t KvRouter::DrawSoftmax() {
  const auto [least, most] = std::minmax_element(costs_.begin(), costs_.end());
  const double low = *least;
  const double span = *most - low;
  double sum = 0.0;
  for (double& cost : costs_) {
    cost = span == 0.0 ? 1.0 : std::exp((low - cost) / (span * config_.options.router_temperature));
    sum += cost;
  }
  double left = Uniform() * sum;
  for (std::uint32_t w = 0; w + 1 < config_.workers; ++w) {
    left -= costs_[w];
    if (left < 0.0) {
      return w;
    }
  }
  return config_.workers - 1;
}

void KvRouter::Book(Query& query, std::uint32_t worker) {
  const KvRouterOptions& options = config_.options;
  if (bookings_.size() <= Value(query.id)) {
    bookings_.resize(Value(query.id) + 1);
  }
  Booking& booking = bookings_[Value(query.id)];
  Load& load = loads_[worker];
  booking.worker = worker;
  booking.used = true;
  booking.own_blocks = 0;
  booking.blocks.clear();
  booking.prefill_tokens = 0;
  if (options.router_track_prefill_tokens) {
    const std::uint64_t cached = std::uint64_t{query.overlaps[worker]} * config_.block_size;
    booking.prefill_tokens =
        query.prompt_tokens -
        static_cast<std::uint32_t>(std::min<std::uint64_t>(cached, query.prompt_tokens));
    load.prefill_tokens += booking.prefill_tokens;
  }
  if (!options.router_track_active_blocks) {
    return;
  }
  if (!options.router_assume_kv_reuse) {
    booking.own_blocks = query.blocks.size();
    load.blocks += booking.own_blocks;
    return;
  }
  booking.blocks.swap(query.blocks);
  for (const std::uint64_t block : booking.blocks) {
    if (load.uses.At(block)++ == 0) {
      ++load.blocks;
      active_.Add(block, worker);
    }
  }
}

void KvRouter::DropPrefill(RequestId id) {
  Booking& booking = bookings_[Value(id)];
  UNDERSTUDY_ASSERT(booking.used);
  loads_[booking.worker].prefill_tokens -= booking.prefill_tokens;
  booking.prefill_tokens = 0;
}

}  // namespace understudy::mocker
