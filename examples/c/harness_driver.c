/* Loads a plugin for the harness (plugin.h), and compares every answer with a plain sorted array: what the harness does, in small.
 *
 *   cc harness_driver.c -ldl -pthread -o harness_driver
 *   ./harness_driver ./ordered-map.so
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

enum { KEYS = 20000, LONGEST = 40, BATCH = 100 };

struct key {
  uint8_t bytes[LONGEST];
  uint32_t len;
  uint64_t value;
  int is_there;
};

static struct key keys[KEYS];

#define EXPECT(truth)                                              \
  do {                                                             \
    if (!(truth)) {                                                \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #truth); \
      exit(1);                                                     \
    }                                                              \
  } while (0)

static uint64_t drawn = 88172645463325252ull;

static uint64_t draw(void) {
  drawn ^= drawn << 13;
  drawn ^= drawn >> 7;
  drawn ^= drawn << 17;
  return drawn;
}

static int compare(const void *a, const void *b) {
  const struct key *x = a, *y = b;
  int order = memcmp(x->bytes, y->bytes, x->len < y->len ? x->len : y->len);
  return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Different keys, sorted. */
static size_t make_keys(int only_8) {
  for (size_t i = 0; i < KEYS; i++) {
    struct key *key = &keys[i];
    key->len = only_8 ? 8 : 1 + (uint32_t)(draw() % LONGEST);
    for (uint32_t at = 0; at < key->len; at++)
      key->bytes[at] = (uint8_t)(only_8 ? draw() : at < 20 ? 'a' + draw() % 2 : draw());
    key->value = 1 + (draw() >> 3);
  }
  qsort(keys, KEYS, sizeof keys[0], compare);
  size_t count = 1;
  for (size_t i = 1; i < KEYS; i++)
    if (compare(&keys[count - 1], &keys[i]) != 0) keys[count++] = keys[i];
  return count;
}

/* The functions of a plugin. */
static struct {
  void *(*create)(uint64_t);
  void (*destroy)(void *);
  const char *(*name)(void);
  uint32_t (*flags)(void);
  int (*insert)(void *, const void *, uint32_t, uint64_t);
  int (*get)(void *, const void *, uint32_t, uint64_t *);
  int (*update)(void *, const void *, uint32_t, uint64_t);
  int (*removal)(void *, const void *, uint32_t);
  int (*lower_bound)(void *, const void *, uint32_t, uint64_t *);
  uint64_t (*get_batch)(void *, const void *const *, const uint32_t *, uint32_t, uint64_t *);
  uint64_t (*scan)(void *, const void *, uint32_t, uint32_t, uint64_t *);
  uint64_t (*memory)(void *);
  void (*enter)(void *);
  void (*exit)(void *);
} call;

/* Stores a function of the plugin. C has no cast from an object's pointer to a function's: the bytes are copied. */
static void take(void *so, const char *name, void *place, size_t size) {
  void *found = dlsym(so, name);
  EXPECT(found != NULL && size == sizeof found);
  memcpy(place, &found, size);
}

#define TAKE(so, field, name) take(so, name, &call.field, sizeof call.field)

static void *map;
static size_t count;

/* Each of two threads inserts every other key. */
static void *load(void *number) {
  call.enter(map);
  for (size_t i = (size_t)(uintptr_t)number; i < count; i += 2)
    EXPECT(call.insert(map, keys[i].bytes, keys[i].len, keys[i].value) == 1);
  call.exit(map);
  return NULL;
}

static void look(void) {
  uint64_t value;
  for (size_t i = 0; i < count; i++) {
    EXPECT(call.get(map, keys[i].bytes, keys[i].len, &value) == keys[i].is_there);
    if (keys[i].is_there) EXPECT(value == keys[i].value);
  }
  for (size_t i = 0; i < count; i += 7) {
    size_t next = i;
    while (next < count && !keys[next].is_there) next++;
    EXPECT(call.lower_bound(map, keys[i].bytes, keys[i].len, &value) == (next < count));
    if (next < count) EXPECT(value == keys[next].value);
    uint64_t sum = 0, want = 0, visited = 0;
    for (; next < count && visited < 100; next++) {
      if (!keys[next].is_there) continue;
      want += keys[next].value + keys[next].bytes[keys[next].len - 1];
      visited++;
    }
    EXPECT(call.scan(map, keys[i].bytes, keys[i].len, 100, &sum) == visited && sum == want);
  }
  for (size_t i = 0; i + BATCH <= count; i += BATCH) {
    const void *some[BATCH];
    uint32_t lens[BATCH];
    uint64_t values[BATCH], hits = 0;
    for (size_t at = 0; at < BATCH; at++) {
      some[at] = keys[i + at].bytes;
      lens[at] = keys[i + at].len;
      hits += (uint64_t)keys[i + at].is_there;
    }
    EXPECT(call.get_batch(map, some, lens, BATCH, values) == hits);
    for (size_t at = 0; at < BATCH; at++)
      EXPECT(values[at] == (keys[i + at].is_there ? keys[i + at].value : 0));
  }
}

int main(int argc, char **argv) {
  EXPECT(argc == 2);
  void *so = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!so) fprintf(stderr, "%s\n", dlerror());
  EXPECT(so != NULL);
  TAKE(so, create, "idx_create");
  TAKE(so, destroy, "idx_destroy");
  TAKE(so, name, "idx_name");
  TAKE(so, flags, "idx_flags");
  TAKE(so, insert, "idx_insert");
  TAKE(so, get, "idx_get");
  TAKE(so, update, "idx_update");
  TAKE(so, removal, "idx_remove");
  TAKE(so, lower_bound, "idx_lower_bound");
  TAKE(so, get_batch, "idx_get_batch");
  TAKE(so, scan, "idx_scan");
  TAKE(so, memory, "idx_memory");
  TAKE(so, enter, "idx_thread_enter");
  TAKE(so, exit, "idx_thread_exit");

  count = make_keys((call.flags() & IDX_F_KEY8) != 0);
  map = call.create(count);
  EXPECT(map != NULL);
  look();
  pthread_t threads[2];
  for (uintptr_t i = 0; i < 2; i++) EXPECT(pthread_create(&threads[i], NULL, load, (void *)i) == 0);
  for (int i = 0; i < 2; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
  for (size_t i = 0; i < count; i++) keys[i].is_there = 1;
  look();
  for (size_t i = 0; i < count; i += 3) {
    EXPECT(call.insert(map, keys[i].bytes, keys[i].len, 7) == 0);
    keys[i].value ^= 1;
    EXPECT(call.update(map, keys[i].bytes, keys[i].len, keys[i].value) == 1);
  }
  /* Once in a worker's way, once without, as above. */
  call.enter(map);
  look();
  for (size_t i = 0; i < count; i++) {
    if (draw() % 4 == 0) continue;
    EXPECT(call.removal(map, keys[i].bytes, keys[i].len) == 1);
    EXPECT(call.removal(map, keys[i].bytes, keys[i].len) == 0);
    EXPECT(call.update(map, keys[i].bytes, keys[i].len, 1) == 0);
    keys[i].is_there = 0;
  }
  look();
  call.exit(map);
  EXPECT(call.memory(map) > 0);
  call.destroy(map);
  printf("%s: ok\n", call.name());
  return 0;
}
