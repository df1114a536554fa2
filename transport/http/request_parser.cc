#include "transport/http/request_parser.h"

#include "transport/http/header_text.h"

#include <algorithm>
#include <charconv>

namespace understudy::transport::http {
namespace {

constexpr std::string_view kHeadEnd = "\r\n\r\n";

int HexDigit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  if (c >= 'A' && c <= 'F') {
    return c - 'A' + 10;
  }
  return -1;
}

bool HasControl(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && byte != '\t') || byte == 0x7F;
  });
}

}  // namespace

bool PercentDecode(std::string_view text, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
    if (high < 0 || low < 0 || (high == 0 && low == 0)) {
      return false;
    }
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return true;
}

RequestParser::State RequestParser::Next() {
  for (;;) {
    Step step = Step::kMore;
    switch (phase_) {
      case Phase::kHead:
        step = StepHead();
        break;
      case Phase::kBody:
        step = StepBody();
        break;
      case Phase::kChunkSize:
        step = StepChunkSize();
        break;
      case Phase::kChunkData:
        step = StepChunkData();
        break;
      case Phase::kTrailer:
        step = StepTrailer();
        break;
      case Phase::kBad:
        return State::kBad;
    }
    if (step == Step::kMore) {
      return State::kMore;
    }
    if (step == Step::kDone) {
      phase_ = Phase::kHead;
      expects_ = false;
      return State::kRequest;
    }
  }
}

bool RequestParser::TakeExpectation() {
  const bool due = expects_ && phase_ != Phase::kHead && phase_ != Phase::kBad;
  if (due) {
    expects_ = false;
  }
  return due;
}

RequestParser::Step RequestParser::Bad(int status) {
  phase_ = Phase::kBad;
  status_ = status;
  buffer_.clear();
  return Step::kGo;
}

RequestParser::Step RequestParser::StepHead() {
  // Empty lines before a request are allowed (RFC 9112 2.2).
  std::size_t blank = 0;
  while (buffer_.compare(blank, 2, "\r\n") == 0) {
    blank += 2;
  }
  buffer_.erase(0, blank);
  const std::size_t end = buffer_.find(kHeadEnd);
  const std::size_t head_bytes = end == std::string::npos ? buffer_.size() : end + kHeadEnd.size();
  if (head_bytes > HttpServer::kHeaderBytesMax) {
    return Bad(431);
  }
  if (end == std::string::npos) {
    // A line feed of its own never becomes a head: say so now instead of letting the client wait.
    for (auto at = buffer_.find('\n'); at != std::string::npos; at = buffer_.find('\n', at + 1)) {
      if (at == 0 || buffer_[at - 1] != '\r') {
        return Bad(400);
      }
    }
    return Step::kMore;
  }
  request_ = HttpRequest();
  keep_alive_ = true;
  chunked_ = has_length_ = expects_ = false;
  body_left_ = extra_bytes_ = 0;
  if (const int status = ParseHead(std::string_view(buffer_).substr(0, end)); status != 0) {
    return Bad(status);
  }
  buffer_.erase(0, head_bytes);
  phase_ = chunked_ ? Phase::kChunkSize : Phase::kBody;
  return Step::kGo;
}

int RequestParser::ParseHead(std::string_view head) {
  bool first = true;
  while (!head.empty() || first) {
    const auto line_end = head.find("\r\n");
    const std::string_view line = head.substr(0, line_end);
    head.remove_prefix(line_end == std::string_view::npos ? head.size() : line_end + 2);
    if (HasControl(line)) {
      return 400;
    }
    if (first) {
      first = false;
      if (!ParseRequestLine(line)) {
        return 400;
      }
    } else if (const int status = ParseField(line); status != 0) {
      return status;
    }
  }
  // Both at once is how requests are smuggled (RFC 9112 6.1).
  return chunked_ && has_length_ ? 400 : 0;
}

bool RequestParser::ParseRequestLine(std::string_view line) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return false;
  }
  const std::string_view version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return false;
  }
  minor_version_ = version.back() - '0';
  keep_alive_ = minor_version_ == 1;
  request_.method = line.substr(0, first);
  return IsToken(request_.method) && ParseTarget(line.substr(first + 1, last - first - 1));
}

bool RequestParser::ParseTarget(std::string_view target) {
  if (target.find(' ') != std::string_view::npos) {
    return false;
  }
  if (target == "*") {
    request_.path = target;
    return true;
  }
  constexpr std::string_view kScheme = "http://";
  if (Lower(target.substr(0, kScheme.size())) == kScheme) {
    const auto path = target.find_first_of("/?", kScheme.size());
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  const auto question = target.find('?');
  if (question != std::string_view::npos) {
    request_.query = target.substr(question + 1);
    target = target.substr(0, question);
  }
  if (target.empty()) {
    target = "/";
  }
  return target.front() == '/' && PercentDecode(target, request_.path);
}

int RequestParser::ParseField(std::string_view line) {
  const auto colon = line.find(':');
  // Also refuses continuation lines and blanks before the colon: their first word is no token.
  if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) {
    return 400;
  }
  const std::string name = Lower(line.substr(0, colon));
  const std::string_view value = Trim(line.substr(colon + 1));
  if (name == "content-length") {
    return ParseLength(value);
  }
  if (name == "transfer-encoding") {
    if (chunked_ || Lower(value) != "chunked") {
      return 400;
    }
    chunked_ = true;
  } else if (name == "connection") {
    if (Lists(value, "close")) {
      keep_alive_ = false;
    } else if (minor_version_ == 0 && Lists(value, "keep-alive")) {
      keep_alive_ = true;
    }
  } else if (name == "expect") {
    expects_ = Lower(value) == "100-continue";
  }
  return 0;
}

int RequestParser::ParseLength(std::string_view value) {
  std::uint64_t length = 0;
  const bool digits =
      !value.empty() && value.find_first_not_of("0123456789") == std::string_view::npos;
  if (!digits || has_length_) {
    return 400;
  }
  const auto error = std::from_chars(value.data(), value.data() + value.size(), length).ec;
  if (error != std::errc() || length > HttpServer::kBodyBytesMax) {
    return 413;
  }
  has_length_ = true;
  body_left_ = static_cast<std::size_t>(length);
  return 0;
}

RequestParser::Step RequestParser::StepBody() {
  if (buffer_.size() < body_left_) {
    return Step::kMore;
  }
  request_.body = buffer_.substr(0, body_left_);
  buffer_.erase(0, body_left_);
  return Step::kDone;
}

/// A line of the chunked form without its end; false when it isn't complete. Counts its bytes.
bool RequestParser::TakeLine(std::string_view& line) {
  const auto end = buffer_.find("\r\n");
  if (end == std::string::npos) {
    return false;
  }
  extra_bytes_ += end + 2;
  line = std::string_view(buffer_).substr(0, end);
  return true;
}

RequestParser::Step RequestParser::StepChunkSize() {
  std::string_view line;
  if (!TakeLine(line)) {
    return extra_bytes_ + buffer_.size() > HttpServer::kHeaderBytesMax ? Bad(431) : Step::kMore;
  }
  if (extra_bytes_ > HttpServer::kHeaderBytesMax) {
    return Bad(431);
  }
  const std::string_view digits = Trim(line.substr(0, line.find(';')));
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size, 16);
  if (error == std::errc::result_out_of_range) {
    return Bad(413);
  }
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return Bad(400);
  }
  if (size > HttpServer::kBodyBytesMax - request_.body.size()) {
    return Bad(413);
  }
  buffer_.erase(0, line.size() + 2);
  body_left_ = static_cast<std::size_t>(size);
  phase_ = size == 0 ? Phase::kTrailer : Phase::kChunkData;
  return Step::kGo;
}

RequestParser::Step RequestParser::StepChunkData() {
  if (buffer_.size() < body_left_ + 2) {
    return Step::kMore;
  }
  if (buffer_.compare(body_left_, 2, "\r\n") != 0) {
    return Bad(400);
  }
  request_.body.append(buffer_, 0, body_left_);
  buffer_.erase(0, body_left_ + 2);
  // Tiny chunks must not make the bound on line bytes bite before the body's own bound does.
  extra_bytes_ -= std::min(extra_bytes_, body_left_ + 8);
  phase_ = Phase::kChunkSize;
  return Step::kGo;
}

RequestParser::Step RequestParser::StepTrailer() {
  std::string_view line;
  if (!TakeLine(line)) {
    return extra_bytes_ + buffer_.size() > HttpServer::kHeaderBytesMax ? Bad(431) : Step::kMore;
  }
  if (extra_bytes_ > HttpServer::kHeaderBytesMax) {
    return Bad(431);
  }
  const bool last = line.empty();
  buffer_.erase(0, line.size() + 2);
  return last ? Step::kDone : Step::kGo;
}

}  // namespace understudy::transport::http
