/* The binary border for latency models: how long a pass of the simulated engine takes, told by a
 * shared object that somebody else built. C99. `--latency-model FILE.so[:CONFIG]` loads one.
 *
 * A plugin exports one function, understudy_latency_model_entry_v1. Rules for both sides:
 * - Every struct begins with its own size. Members are only ever appended; whoever reads a struct
 *   uses no member beyond the size that it finds.
 * - abi_major must be equal; the plugin's abi_minor must not be above the host's.
 * - No exception and no longjmp crosses the border.
 * - The host never unloads a plugin whose create it has called.
 * - The host refuses, with a text that names the file, a table that is null, too small, of another
 *   version or has a null function.
 * Versions: 1.0 the first. */
/* NOLINTBEGIN(readability-identifier-naming): names as in C */
#ifndef UNDERSTUDY_MOCKER_LATENCY_MODEL_ABI_H_
#define UNDERSTUDY_MOCKER_LATENCY_MODEL_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UNDERSTUDY_LATENCY_MODEL_ABI_MAJOR 1
#define UNDERSTUDY_LATENCY_MODEL_ABI_MINOR 0
#define UNDERSTUDY_LATENCY_MODEL_ENTRY "understudy_latency_model_entry_v1"

/* Marks the entry function in a plugin that is built with hidden visibility. */
#if defined(__GNUC__)
#define UNDERSTUDY_LATENCY_MODEL_EXPORT __attribute__((visibility("default")))
#else
#define UNDERSTUDY_LATENCY_MODEL_EXPORT
#endif

/* What create makes; only the plugin knows what is inside. */
typedef struct understudy_latency_model understudy_latency_model;

/* The prompts that a pass computes. Means are rounded down. */
typedef struct understudy_latency_prefill {
  uint32_t struct_size;   /* bytes that the host filled */
  uint32_t reserved;      /* 0 */
  uint64_t requests;      /* at least 1 */
  uint64_t new_tokens;    /* mean tokens computed per request, at least 1 */
  uint64_t cached_tokens; /* mean tokens per request that were there already */
} understudy_latency_prefill;

/* The requests that get a token in a pass. */
typedef struct understudy_latency_decode {
  uint32_t struct_size;    /* bytes that the host filled */
  uint32_t reserved;       /* 0 */
  uint64_t requests;       /* at least 1 */
  uint64_t active_tokens;  /* tokens that the blocks in use could hold, of all requests */
  uint64_t context_tokens; /* mean length of a sequence */
  uint64_t total_tokens;   /* tokens that all blocks of the rank could hold; 0 = not known */
} understudy_latency_decode;

/* The plugin's functions. None may be null. */
typedef struct understudy_latency_model_v1 {
  uint32_t struct_size; /* sizeof(understudy_latency_model_v1) of the plugin's header */
  uint32_t abi_major;   /* UNDERSTUDY_LATENCY_MODEL_ABI_MAJOR */
  uint32_t abi_minor;   /* UNDERSTUDY_LATENCY_MODEL_ABI_MINOR */
  uint32_t reserved;    /* 0 */

  /* Makes a model. `config` is the text after FILE.so: on the command line, `config_size` bytes,
   * not terminated, borrowed for the call. Returns 0 and sets *out, or returns another number and
   * writes a terminated text for people into `error` (`error_size` bytes, at least 1). May block.
   * Called once per engine, by the thread that sets the engine up. */
  int32_t (*create)(const char* config,
                    size_t config_size,
                    understudy_latency_model** out,
                    char* error,
                    size_t error_size);

  /* Frees a model. Called once, after the last call of the other functions returned; any thread. */
  void (*destroy)(understudy_latency_model* model);

  /* Milliseconds that the prefill takes: finite, 0 or more. Called by any number of engine threads
   * at once on one model, once per pass: must not block, and the same question gets the same
   * answer, or runs cannot be repeated. `batch` is borrowed for the call. The host also asks once
   * right after create and refuses a model whose answer is no time. Later answers that are none
   * count as 0. */
  double (*prefill_ms)(const understudy_latency_model* model,
                       const understudy_latency_prefill* batch);

  /* The same for the decode. Answers below 1 ms count as 1 ms: two tokens of a request never share
   * a time. */
  double (*decode_ms)(const understudy_latency_model* model,
                      const understudy_latency_decode* batch);
} understudy_latency_model_v1;

/* The one function that a plugin exports. The table is the plugin's and lives as long as the
 * plugin. Any thread, does not block. */
typedef const understudy_latency_model_v1* (*understudy_latency_model_entry_fn)(void);
UNDERSTUDY_LATENCY_MODEL_EXPORT const understudy_latency_model_v1*
understudy_latency_model_entry_v1(void);

#ifdef __cplusplus
}
#endif

#endif /* UNDERSTUDY_MOCKER_LATENCY_MODEL_ABI_H_ */
/* NOLINTEND(readability-identifier-naming) */
