/* A map for tests of `fanread bench --index FILE.so`: a sorted array of keys of up to 32 bytes, with faults by -D. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

struct entry {
  unsigned char key[32];
  uint32_t len;
  uint64_t value;
};

struct map {
  struct entry *entries;
  size_t count, room;
};

/* The place of a key, or where it would be. */
static size_t place(const struct map *map, const void *key, uint32_t len, int *there) {
  size_t low = 0, high = map->count;
  *there = 0;
  while (low < high) {
    size_t mid = (low + high) / 2;
    const struct entry *entry = &map->entries[mid];
    int order = memcmp(entry->key, key, entry->len < len ? entry->len : len);
    if (order == 0) order = (entry->len > len) - (entry->len < len);
    if (order == 0) {
      *there = 1;
      return mid;
    }
    if (order < 0) low = mid + 1;
    else high = mid;
  }
  return low;
}

void *idx_create(uint64_t expected_keys) {
  (void)expected_keys;
  return calloc(1, sizeof(struct map));
}

void idx_destroy(void *h) {
  free(((struct map *)h)->entries);
  free(h);
}

const char *idx_name(void) { return "array"; }

int idx_insert(void *h, const void *key, uint32_t klen, uint64_t value) {
  struct map *map = h;
  int there;
  size_t at = place(map, key, klen, &there);
#ifdef FAILS
  return -1;
#endif
  if (klen > sizeof map->entries->key) return -1;
  if (!there) {
    if (map->count == map->room) {
      map->room = map->room ? 2 * map->room : 64;
      map->entries = realloc(map->entries, map->room * sizeof *map->entries);
    }
    memmove(&map->entries[at + 1], &map->entries[at], (map->count - at) * sizeof *map->entries);
    memcpy(map->entries[at].key, key, klen);
    map->entries[at].len = klen;
    map->count++;
  }
  map->entries[at].value = value;
  return !there;
}

#ifndef LACKS_GET
int idx_get(void *h, const void *key, uint32_t klen, uint64_t *value_out) {
  struct map *map = h;
  int there;
  size_t at = place(map, key, klen, &there);
  if (there) *value_out = map->entries[at].value;
#ifdef LIES
  if (there && at % 1000 == 7) *value_out ^= 1u << 20;
#endif
  return there;
}
#endif

uint64_t idx_scan(void *h, const void *start_key, uint32_t klen, uint32_t count, uint64_t *value_sum) {
  struct map *map = h;
  int there;
  size_t at = place(map, start_key, klen, &there), end = at + count < map->count ? at + count : map->count;
  *value_sum = 0;
  for (size_t i = at; i < end; i++)
    *value_sum += map->entries[i].value + map->entries[i].key[map->entries[i].len - 1];
#ifdef LIES
  *value_sum += 1u << 20;
#endif
  return end - at;
}

int idx_remove(void *h, const void *key, uint32_t klen) {
  struct map *map = h;
  int there;
  size_t at = place(map, key, klen, &there);
  if (there) {
    map->count--;
    memmove(&map->entries[at], &map->entries[at + 1], (map->count - at) * sizeof *map->entries);
  }
  return there;
}

#ifdef FLAGS
uint32_t idx_flags(void) { return FLAGS; }
#endif
