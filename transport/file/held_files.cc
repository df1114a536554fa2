#include "transport/file/held_files.h"

#include <algorithm>
#include <set>
#include <utility>

namespace understudy::transport::file {

Status HeldFiles::Put(std::vector<Record> records) {
  for (Record& record : records) {
    const bool known = std::any_of(held_.begin(), held_.end(), [&](const Held& held) {
      return held.record.key == record.key;
    });
    if (known) {
      continue;
    }
    UNDERSTUDY_TRY(const auto outcome, store_.Create(record));
    held_.push_back({std::move(record), outcome == FileStore::Outcome::kCreated});
  }
  return {};
}

Status HeldFiles::Remove(const Held& held) const {
  return held.ours ? store_.Remove(held.record.key) : Status();
}

Status HeldFiles::Delete(const std::vector<std::string>& keys) {
  Status status;
  const std::set<std::string> gone(keys.begin(), keys.end());
  std::erase_if(held_, [&](const Held& held) {
    if (gone.count(held.record.key) == 0) {
      return false;
    }
    if (auto removed = Remove(held); !removed && status) {
      status = std::move(removed);
    }
    return true;
  });
  return status;
}

Status HeldFiles::DeleteAll() {
  Status status;
  // The last published goes first: the reverse of the order that readers saw them come.
  for (auto held = held_.rbegin(); held != held_.rend(); ++held) {
    if (auto removed = Remove(*held); !removed && status) {
      status = std::move(removed);
    }
  }
  held_.clear();
  return status;
}

Status HeldFiles::TouchOne(Held& held, std::size_t& missing) const {
  UNDERSTUDY_TRY(const auto presence,
                 held.ours ? store_.Touch(held.record.key) : store_.Look(held.record.key));
  if (presence == FileStore::Presence::kThere) {
    return {};
  }
  missing += held.ours ? 1 : 0;
  UNDERSTUDY_TRY(const auto outcome, store_.Create(held.record));
  held.ours = held.ours || outcome == FileStore::Outcome::kCreated;
  return {};
}

HeldFiles::Beat HeldFiles::Touch() {
  Beat beat;
  std::set<std::string> buckets;
  // Ours first, so that the clean-up behind cannot take them.
  for (Held& held : held_) {
    if (auto touched = TouchOne(held, beat.missing); !touched && beat.status) {
      beat.status = std::move(touched);
    }
  }
  for (const Held& held : held_) {
    const std::string& key = held.record.key;
    if (buckets.insert(key.substr(0, key.find('/', key.find('/') + 1))).second) {
      store_.Expire(key);
    }
  }
  return beat;
}

}  // namespace understudy::transport::file
