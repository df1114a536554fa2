// Pieces that several records share.
#pragma once

#include "transport/codec/json_writer.h"
#include "understudy/transport/records.h"

namespace understudy::transport {

/// The members of an instance record behind `type`.
void WriteInstanceMembers(JsonWriter& json, const InstanceRecord& instance);

}  // namespace understudy::transport
