/* Threads share a map, a table's worth of rules each: no lock of their own. */
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, EACH = 2000 };

static fanread_map *map;

static void *work(void *number) {
  uint64_t me = (uint64_t)(uintptr_t)number, value;
  EXPECT(fanread_last_error()[0] == '\0');
  for (uint64_t i = 0; i < EACH; i++) {
    uint64_t key = i * THREADS + me;
    DONE(fanread_map_u64_insert(map, key, me, NULL));
    DONE(fanread_map_u64_get(map, key, &value));
    EXPECT(value == me);
    /* All threads count in one entry. */
    fanread_status status;
    uint64_t old = 0;
    status = fanread_map_u64_get_or_insert(map, UINT64_MAX, 0, &old);
    EXPECT(status == FANREAD_OK || status == FANREAD_REFUSED);
    EXPECT(status == FANREAD_REFUSED || old == 0);
    do {
      status = fanread_map_u64_compare_exchange(map, UINT64_MAX, old, old + 1, &old);
    } while (status == FANREAD_REFUSED);
    EXPECT(status == FANREAD_REPLACED);
    if (i % 3 == 0) DONE(fanread_map_u64_remove(map, key, NULL));
  }
  EXPECT(fanread_map_u64_get(NULL, me, &value) == FANREAD_NULL);
  EXPECT(fanread_last_error()[0] != '\0');
  return NULL;
}

static void *walk(void *cursor) {
  uint64_t last = 0, key;
  for (int first = 1; fanread_cursor_next(cursor) == FANREAD_OK; first = 0) {
    DONE(fanread_cursor_u64_key(cursor, &key));
    EXPECT(first || key > last);
    last = key;
  }
  return NULL;
}

int main(void) {
  for (int kind = FANREAD_ORDERED_MAP; kind <= FANREAD_SKIP_LIST; kind++) {
    pthread_t threads[THREADS], walker;
    fanread_cursor *cursor;
    DONE(fanread_map_new(kind, FANREAD_U64_VALUES, NULL, &map));
    /* A cursor goes from the thread that made it to another one. */
    DONE(fanread_cursor_new(map, &cursor));
    for (uintptr_t i = 0; i < THREADS; i++)
      EXPECT(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    EXPECT(pthread_create(&walker, NULL, walk, cursor) == 0);
    for (int i = 0; i < THREADS; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT(pthread_join(walker, NULL) == 0);
    DONE(fanread_cursor_free(cursor));
    size_t len;
    uint64_t count;
    DONE(fanread_map_len(map, &len));
    EXPECT(len == THREADS * (EACH - (EACH + 2) / 3) + 1);
    DONE(fanread_map_u64_get(map, UINT64_MAX, &count));
    EXPECT(count == THREADS * EACH);
    DONE(fanread_map_free(map));
  }
  puts("threads: ok");
  return 0;
}
