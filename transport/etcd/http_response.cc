#include "transport/etcd/http_response.h"

#include "transport/http/header_text.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace understudy::transport::etcd {
namespace {

using http::IsToken;
using http::Lists;
using http::Lower;
using http::Trim;

constexpr std::string_view kDigits = "0123456789";
/// A length is believed for an allocation up to here; beyond it the body grows as it comes.
constexpr std::size_t kReserveBytesMax = 1U << 20;
constexpr std::size_t kQuotedCharsMax = 60;

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kDigits) == std::string_view::npos;
}

bool HasControl(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && byte != '\t') || byte == 0x7F;
  });
}

std::string Quoted(std::string_view line) {
  return "'" + std::string(line.substr(0, kQuotedCharsMax)) + "'";
}

}  // namespace

ResponseParser::State ResponseParser::state() const {
  switch (phase_) {
    case Phase::kDone:
      return State::kDone;
    case Phase::kBad:
      return State::kBad;
    default:
      return State::kMore;
  }
}

ResponseParser::State ResponseParser::Feed(std::string_view bytes) {
  while (!bytes.empty() && state() == State::kMore) {
    Step(bytes);
  }
  if (!bytes.empty()) {
    keep_alive_ = false;  // what follows belongs to no question of ours
  }
  return state();
}

ResponseParser::State ResponseParser::FeedEnd() {
  keep_alive_ = false;
  if (phase_ == Phase::kBodyUntilEnd) {
    phase_ = Phase::kDone;
  } else if (state() == State::kMore) {
    Bad("the connection was closed before the answer was complete");
  }
  return state();
}

void ResponseParser::Step(std::string_view& bytes) {
  switch (phase_) {
    case Phase::kBody:
    case Phase::kBodyUntilEnd:
    case Phase::kChunkData:
      TakeBody(bytes);
      break;
    case Phase::kChunkEnd:
      TakeChunkEnd(bytes);
      break;
    default:
      if (TakeLine(bytes)) {
        OnLine();
        line_.clear();
      }
  }
}

/// Moves bytes into line_; true when it holds a whole line, without its end.
bool ResponseParser::TakeLine(std::string_view& bytes) {
  const auto end = bytes.find('\n');
  const auto taken = bytes.substr(0, end == std::string_view::npos ? bytes.size() : end + 1);
  bytes.remove_prefix(taken.size());
  const bool in_head = phase_ == Phase::kStatusLine || phase_ == Phase::kField;
  auto& counted = in_head ? head_bytes_ : extra_bytes_;
  counted += taken.size();
  if (counted > kHeadBytesMax) {
    Bad("header lines longer than " + std::to_string(kHeadBytesMax) + " bytes");
    return false;
  }
  line_.append(taken);
  if (end == std::string_view::npos) {
    return false;
  }
  if (line_.size() < 2 || line_[line_.size() - 2] != '\r') {
    Bad("a line does not end with CR LF");
    return false;
  }
  line_.resize(line_.size() - 2);
  if (HasControl(line_)) {
    Bad("a control character in a header line");
    return false;
  }
  return true;
}

void ResponseParser::OnLine() {
  switch (phase_) {
    case Phase::kStatusLine:
      OnStatusLine();
      break;
    case Phase::kField:
      OnField();
      break;
    case Phase::kChunkSize:
      OnChunkSize();
      break;
    default:  // a trailer
      if (line_.empty()) {
        phase_ = Phase::kDone;
      }
  }
}

void ResponseParser::OnStatusLine() {
  // HTTP/1.1 200 OK; the blank behind the number may be missing together with the words.
  const std::string_view line = line_;
  const std::string_view version = line.substr(0, line.find(' '));
  const std::string_view rest = line.substr(std::min(line.size(), version.size() + 1));
  const std::string_view number = rest.substr(0, rest.find(' '));
  if ((version != "HTTP/1.1" && version != "HTTP/1.0") || number.size() != 3 || !IsDigits(number)) {
    Bad("not an HTTP/1.1 answer: " + Quoted(line));
    return;
  }
  reply_.status = (number[0] - '0') * 100 + (number[1] - '0') * 10 + (number[2] - '0');
  // 101 ends HTTP on this connection; nobody asked for it.
  if (reply_.status < 100 || reply_.status > 599 || reply_.status == 101) {
    Bad("unexpected status " + std::string(number));
    return;
  }
  minor_version_ = version.back() - '0';
  keep_alive_ = minor_version_ == 1;
  has_length_ = chunked_ = false;
  body_left_ = 0;
  phase_ = Phase::kField;
}

void ResponseParser::OnField() {
  if (line_.empty()) {
    OnHeadEnd();
    return;
  }
  const std::string_view line = line_;
  const auto colon = line.find(':');
  // Also refuses continuation lines and blanks before the colon: their first word is no token.
  if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) {
    Bad("not a header line: " + Quoted(line));
    return;
  }
  const std::string name = Lower(line.substr(0, colon));
  const std::string_view value = Trim(line.substr(colon + 1));
  if (name == "content-length") {
    OnLength(value);
  } else if (name == "transfer-encoding") {
    if (chunked_ || minor_version_ == 0 || Lower(value) != "chunked") {
      Bad("unexpected Transfer-Encoding " + Quoted(value));
      return;
    }
    chunked_ = true;
  } else if (name == "connection") {
    if (Lists(value, "close")) {
      keep_alive_ = false;
    } else if (minor_version_ == 0 && Lists(value, "keep-alive")) {
      keep_alive_ = true;
    }
  }
}

void ResponseParser::OnLength(std::string_view value) {
  if (has_length_ || !IsDigits(value)) {
    Bad("bad Content-Length " + Quoted(value));
    return;
  }
  std::uint64_t length = 0;
  const auto error = std::from_chars(value.data(), value.data() + value.size(), length).ec;
  if (error != std::errc() || length > body_bytes_max_) {
    TooLong();
    return;
  }
  has_length_ = true;
  body_left_ = static_cast<std::size_t>(length);
}

void ResponseParser::OnHeadEnd() {
  if (chunked_ && has_length_) {
    // Two ends of one body: whoever sits in between may take the other one (RFC 9112 6.3).
    Bad("both Content-Length and Transfer-Encoding");
  } else if (reply_.status < 200) {
    phase_ = Phase::kStatusLine;
  } else if (reply_.status == 204 || reply_.status == 304) {
    phase_ = Phase::kDone;  // never with a body, whatever the header says (RFC 9110 6.4.1)
  } else if (chunked_) {
    phase_ = Phase::kChunkSize;
  } else if (has_length_) {
    reply_.body.reserve(std::min(body_left_, kReserveBytesMax));
    phase_ = body_left_ == 0 ? Phase::kDone : Phase::kBody;
  } else {
    keep_alive_ = false;
    phase_ = Phase::kBodyUntilEnd;
  }
}

void ResponseParser::OnChunkSize() {
  const std::string_view line = line_;
  const std::string_view digits = Trim(line.substr(0, line.find(';')));
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size, 16);
  if (error == std::errc::result_out_of_range) {
    TooLong();
    return;
  }
  if (error != std::errc() || end != digits.data() + digits.size()) {
    Bad("bad chunk size " + Quoted(line));
    return;
  }
  if (size > body_bytes_max_ - reply_.body.size()) {
    TooLong();
    return;
  }
  body_left_ = chunk_bytes_ = static_cast<std::size_t>(size);
  phase_ = size == 0 ? Phase::kTrailer : Phase::kChunkData;
}

void ResponseParser::TakeBody(std::string_view& bytes) {
  if (phase_ == Phase::kBodyUntilEnd) {
    if (bytes.size() > body_bytes_max_ - reply_.body.size()) {
      TooLong();
      return;
    }
    reply_.body.append(std::exchange(bytes, {}));
    return;
  }
  const std::string_view taken = bytes.substr(0, body_left_);
  reply_.body.append(taken);
  bytes.remove_prefix(taken.size());
  body_left_ -= taken.size();
  if (body_left_ == 0) {
    phase_ = phase_ == Phase::kBody ? Phase::kDone : Phase::kChunkEnd;
  }
}

void ResponseParser::TakeChunkEnd(std::string_view& bytes) {
  constexpr std::string_view kLineEnd = "\r\n";
  if (bytes.front() != kLineEnd[line_.size()]) {
    Bad("a chunk is longer than its size says");
    return;
  }
  line_.push_back(bytes.front());
  bytes.remove_prefix(1);
  if (line_.size() == kLineEnd.size()) {
    line_.clear();
    // Tiny chunks must not make the bound on line bytes bite before the body's own bound does.
    extra_bytes_ -= std::min(extra_bytes_, chunk_bytes_ + 8);
    phase_ = Phase::kChunkSize;
  }
}

void ResponseParser::Bad(std::string reason) {
  phase_ = Phase::kBad;
  reason_ = std::move(reason);
  reply_ = {};
  line_.clear();
}

void ResponseParser::TooLong() {
  too_long_ = true;
  Bad("answer longer than " + std::to_string(body_bytes_max_) + " bytes");
}

}  // namespace understudy::transport::etcd
