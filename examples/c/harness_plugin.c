/* A plugin for the harness that times indexes from outside (plugin.h): one map of fanread behind it, chosen when it is compiled.
 *
 *   cc -O2 -fPIC -shared -DKIND='"ordered-map"' harness_plugin.c $(pkg-config --cflags --libs fanread) -o ordered-map.so
 *   lab_bench --index ./ordered-map.so --dataset url --keys 1M
 *
 * Maps on numbers ("u64-map", "mlp-index") take the keys of 8 bytes only, by the functions for numbers: -DNUMBERS=1.
 */
#include <fanread.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

#ifndef KIND
#define KIND "ordered-map"
#endif
#ifndef NUMBERS
#define NUMBERS 0
#endif

/* Lookups that are translated at a time. */
#define CHUNK 64

/* Calls after which memory may be used again that maps gave up; `fanread bench` does as much. */
#define REPIN_EVERY 256

/* A worker's pin, from when it enters to when it exits, and the map under it: its calls need none of their own. A thread that has
 * not entered takes the map as it is. The model says that the variable is found without a call. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
  fanread_guard *guard;
  void *map;
  const fanread_map *held;
  uint32_t calls;
} worker;

void idx_thread_enter(void *h) {
  if (fanread_pin(&worker.guard) != FANREAD_OK) return;
  if (fanread_guard_map(worker.guard, h, &worker.held) == FANREAD_OK) worker.map = h;
}

void idx_thread_exit(void *h) {
  (void)h;
  worker.map = NULL;
  fanread_unpin(worker.guard);
  worker.guard = NULL;
}

/* The map for a call. */
static const fanread_map *map_of(void *h) {
  if (worker.map != h) return h;
  if (++worker.calls % REPIN_EVERY == 0) fanread_repin(worker.guard);
  return worker.held;
}

/* The number that eight bytes spell, the highest first. */
static uint64_t number_of(const void *key) {
  const uint8_t *b = key;
  return (uint64_t)b[0] << 56 | (uint64_t)b[1] << 48 | (uint64_t)b[2] << 40 | (uint64_t)b[3] << 32 |
         (uint64_t)b[4] << 24 | (uint64_t)b[5] << 16 | (uint64_t)b[6] << 8 | (uint64_t)b[7];
}

void *idx_create(uint64_t expected_keys) {
  fanread_map *map;
  (void)expected_keys;
  return fanread_map_new_named(KIND, FANREAD_U64_VALUES, NULL, &map) == FANREAD_OK ? map : NULL;
}

void idx_destroy(void *h) { fanread_map_free(h); }

const char *idx_name(void) { return "fanread/" KIND; }

uint32_t idx_flags(void) { return IDX_F_MT | (NUMBERS ? IDX_F_KEY8 : 0); }

/* What a call of fanread is to the harness. */
static int outcome(fanread_status status, fanread_status yes) {
  return status < 0 ? -1 : status == yes;
}

int idx_insert(void *h, const void *key, uint32_t klen, uint64_t value) {
  const fanread_map *map = map_of(h);
  fanread_status status = NUMBERS ? fanread_map_u64_insert(map, number_of(key), value, NULL)
                                  : fanread_map_insert(map, key, klen, value, NULL);
  return outcome(status, FANREAD_OK);
}

int idx_get(void *h, const void *key, uint32_t klen, uint64_t *value_out) {
  const fanread_map *map = map_of(h);
  fanread_status status = NUMBERS ? fanread_map_u64_get(map, number_of(key), value_out)
                                  : fanread_map_get(map, key, klen, value_out);
  return outcome(status, FANREAD_OK);
}

int idx_update(void *h, const void *key, uint32_t klen, uint64_t value) {
  const fanread_map *map = map_of(h);
  fanread_status status = NUMBERS ? fanread_map_u64_replace(map, number_of(key), value, NULL)
                                  : fanread_map_replace(map, key, klen, value, NULL);
  return outcome(status, FANREAD_REPLACED);
}

int idx_remove(void *h, const void *key, uint32_t klen) {
  const fanread_map *map = map_of(h);
  fanread_status status = NUMBERS ? fanread_map_u64_remove(map, number_of(key), NULL)
                                  : fanread_map_remove(map, key, klen, NULL);
  return outcome(status, FANREAD_OK);
}

int idx_lower_bound(void *h, const void *key, uint32_t klen, uint64_t *value_out) {
  const fanread_map *map = map_of(h);
  fanread_status status =
      NUMBERS ? fanread_map_u64_find(map, FANREAD_AT_OR_ABOVE, number_of(key), NULL, value_out)
              : fanread_map_find(map, FANREAD_AT_OR_ABOVE, key, klen, NULL, value_out);
  return outcome(status, FANREAD_OK);
}

uint64_t idx_get_batch(void *h, const void *const *keys, const uint32_t *klens, uint32_t n,
                       uint64_t *values_out) {
  const fanread_map *map = map_of(h);
  uint64_t all = 0;
  for (uint32_t at = 0; at < n; at += CHUNK) {
    uint32_t count = n - at < CHUNK ? n - at : CHUNK;
    size_t hits = 0;
    if (NUMBERS) {
      uint64_t numbers[CHUNK];
      for (uint32_t i = 0; i < count; i++) numbers[i] = number_of(keys[at + i]);
      fanread_map_u64_get_batch(map, numbers, count, values_out + at, NULL, &hits);
    } else {
      fanread_bytes strings[CHUNK];
      for (uint32_t i = 0; i < count; i++) {
        strings[i].data = keys[at + i];
        strings[i].len = klens[at + i];
      }
      fanread_map_get_batch(map, strings, count, values_out + at, NULL, &hits);
    }
    all += hits;
  }
  return all;
}

struct scan {
  uint64_t visited, sum;
};

/* Takes some entries of a scan; 0 is for more. */
static int32_t visit(void *context, const fanread_bytes *keys, const uint64_t *values, size_t count) {
  struct scan *scan = context;
  for (size_t i = 0; i < count; i++) scan->sum += values[i] + keys[i].data[keys[i].len - 1];
  scan->visited += count;
  return 0;
}

static int32_t visit_numbers(void *context, const uint64_t *keys, const uint64_t *values, size_t count) {
  struct scan *scan = context;
  for (size_t i = 0; i < count; i++) scan->sum += values[i] + (keys[i] & 255);
  scan->visited += count;
  return 0;
}

uint64_t idx_scan(void *h, const void *start_key, uint32_t klen, uint32_t count,
                  uint64_t *value_sum) {
  const fanread_map *map = map_of(h);
  struct scan scan = {0, 0};
  fanread_status status =
      NUMBERS ? fanread_map_u64_scan_chunks(map, FANREAD_AT_OR_ABOVE, number_of(start_key), count,
                                            visit_numbers, &scan)
              : fanread_map_scan_chunks(map, FANREAD_AT_OR_ABOVE, start_key, klen, count, visit, &scan);
  *value_sum = scan.sum;
  return status < 0 ? 0 : scan.visited;
}

uint64_t idx_memory(void *h) {
  fanread_memory usage;
  return fanread_map_memory_usage(h, &usage) == FANREAD_OK ? usage.total_bytes : 0;
}
