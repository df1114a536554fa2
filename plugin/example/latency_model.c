/* The smallest useful latency model: times that grow with the tokens of a pass.
 * Config: "PREFILL_US_PER_TOKEN DECODE_MS", for example "15 8.5"; empty: 10 and 6. */
#include "understudy/mocker/latency_model_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_BYTES_MAX 63

struct understudy_latency_model {
  double prefill_ms_per_token;
  double decode_ms;
};

static int32_t create(const char* config,
                      size_t config_size,
                      understudy_latency_model** out,
                      char* error,
                      size_t error_size) {
  double prefill_us = 10.0;
  double decode_ms = 6.0;
  char text[CONFIG_BYTES_MAX + 1] = "";
  if (config_size > CONFIG_BYTES_MAX) {
    snprintf(error, error_size, "config of %zu bytes, limit %d", config_size, CONFIG_BYTES_MAX);
    return 1;
  }
  memcpy(text, config, config_size);
  if (config_size > 0 && sscanf(text, "%lf %lf", &prefill_us, &decode_ms) != 2) {
    snprintf(error, error_size, "config '%s', expected two numbers: us per token and ms", text);
    return 1;
  }
  understudy_latency_model* model = malloc(sizeof(*model));
  if (model == NULL) {
    snprintf(error, error_size, "out of memory");
    return 1;
  }
  model->prefill_ms_per_token = prefill_us / 1000.0;
  model->decode_ms = decode_ms;
  *out = model;
  return 0;
}

static void destroy(understudy_latency_model* model) {
  free(model);
}

static double prefill_ms(const understudy_latency_model* model,
                         const understudy_latency_prefill* batch) {
  return model->prefill_ms_per_token * (double)(batch->requests * batch->new_tokens);
}

static double decode_ms(const understudy_latency_model* model,
                        const understudy_latency_decode* batch) {
  /* A microsecond for each thousand tokens that the batch looks back at. */
  return model->decode_ms + 1e-6 * (double)(batch->requests * batch->context_tokens);
}

const understudy_latency_model_v1* understudy_latency_model_entry_v1(void) {
  static const understudy_latency_model_v1 table = {
      .struct_size = sizeof(table),
      .abi_major = UNDERSTUDY_LATENCY_MODEL_ABI_MAJOR,
      .abi_minor = UNDERSTUDY_LATENCY_MODEL_ABI_MINOR,
      .create = create,
      .destroy = destroy,
      .prefill_ms = prefill_ms,
      .decode_ms = decode_ms,
  };
  return &table;
}
