// What a process subscribes to for the endpoints that it serves.
#pragma once

#include <string>
#include <vector>

namespace understudy::worker {

/// One subscription for all subjects that differ from `subject` in their last token only.
inline std::string Wildcard(const std::string& subject) {
  return subject.substr(0, subject.rfind('.')) + ".*";
}

/// Of endpoints that have an `instance` each. `share`: they stand under one prefix of their own.
template <class Endpoint>
std::vector<std::string> SubjectsOf(const std::vector<Endpoint>& endpoints, bool share) {
  if (share && !endpoints.empty()) {
    return {Wildcard(endpoints.front().instance.transport_value)};
  }
  std::vector<std::string> subjects;
  for (const Endpoint& endpoint : endpoints) {
    subjects.push_back(endpoint.instance.transport_value);
  }
  return subjects;
}

}  // namespace understudy::worker
