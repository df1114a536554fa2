#include "plugin/mocker/config/config_form.h"

#include "understudy/mocker/engine_config.h"
#include "understudy/mocker/json_reader.h"

namespace understudy::mocker {

std::optional<ConfigForm> FormOf(std::string_view json) {
  std::optional<ConfigForm> form;
  JsonReader reader(json, JsonReader::Paths::kOmitted);
  const bool read = reader.Object("", [&](std::string_view key) {
    const bool flat = IsFlatMember(key);
    if (!form && flat != IsNestedMember(key)) {
      form = flat ? ConfigForm::kFlat : ConfigForm::kNested;
    }
    return reader.Skip();
  });
  return read ? form : std::nullopt;
}

}  // namespace understudy::mocker
