/* Latency models that are wrong in one way each; FAULT says in which. */
#include "understudy/mocker/latency_model_abi.h"

#include <math.h>
#include <stdio.h>

#define NO_ENTRY 1
#define NULL_TABLE 2
#define OTHER_MAJOR 3
#define LATER_MINOR 4
#define SMALL_TABLE 5
#define NULL_FUNCTION 6
#define CREATE_FAILS 7
#define NO_MODEL 8
#define NAN_AT_ONCE 9
#define NEGATIVE_LATER 10

struct understudy_latency_model {
  int unused;
};

static struct understudy_latency_model the_model;

static int32_t create(const char* config,
                      size_t config_size,
                      understudy_latency_model** out,
                      char* error,
                      size_t error_size) {
  if (FAULT == CREATE_FAILS) {
    snprintf(error, error_size, "no table for '%.*s'", (int)config_size, config);
    return 7;
  }
  *out = FAULT == NO_MODEL ? NULL : &the_model;
  return 0;
}

static void destroy(understudy_latency_model* model) {
  (void)model;
}

static double prefill_ms(const understudy_latency_model* model,
                         const understudy_latency_prefill* batch) {
  (void)model;
  if (FAULT == NAN_AT_ONCE) {
    return NAN;
  }
  return batch->requests > 1 ? -1.0 : 2.0;
}

static double decode_ms(const understudy_latency_model* model,
                        const understudy_latency_decode* batch) {
  (void)model;
  return batch->requests > 2 ? NAN : batch->requests > 1 ? 1e30 : 2.0;
}

static const understudy_latency_model_v1 table = {
    .struct_size = FAULT == SMALL_TABLE ? 24 : sizeof(understudy_latency_model_v1),
    .abi_major = FAULT == OTHER_MAJOR ? 2 : UNDERSTUDY_LATENCY_MODEL_ABI_MAJOR,
    .abi_minor = FAULT == LATER_MINOR ? 9 : UNDERSTUDY_LATENCY_MODEL_ABI_MINOR,
    .create = create,
    .destroy = destroy,
    .prefill_ms = prefill_ms,
    .decode_ms = FAULT == NULL_FUNCTION ? NULL : decode_ms,
};

#if FAULT == NO_ENTRY
UNDERSTUDY_LATENCY_MODEL_EXPORT const void* some_other_function(void);
const void* some_other_function(void) {
  return &table;
}
#else
const understudy_latency_model_v1* understudy_latency_model_entry_v1(void) {
  return FAULT == NULL_TABLE ? NULL : &table;
}
#endif
